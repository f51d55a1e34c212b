"""Make photographs that you have ready for the labs: check their layout, and write the one file that is read.

python data_scripts/prepare.py attributes utkface --from ~/UTKFace                   20,000 faces of 64x64, for lab 03
python data_scripts/prepare.py attributes celeba --from ~/data --size 224            ~/data/celeba/img_align_celeba/..., as of torchvision
python data_scripts/prepare.py identities facescrub --from ~/facescrub --size 224    ~/facescrub/actors/faces/NAME/*.jpg and actresses/...
python data_scripts/prepare.py identities celeba_people --from ~/data --size 64      ~/data/celeba/..., with identity_CelebA.txt
python data_scripts/prepare.py identities stanford_dogs --from ~/dogs --size 224     ~/dogs/Images/n02085620-Chihuahua/*.jpg, Annotation/...
python data_scripts/prepare.py identities ffhq --from ~/ffhq --size 64               ~/ffhq/thumbnails128x128/00000/00000.png ...

They go into $PRIVLAB_DATA, or the user's cache. Nothing is downloaded: the authors of these sets hand them out themselves, under terms
that you accept there.
"""

import argparse
import sys

from privlab.data import attributes, identities

KINDS = {"attributes": attributes, "identities": identities}


def main() -> int:
    homes = "\n".join(f"{name:14} {home}" for kind in KINDS.values() for name, home in kind.HOMES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"Where to ask:\n{homes}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND", help="attributes of faces, or identities")
    for kind, module in KINDS.items():
        of_kind = kinds.add_parser(kind)
        of_kind.add_argument("name", choices=sorted(module.READERS), help="which set")
        of_kind.add_argument("--from", dest="folder", required=True, metavar="FOLDER", help="where its files are")
        of_kind.add_argument("--size", type=int, default=64, help="side in pixels (default: 64)")
        most = 20_000 if kind == "attributes" else None
        of_kind.add_argument("--limit", type=int, default=most, help=f"photographs at most (default: {most or 'all'})")
        of_kind.add_argument("--seed", type=int, default=0, help="of the draw, where there is a limit (default: 0)")
        of_kind.add_argument("--to", metavar="DIR", help="the folder to keep the sets in")
    options = parser.parse_args()
    module, name = KINDS[options.kind], options.name
    try:
        print(module.prepare(name, options.folder, options.size, limit=options.limit, seed=options.seed, to=options.to))
        if options.kind == "identities":
            images = identities.load(name, options.size, options.to)
            whole = identities.PEOPLE[name]
            print(f"{len(images):,} photographs, {len(images.classes):,} of {whole:,} classes", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
