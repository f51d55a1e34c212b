"""Bring MathJax and reveal.js into book/_static/vendor, so that the built book and the slides read without a network.

python data_scripts/vendor.py    does nothing where they lie there already; exit status 1 where they cannot be had

They come from npm by package name, through npm itself, or through an npm borrowed from PyPI where there is none. The packages are kept in
$PRIVLAB_DATA/vendor, or in the user's cache, and nothing of them is committed. MathJax 4 would fetch its fonts from outside.
"""

import os
import sys
import tarfile
import tempfile
from pathlib import Path

from privlab.compute.files import write_atomic
from privlab.data import downloads, sources

VENDOR = Path(__file__).resolve().parents[1] / "book/_static/vendor"
# of npm: package -> version, SHA-256 of its file, and place below VENDOR -> member; licences come along
MATHJAX = {"mathjax/tex-svg-full.js": "es5/tex-svg-full.js", "mathjax/LICENSE": "LICENSE"}
REVEAL = {
    f"reveal/{Path(of).name}": of for of in ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE")
}
PACKAGES = {
    "mathjax": ("3.2.2", "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09", MATHJAX),
    "reveal.js": ("5.2.1", "359b575dd51bbda32f89b2fd4c7dc46ad7389a805572158916c29252f7a27333", REVEAL),
}


def fetch(folder: Path = VENDOR) -> None:
    """Put what is missing into the folder.  Raises ConnectionError where npm has it not, or has another file."""
    for package, (version, digest, files) in PACKAGES.items():
        if all((folder / place).is_file() for place in files):
            continue
        tarball = downloads.File(f"{package}-{version}.tgz", [f"npm:{package}@{version}"], digest)
        with tempfile.TemporaryDirectory() as spare:
            kept = sources.folder() / "vendor" if os.access(sources.folder(), os.W_OK) else Path(spare)
            kept.mkdir(exist_ok=True)
            with tarfile.open(downloads.get(tarball, kept)) as tar:
                for place, member in files.items():
                    (folder / place).parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(folder / place, tar.extractfile(f"package/{member}").read())  # type: ignore[union-attr]


if __name__ == "__main__":
    try:
        fetch()
    except OSError as error:
        sys.exit(f"vendor: {error}; the book has formulas as TeX until python data_scripts/vendor.py finds a network")
