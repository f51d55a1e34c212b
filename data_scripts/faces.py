"""Make the faces that you have ready for lab 03: check their layout, and write the one file that the lab reads.

python data_scripts/faces.py utkface --from ~/UTKFace            20,000 faces of 64x64 into $PRIVLAB_DATA, or the user's cache
python data_scripts/faces.py celeba --from ~/data --size 224     ~/data/celeba/img_align_celeba/... as torchvision lays it out

Nothing is downloaded: the authors of these sets hand them out themselves, under terms that you accept there.
"""

from __future__ import annotations

import argparse
import sys

from privlab.data import attributes


def main() -> int:
    homes = "\n".join(f"{name:9} {home}" for name, home in attributes.HOMES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"Where to ask:\n{homes}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(attributes.READERS), help="which set")
    parser.add_argument("--from", dest="folder", required=True, metavar="FOLDER", help="where its files are")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default: 64)")
    parser.add_argument("--limit", type=int, default=20_000, help="how many faces (default: 20,000)")
    parser.add_argument("--to", metavar="DIR", help="the folder to keep the sets in")
    options = parser.parse_args()
    try:
        print(attributes.prepare(options.name, options.folder, options.size, options.limit, to=options.to))
    except (ValueError, OSError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
