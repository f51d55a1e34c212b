"""Make photographs that you have ready for the labs: check their layout, and write the one file that is read.

python data_scripts/prepare.py utkface --from ~/UTKFace                  20,000 faces of 64x64, for lab 03
python data_scripts/prepare.py celeba --from ~/data --size 224           ~/data/celeba/img_align_celeba/..., as of torchvision
python data_scripts/prepare.py facescrub --from ~/facescrub --size 224   ~/facescrub/actors/faces/NAME/*.jpg and actresses/...
python data_scripts/prepare.py celeba_people --from ~/data --size 64     ~/data/celeba/..., with identity_CelebA.txt
python data_scripts/prepare.py stanford_dogs --from ~/dogs --size 224    ~/dogs/Images/n02085620-Chihuahua/*.jpg, Annotation/...
python data_scripts/prepare.py ffhq --from ~/ffhq --size 64              ~/ffhq/thumbnails128x128/00000/00000.png ...

They go into $PRIVLAB_DATA, or the user's cache. Nothing is downloaded: the authors of these sets hand them out themselves, under terms
that you accept there.
"""

import argparse
import sys

from privlab.data import faces


def main() -> int:
    homes = "\n".join(f"{name:14} {layout.home}" for name, layout in faces.LAYOUTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"Where to ask:\n{homes}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(faces.LAYOUTS), help="which set")
    parser.add_argument("--from", dest="folder", required=True, metavar="FOLDER", help="where its files are")
    parser.add_argument("--size", type=int, default=64, help="side in pixels (default: 64)")
    parser.add_argument("--to", metavar="DIR", help="the folder to keep the sets in")
    options = parser.parse_args()
    try:
        print(faces.prepare(options.name, options.folder, options.size, options.to))
    except (ValueError, OSError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
