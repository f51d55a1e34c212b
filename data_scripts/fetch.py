"""Fetch the images and weights of this book, or check those that are here.

python data_scripts/fetch.py cifar10 orl           into $PRIVLAB_DATA, or the user's cache
python data_scripts/fetch.py --all --to /srv/data  one copy for a class; then set PRIVLAB_DATA=/srv/data on each machine
python data_scripts/fetch.py --list                what there is, its terms, and whether it is here
python data_scripts/fetch.py --verify              hash again everything that is here
"""

import argparse
import sys

from privlab.data import sources


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(sources.names())}")
    parser.add_argument("--all", action="store_true", help="every source")
    parser.add_argument("--list", action="store_true", help="say what there is, its size, terms and origins")
    parser.add_argument("--verify", action="store_true", help="hash what is here; without names, all of it")
    parser.add_argument("--to", metavar="DIR", help="the folder to keep the sources in")
    options = parser.parse_args()
    wanted = options.names or (sources.names() if options.all or options.list or options.verify else [])
    if not wanted:
        parser.error("say which NAME to fetch, or --all; --list shows what there is")
    if options.verify and not options.names:
        wanted = [name for name in wanted if sources.complete(name, options.to)]
        print(f"{len(wanted)} sources in {sources.folder(options.to)}")
    failed = False
    for name in wanted:
        try:
            if options.list:
                print(shown(name, options.to))
            elif options.verify and not sources.complete(name, options.to):
                raise FileNotFoundError(f"not in {sources.folder(options.to)}, or damaged; fetch it")
            else:
                print(f"{name}: {sources.fetch(name, options.to)}{', good' * options.verify}")
        except BrokenPipeError:  # `--list | head`
            return 1
        except (ValueError, OSError, RuntimeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


def shown(name: str, to: str | None) -> str:
    source = sources.describe(name)
    lines = [
        f"{name}  {source.title}: {source.about}  [{source.disk / 1e6:.1f} MB, {'' if sources.complete(name, to) else 'not '}here]"
    ]
    lines += [f"    {what:8} {getattr(source, what)}" for what in ("cite", "licence", "home")]
    lines += [f"    from     {', '.join(file.urls[0] for file in origin.files)}" for origin in source.origins]
    return "\n".join([*lines, *(f"    {ready}: {what}" for ready, what in source.layout.items())])


if __name__ == "__main__":
    sys.exit(main())
