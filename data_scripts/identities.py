"""Make photographs of people (or dogs) that you have ready for model inversion: check their layout, and write the one file that is read.

python data_scripts/identities.py facescrub --from ~/facescrub --size 224    ~/facescrub/actors/faces/NAME/*.jpg and actresses/...
python data_scripts/identities.py celeba_people --from ~/data --size 64      ~/data/celeba/img_align_celeba/..., identity_CelebA.txt
python data_scripts/identities.py stanford_dogs --from ~/dogs --size 224     ~/dogs/Images/n02085620-Chihuahua/*.jpg, Annotation/...
python data_scripts/identities.py ffhq --from ~/ffhq --size 64               ~/ffhq/thumbnails128x128/00000/00000.png ...

Nothing is downloaded: the authors of these sets hand them out themselves, under terms that you accept there.
"""

from __future__ import annotations

import argparse
import sys

from privlab.data import identities


def main() -> int:
    homes = "\n".join(f"{name:14} {home}" for name, home in identities.HOMES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"Where to ask:\n{homes}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(identities.READERS), help="which set")
    parser.add_argument("--from", dest="folder", required=True, metavar="FOLDER", help="where its files are")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default: 64)")
    parser.add_argument("--limit", type=int, help="at most so many photographs (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw, where there is a limit (default: 0)")
    parser.add_argument("--to", metavar="DIR", help="the folder to keep the sets in")
    options = parser.parse_args()
    try:
        print(
            identities.prepare(
                options.name, options.folder, options.size, options.to, limit=options.limit, seed=options.seed
            )
        )
        made = identities.load(options.name, options.size, options.to)
    except (ValueError, OSError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    whole = identities.PEOPLE[options.name]
    print(f"{len(made):,} photographs, {len(made.classes):,} of {whole:,} classes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
