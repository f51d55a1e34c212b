"""Where the images and weights come from: find them, check them, lay them out, once a machine.

`sources.toml` is the list. A prepared source is a folder of safetensors files beside a manifest that says where they came from; it
appears whole or not at all.
"""

import difflib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from pooch import file_hash

from privlab.compute.files import guarded, shared_folder
from privlab.data import downloads
from privlab.data.downloads import File

Where = str | os.PathLike[str] | None
MANIFEST = "manifest.json"


class Origin(NamedTuple):
    """One place where a source can be had: the files to download, and the one of `READERS` that makes arrays of them."""

    reader: str
    files: Sequence[File]


class Source(NamedTuple):
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
    layout: Mapping[str, str]
    origins: Sequence[Origin]
    contents: Mapping[str, str] = {}
    classes: Sequence[str] | str = ()


@functools.cache
def catalogue() -> dict[str, Source]:
    """Every source of `sources.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))
    for entry in table.values():
        entry["origins"] = [Origin(o["reader"], [File(**file) for file in o["files"]]) for o in entry["origins"]]
    return {name: Source(name, **entry) for name, entry in table.items()}


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


def complete(name: str, to: Where = None) -> dict[str, str]:
    """The files of a prepared source, and the SHA-256 that its manifest has of each.  Reads none of them through.

    Empty where the source is not there, a file lacks, or the manifest is another's, or of an older layout.
    """
    source, place = describe(name), folder(to) / name
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        files = {file: manifest["files"][file] for file in source.layout}
        known = all(files[file]["contents"] == contents for file, contents in source.contents.items())
        whole = manifest["source"] == name and known and all((place / file).is_file() for file in files)
        return {file: facts["sha256"] for file, facts in files.items()} if whole else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def splits(name: str) -> list[str]:
    """The splits that a set of images has, such as ["train", "test"].  Raises ValueError for an unknown name."""
    return [file.removesuffix(".safetensors") for file in describe(name).layout]


def fetch(name: str, to: Where = None) -> Path:
    """The folder with a source's ready files; where it is missing or incomplete, download and prepare it first.

    Every file is hashed when a process first asks for its source (CIFAR-10, 185 MB: a tenth of a second).
    name: one of `names()`.  to: the folder that holds the sources, see `folder`.
    PRIVLAB_OFFICIAL=0 in the environment skips the authors' addresses and goes straight to the packages.
    Raises ValueError for an unknown name and for a file whose bytes have changed, PermissionError where the folder is read-only and
    lacks the source, RuntimeError where no origin delivered (it names each, and why).
    """
    root = folder(to)
    if not (files := complete(name, to)):
        try:
            shared_folder(root / ".incoming")
            lock = FileLock(root / ".incoming" / f"{name}.lock", mode=0o666)
            alone = lock.acquire()  # the others wait, and find it done
        except OSError as error:
            why = f"{name!r} is not in {root}, and nothing can be written there ({error.strerror or error})"
            cure = f"run python data_scripts/fetch.py {name} --to {root}, or point PRIVLAB_DATA at a folder of your own"
            raise PermissionError(f"{why}; have its owner {cure}") from error
        with alone:
            if not complete(name, to):
                _prepare(describe(name), root)
        files = complete(name, to)
    for file, digest in files.items():
        check(root / name / file, digest, f"remove {root / name} and fetch {name!r} again")
    return root / name


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


def _prepare(source: Source, root: Path) -> None:
    """From the first origin that delivers; a file that has arrived is kept for the next try."""
    failures = []
    for origin in source.origins:
        address, size = " or ".join(origin.files[0].urls), sum(file.size or 0 for file in origin.files)
        if address.startswith("http") and os.environ.get("PRIVLAB_OFFICIAL") == "0":
            failures.append(f"{address}: it was skipped (PRIVLAB_OFFICIAL=0)")
            continue
        print(f"{source.name}: trying {address}, {size / 1e6:.0f} MB", flush=True)
        try:
            _lay_out(source, origin, root)
        except Exception as error:  # whatever is wrong with one origin, the next may do
            failures.append(str(error))
            print(f"  no: {error}", flush=True)
        else:
            shutil.rmtree(root / ".incoming" / source.name)
            print(f"{source.name}: ready, from {address}", flush=True)
            return
    tried = "; ".join(f"({i}) {failure}" for i, failure in enumerate(failures, 1))
    copy = f"the folder {source.name} copied from a machine that has it, and PRIVLAB_DATA set to the folder that holds the copy"
    cure = f"What would do: a network that reaches one of these, or {copy}"
    raise RuntimeError(f"{source.name} could not be had: {tried}. {cure}")


def _lay_out(source: Source, origin: Origin, root: Path) -> None:
    """Download, make the source's folder beside its place, and move it there in one step."""
    import numpy as np
    from safetensors.numpy import save_file

    from privlab.data import readers

    incoming = root / ".incoming" / source.name
    shared_folder(incoming)
    arrays = readers.READERS[origin.reader]([downloads.get(file, incoming) for file in origin.files])
    with tempfile.TemporaryDirectory(dir=incoming) as work:
        fresh, files = Path(work) / source.name, {}
        fresh.mkdir()
        for file in source.layout:
            ordered = {key: np.asarray(value, order="C") for key, value in arrays[file].items()}
            save_file(ordered, fresh / file, {"classes": json.dumps(_classes(source))} if source.classes else None)
            (fresh / file).chmod(0o644)  # safetensors writes for the owner alone, and a class shares one folder
            contents = fingerprint(fresh / file)
            if source.contents.get(file, contents) != contents:
                raise ValueError(f"the tensors of {file} hash to {contents}, expected {source.contents[file]}")
            files[file] = {"sha256": file_hash(fresh / file), "contents": contents}
        manifest = {"source": source.name, "origin": " or ".join(origin.files[0].urls), "files": files}
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


@functools.cache
def _hashed(path: Path, *facts: int) -> str:
    return str(file_hash(path))


def check(path: Path, expected: str, cure: str) -> None:
    """Raise in one line with the cure where the SHA-256 is another; an untouched file is hashed once a process."""
    with guarded(path, "cannot be read", cure):
        facts = path.stat()
        if (digest := _hashed(path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)) != expected:
            raise ValueError(f"it has changed: SHA-256 is {digest}, expected {expected}")
