"""Where the images and weights come from: find them, check them, lay them out, once a machine.

`sources.toml` is the list. A prepared source is a folder of safetensors files beside a manifest that says where they
came from; `fetch` makes it, checks it and hands it out, `verify` hashes it again. A folder appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import errno
import functools
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privlab.compute import atomic
from privlab.data import downloads, integrity
from privlab.data.downloads import File, Origin

Where = str | os.PathLike[str] | None

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Source:
    """One entry of `sources.toml`.

    disk: bytes of the prepared folder.  layout: file -> what is in it.  origins: where to have it, in the order tried.
    contents: file -> SHA-256 over its tensors, whatever the origin.
    classes: the class names, or whose they are ("cifar10", "imagenet-1k", "person 1 to 40").
    """

    name: str
    title: str
    about: str
    cite: str
    licence: str
    home: str
    disk: int
    layout: dict[str, str]
    origins: tuple[Origin, ...]
    contents: dict[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] | str = ()


@functools.cache
def catalogue() -> dict[str, Source]:
    """Every source of `sources.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))
    return {name: _source(name, entry) for name, entry in table.items()}


def _source(name: str, entry: dict[str, Any]) -> Source:
    origins = tuple(
        Origin(**origin | {"files": tuple(File(**_frozen(file)) for file in origin["files"])})
        for origin in entry["origins"]
    )
    return Source(name, **_frozen(entry) | {"origins": origins})


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def names() -> list[str]:
    """The names that `fetch` knows."""
    return list(catalogue())


def describe(name: str) -> Source:
    """What `sources.toml` says of a source. Raises ValueError, with the nearest name, for one that it does not list."""
    if name not in catalogue():
        raise ValueError(f"name={name!r} is not a known source{nearest(name, names())}")
    return catalogue()[name]


def nearest(name: str, choices: list[str]) -> str:
    """The end of a message about an unknown name: the likeliest known one, and all of them."""
    close = difflib.get_close_matches(str(name), choices, 1, 0.5)
    return (f"; did you mean {close[0]!r}?" if close else ";") + f" Known: {', '.join(choices)}"


def folder(to: Where = None) -> Path:
    """Where the sources are kept: `to`, or $PRIVLAB_DATA, or the user's cache. It need not exist yet."""
    return Path(to or os.environ.get("PRIVLAB_DATA") or "~/.cache/privlab/data").expanduser()


def complete(name: str, to: Where = None) -> bool:
    """Whether a prepared source is there: its manifest, and each of its files. Reads no file through."""
    return all((folder(to) / name / file).is_file() for file in describe(name).layout) and bool(_recorded(name, to))


def _recorded(name: str, to: Where) -> dict[str, str]:
    """File -> SHA-256 as the manifest has them; empty where it is another's, or of an older layout."""
    source = describe(name)
    try:
        manifest = json.loads((folder(to) / name / MANIFEST).read_text(encoding="utf-8"))
        files = {file: manifest["files"][file] for file in source.layout}
        known = all(files[file]["contents"] == contents for file, contents in source.contents.items())
        return {file: facts["sha256"] for file, facts in files.items()} if manifest["source"] == name and known else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def fetch(name: str, to: Where = None) -> Path:
    """The folder with a source's ready files; where it is missing or incomplete, download and prepare it first.

    Every file is hashed when a process first asks for its source (CIFAR-10, 185 MB: a tenth of a second).
    name: one of `names()`.  to: the folder that holds the sources, see `folder`.
    PRIVLAB_OFFICIAL=0 in the environment skips the authors' addresses and goes straight to the packages.
    Raises ValueError for an unknown name and for a file whose bytes have changed, PermissionError where the folder is read-only and
    lacks the source, OSError for a full disk, RuntimeError where no origin delivered (it names each, and why).
    """
    source, root = describe(name), folder(to)
    if not complete(name, to):
        with _alone(root, name):
            if not complete(name, to):  # else another process was faster
                _prepare(source, root)
    for file, digest in _recorded(name, to).items():
        integrity.check(root / name / file, digest, _cure(name, root / name))
    return root / name


def verify(name: str, to: Where = None) -> None:
    """Hash every prepared file of a source again, and its tensors too.

    Raises FileNotFoundError where the source is not there, ValueError where a file is not what was written.
    """
    source, place = describe(name), folder(to) / name
    if not place.exists():
        raise FileNotFoundError(f"{name!r} is not in {folder(to)}; fetch it first")
    if not complete(name, to):
        raise ValueError(
            f"{place} lacks a file, or its manifest is damaged or of an older layout; {_cure(name, place)}"
        )
    for file, expected in _recorded(name, to).items():
        if (digest := downloads.sha256(place / file)) != expected:
            raise ValueError(f"{place / file}: SHA-256 is {digest}, expected {expected}; {_cure(name, place)}")
        if (digest := fingerprint(place / file)) != (expected := source.contents.get(file, digest)):
            raise ValueError(f"{place / file}: its tensors hash to {digest}, expected {expected}; {_cure(name, place)}")


def _cure(name: str, place: Path) -> str:
    return f"remove {place} and fetch {name!r} again"


def fingerprint(path: Path) -> str:
    """SHA-256 over the tensors of a safetensors file: name, type, shape and bytes of each, in order of name."""
    from safetensors import safe_open

    digest = hashlib.sha256()
    with safe_open(path, framework="numpy") as file:
        for name in sorted(file.keys()):
            array = file.get_tensor(name)
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.data)
    return digest.hexdigest()


# -- preparing ---------------------------------------------------------------------------------------------------------


def _prepare(source: Source, root: Path) -> None:
    """From the first origin that delivers."""
    failures = []
    for origin in source.origins:
        if origin.by == "official" and os.environ.get("PRIVLAB_OFFICIAL") == "0":
            failures.append("the official address was skipped (PRIVLAB_OFFICIAL=0)")
            continue
        incoming = root / ".incoming" / source.name / origin.by
        atomic.shared_folder(incoming)
        print(f"{source.name}: trying {origin}, {origin.size / 1e6:.0f} MB", flush=True)
        try:
            _lay_out(source, origin, downloads.get(origin, incoming), root)
        except Exception as error:  # whatever is wrong with one origin, the next may do
            if getattr(error, "errno", None) == errno.ENOSPC:
                why = f"the disk of {root} is full; free some, or set PRIVLAB_DATA to another disk"
                raise OSError(errno.ENOSPC, why) from error
            failures.append(f"{origin}: {error}")
            print(f"  no: {error}", flush=True)
        else:
            shutil.rmtree(root / ".incoming" / source.name)
            print(f"{source.name}: ready, from {origin}", flush=True)
            return
    tried = "; ".join(f"({i}) {failure}" for i, failure in enumerate(failures, 1))
    raise RuntimeError(
        f"{source.name} could not be had: {tried}. What would do: a network that reaches one of these, or the folder "
        f"{source.name} copied from a machine that has it, and PRIVLAB_DATA set to the folder that holds the copy"
    )


def _lay_out(source: Source, origin: Origin, paths: list[Path], root: Path) -> None:
    """Turn downloads into the source's folder, beside its place, and move it there in one step."""
    import numpy as np
    from safetensors.numpy import save_file

    from privlab.data import readers

    with tempfile.TemporaryDirectory(dir=root / ".incoming" / source.name) as work:
        fresh, files = Path(work) / source.name, {}
        fresh.mkdir()
        try:
            arrays = readers.READERS[origin.reader](paths)
            for file in source.layout:
                ordered = {key: np.asarray(value, order="C") for key, value in arrays[file].items()}
                save_file(ordered, fresh / file, {"classes": json.dumps(_classes(source))} if source.classes else None)
                (fresh / file).chmod(0o644)  # safetensors writes for the owner alone, and a class shares one folder
                contents = fingerprint(fresh / file)
                if source.contents.get(file, contents) != contents:
                    raise ValueError(f"the tensors of {file} hash to {contents}, expected {source.contents[file]}")
                files[file] = {"sha256": downloads.sha256(fresh / file), "contents": contents}
        except Exception as error:  # a download without a published digest may hold anything
            if getattr(error, "errno", None):  # the disk's fault, not the file's
                raise
            for path in paths:
                path.unlink(missing_ok=True)
            raise ValueError(f"{', '.join(p.name for p in paths)} could not be read ({error}); removed") from error
        downloaded = [{"file": path.name, "sha256": downloads.sha256(path)} for path in paths]
        today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = {
            "source": source.name,
            "origin": str(origin),
            "downloaded": downloaded,
            "files": files,
            "prepared": today,
        }
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(root / source.name, ignore_errors=True)
        os.replace(fresh, root / source.name)


def _classes(source: Source) -> list[str]:
    if source.classes == "imagenet-1k":
        from timm.data import ImageNetInfo  # the names as timm ships them, in ImageNet's order

        info = ImageNetInfo("imagenet-1k")
        return [info.index_to_description(i) for i in range(info.num_classes())]
    if source.classes == "person 1 to 40":
        return [f"person {i}" for i in range(1, 41)]
    return _classes(describe(source.classes)) if isinstance(source.classes, str) else list(source.classes)


@contextlib.contextmanager
def _alone(root: Path, name: str) -> Iterator[None]:
    """Let one process at a time prepare a source; the others wait, and find it done."""
    from filelock import FileLock, Timeout

    try:
        atomic.shared_folder(root / ".incoming")
        lock = FileLock(root / ".incoming" / f"{name}.lock", mode=0o666)
        try:
            lock.acquire(timeout=0.1)
        except Timeout:
            print(f"{name}: another process is fetching it; waiting", flush=True)
            lock.acquire()
    except OSError as error:
        raise PermissionError(
            f"{name!r} is not in {root}, and nothing can be written there ({error.strerror or error}); have its owner "
            f"run python data_scripts/fetch.py {name} --to {root}, or point PRIVLAB_DATA at a folder of your own"
        ) from error
    try:
        yield
    finally:
        lock.release()
