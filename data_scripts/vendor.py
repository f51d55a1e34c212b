"""Bring the scripts that the book's pages need into book/_static/vendor, so that the built book reads without a network.

python data_scripts/vendor.py              does nothing where all of them lie there already
python data_scripts/vendor.py --check      only says whether they do

They come from npm by package name, through npm itself, or through an npm borrowed from PyPI where there is none. No wheel
would do instead: JupyterLab has MathJax and the widget manager in pieces that only JupyterLab can load. The packages are
kept in $PRIVLAB_DATA/vendor, or in the user's cache, so a second clone downloads nothing. Nothing of them is committed.

`embed.js` is the widget manager in one file without RequireJS, which gets in the way of other scripts of a page. reveal.js is
for `python -m privlab slides`. MathJax 4 would fetch its fonts from outside; 3.2.2 draws formulas as SVG.
Exit status: 1 where a file cannot be had.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import sys
import tarfile
import tempfile
from pathlib import Path

from privlab.compute.atomic import write_atomic
from privlab.data import downloads, sources

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "book/_static/vendor"

# (package, version, size and SHA-256 of npm's file) -> place in the folder -> (member, its SHA-256); licences come along
PACKAGES = {
    ("mathjax", "3.2.2", 6132118, "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09"): {
        "mathjax/tex-svg-full.js": (
            "es5/tex-svg-full.js",
            "a4354ff94fd868aea0cc6eaaa79a57fda0588646fc46ee3700a349ee0a11cbe6",
        ),
        "mathjax/LICENSE": ("LICENSE", "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"),
    },
    (
        "@jupyter-widgets/html-manager",
        "1.0.15",
        5142829,
        "2b9d65cb7913e1c7d671757a10008b32c9c2448d4429513371e55c07d6107638",
    ): {
        "widgets/embed.js": ("dist/embed.js", "8f6d2d3f856d8595d1841dec3019d99bbe74d331f2a5178c2a33bfec729e3d6a"),
        "widgets/embed.js.LICENSE.txt": (
            "dist/embed.js.LICENSE.txt",
            "aed2008aae8123157c4ae564883166b1af7bab928d504a1fa7de1f67aec11268",
        ),
        **{  # Font Awesome, for the icons of buttons
            f"widgets/{name}.woff2": (f"dist/{name}.woff2", digest)
            for name, digest in (
                ("1551f4f60c37af51121f", "9834b82ad26e2a37583d22676a12dd2eb0fe7c80356a2114d0db1aa8b3899537"),
                ("7a3337626410ca2f4071", "e42a88444448ac3d60549cc7c1ff2c8a9cac721034c073d80a14a44e79730cca"),
                ("d878b0a6a1144760244f", "8ea8791754915a898a3100e63e32978a6d1763be6df8e73a39d3a90d691cdeef"),
            )
        },
    },
    ("reveal.js", "5.2.1", 2377747, "359b575dd51bbda32f89b2fd4c7dc46ad7389a805572158916c29252f7a27333"): {
        "reveal/reveal.js": ("dist/reveal.js", "46538b52db48724192f59bf46f5e851a18e302777c46f4a34c32709d010d6a29"),
        "reveal/reveal.css": ("dist/reveal.css", "68f915a11ebf7203c0446576b7e952ff61c5dd02134a8a226ffaf62ed42136d2"),
        "reveal/notes.js": (
            "plugin/notes/notes.js",
            "df1201d19d03241a2897d39c3d38768177df1cbd4bde06327b321cb83461ae89",
        ),
        "reveal/LICENSE": ("LICENSE", "34014800f4126ac2525e224166f099f26628612e95c41f76d70841b63138c989"),
    },
}


def missing(folder: Path = VENDOR) -> list[str]:
    """The files that are not in the folder, or are not what they should be."""
    wanted = {place: digest for files in PACKAGES.values() for place, (_, digest) in files.items()}
    return [
        place
        for place, digest in wanted.items()
        if not (folder / place).is_file() or downloads.sha256(folder / place) != digest
    ]


def fetch(folder: Path = VENDOR) -> None:
    """Put every missing file into the folder, checked.

    Raises RuntimeError where npm fails or its registry is out of reach, ValueError for a file with another SHA-256.
    """
    gone = set(missing(folder))
    for (package, version, size, digest), files in PACKAGES.items():
        if gone & files.keys():
            name = f"{package.lstrip('@').replace('/', '-')}-{version}.tgz"
            tarball = downloads.File(name, digest, size)
            print(f"vendor: {package} {version} from npm ({size / 1e6:.1f} MB)", flush=True)
            with tempfile.TemporaryDirectory() as spare:
                origin = downloads.Origin("npm", "", (tarball,), package, version)
                (path,) = downloads.get(origin, _cache(Path(spare)))
                _unpack(path, files, folder)
    # The npm package of the manager names its licence and leaves the text out; the same project's Python package has it.
    licence = [file for file in importlib.metadata.files("ipywidgets") or [] if file.name == "LICENSE"]
    if licence:
        write_atomic(folder / "widgets/LICENSE", licence[0].read_binary())


def _cache(spare: Path) -> Path:
    """The folder that keeps npm's files; a spare one where the data folder is another's and read-only."""
    cache = sources.folder() / "vendor"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
    except OSError:
        return spare
    return cache


def _unpack(path: Path, files: dict[str, tuple[str, str]], folder: Path) -> None:
    with tarfile.open(path) as tar:
        for place, (member, digest) in files.items():
            file = tar.extractfile(f"package/{member}")
            content = file.read() if file else b""
            if (found := hashlib.sha256(content).hexdigest()) != digest:
                raise ValueError(
                    f"{member} of {path.name}: SHA-256 is {found}, expected {digest}; nothing was used of it"
                )
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / place, content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fetch nothing")
    parser.add_argument("--to", type=Path, default=VENDOR, metavar="FOLDER", help="(default: book/_static/vendor)")
    given = parser.parse_args()
    try:
        if not given.check and missing(given.to):
            fetch(given.to)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"vendor: {error}", file=sys.stderr)
    if gone := missing(given.to):
        print(
            f"vendor: {len(gone)} files are not in {given.to}, such as {gone[0]}. The book is built all the same: formulas "
            "stand there as TeX, and controls as text. With a network: python data_scripts/vendor.py",
            file=sys.stderr,
        )
    return int(bool(gone))


if __name__ == "__main__":
    sys.exit(main())
