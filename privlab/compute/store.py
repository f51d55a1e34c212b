"""The run store: what took long to compute, kept under a name made from its settings, so that it is computed once.

A run lives in `root/KIND/KEY`, KEY being a hash of its configuration. Files are written whole or not at all, so a job
that is killed leaves nothing half-written behind, and the next one goes on from the files that are there. A run counts
only after `finish()`; from then on it never changes, and every file read is checked against the hash taken then.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from privlab.compute import places, reading
from privlab.compute.atomic import shared_lock, write_atomic

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = [
    "Run", "digest", "environment", "folder", "from_bytes", "joined", "key", "keyed", "parted", "to_bytes", "versions", "write_atomic"
]  # fmt: skip

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_DONE = "complete.json"  # file name -> sha256; its presence is what makes a run complete
_CONFIG = "config.json"


def folder() -> Path:
    """Where runs are kept: $PRIVLAB_STORE, or ~/.cache/privlab/store."""
    return places.cached("PRIVLAB_STORE", "store")


def key(config: Mapping[str, Any]) -> str:
    """The name of a configuration: the SHA-256 of its canonical JSON, 64 hexadecimal digits.

    config: nested dicts with text keys, lists or tuples, text, numbers, booleans, None. The order of keys does not
    count, a tuple is a list, and a whole number is the same number as int and as float.
    Raises ValueError for anything else, naming where it stands: a path, NaN, a tensor.
    """
    return hashlib.sha256(_canonical(config).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Releases of the packages that results hang on; one release of torch counts the same however it was built (2.12.0+cpu)."""
    return {package: metadata.version(package).split("+")[0] for package in ("torch", "timm")}


def environment(format: int, device: str | torch.device) -> dict[str, Any]:
    """What every result hangs on beside its settings; see `keyed` for the arguments."""
    return {"format": format, "device": torch.device(device).type, "versions": versions()}


def keyed(
    kind: str,
    settings: Mapping[str, Any],
    *,
    format: int,
    device: str | torch.device = "cpu",
    root: Path | str | None = None,
) -> Run:
    """The run of a computation, under a key of all that its result hangs on: its settings, and its `environment`.

    kind, root: see `Run`.  settings: as `key` takes them.
    format: a number that the module raises when the same settings begin to give another result.
    device: what computes; its kind counts ("cuda"), and not which of several it is.
    Raises ValueError for settings that name a part of the environment themselves.
    """
    surroundings = environment(format, device)
    if twice := surroundings.keys() & settings.keys():
        raise ValueError(f"settings hold {min(twice)!r}, which every key has already; leave it out")
    return Run(kind, {**settings, **surroundings}, root)


class Run:
    """One long computation and its results.

    kind: what it is, such as "victim"; a folder name.  config: all that its result depends on, see `key`.
    root: `folder()` if not given; may be read-only as long as the run is complete.

    Several processes may work at the same run. Of two that save the same name the last one counts, as both computed
    the same; once one of them has finished, what the others still save is dropped.
    """

    def __init__(self, kind: str, config: Mapping[str, Any], root: Path | str | None = None) -> None:
        self.kind, self.config = _checked_name("kind", kind), json.loads(_canonical(config))
        self.path = Path(root or folder()) / kind / key(config)[:32]
        self._finished_here = False

    @classmethod
    def at(cls, path: Path | str) -> Run:
        """The complete run in this folder, as another process handed it on.

        Raises FileNotFoundError where there is none, ValueError for one whose configuration is not the one that the folder is named by.
        """
        path = Path(path)
        if missing := [name for name in (_CONFIG, _DONE) if not (path / name).is_file()]:
            raise FileNotFoundError(f"{path} holds no complete run ({missing[0]} is missing); make it again")
        with _guarded(path / _CONFIG):
            run = cls(path.parent.name, reading.json_file(path / _CONFIG), path.parent.parent)
            if run.path.name != path.name:
                raise ValueError("it is not what its folder is named by")
        return run

    def __repr__(self) -> str:
        state = "complete" if self.complete else "not complete"
        return f"Run {self.kind}/{self.path.name[:8]}: {state}, holds {', '.join(self.names()) or 'nothing'}"

    @property
    def complete(self) -> bool:
        """Whether some process has finished this run."""
        return (self.path / _DONE).exists()

    def names(self) -> list[str]:
        """Names of the tensors and notes saved so far."""
        files = [*self.path.glob("*.safetensors"), *self.path.glob("*.json")]
        return sorted({f.stem for f in files if f.name not in (_DONE, _CONFIG)})

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors under a name; saving the name again replaces them (a checkpoint)."""
        contiguous = torch.contiguous_format  # and cloned, since no two may share memory
        plain = {n: t.detach().cpu().clone(memory_format=contiguous) for n, t in tensors.items()}
        self._write(f"{_checked_name('name', name)}.safetensors", safetensors.torch.save(plain))

    def load(self, name: str) -> dict[str, Tensor]:
        """The tensors saved under a name, on the CPU.  Raises FileNotFoundError, or ValueError for a corrupt file."""
        content, path = self._read(f"{_checked_name('name', name)}.safetensors")
        with _guarded(path):
            return safetensors.torch.load(content)

    def shapes(self, name: str) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors saved under a name, from the head of its file; nothing where there is none yet."""
        path = self.path / f"{_checked_name('name', name)}.safetensors"
        if not path.exists():
            return {}
        with _guarded(path), safetensors.safe_open(path, framework="pt") as file:
            return {n: tuple(file.get_slice(n).get_shape()) for n in file.keys()}  # noqa: SIM118

    def note(self, name: str, content: Any) -> None:
        """Keep something as JSON under a name: a trace, an accuracy.  Raises ValueError for what JSON does not know."""
        try:
            text = json.dumps(content, indent=1, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"note {name!r} does not fit into JSON: {error}; save tensors with save()") from None
        self._write(f"{_checked_name('name', name)}.json", text.encode())

    def read(self, name: str) -> Any:
        """What `note` kept under a name.  Raises FileNotFoundError, or ValueError for a corrupt file."""
        content, path = self._read(f"{_checked_name('name', name)}.json")
        with _guarded(path):
            return json.loads(content)

    def finish(self) -> None:
        """Declare the run complete: it now holds all that it will ever hold."""
        with self._lock():
            if not self.complete:
                # Left by a writer that was killed: all that live wait for the lock.
                for left in self.path.glob(".*.safetensors.*"):
                    left.unlink(missing_ok=True)
                files = sorted([*self.path.glob("*.safetensors"), *self.path.glob("*.json")])
                hashes = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
                write_atomic(self.path / _DONE, json.dumps(hashes, indent=1).encode())
        self._finished_here = True

    def _write(self, name: str, content: bytes) -> None:
        if self._finished_here:
            raise RuntimeError(
                f"cannot add {name} after finish(): {self!r}; a different result needs a different config"
            )
        if self.complete:
            return
        with self._lock():
            if not self.complete:
                write_atomic(self.path / name, content)

    def _lock(self) -> FileLock:
        """Keeps a late writer from replacing a file between its hash and the end of `finish`."""
        if not (self.path / _CONFIG).exists():
            write_atomic(self.path / _CONFIG, json.dumps(self.config, indent=1).encode())
        return shared_lock(self.path / ".lock")

    def _read(self, name: str) -> tuple[bytes, Path]:
        path = self.path / name
        if not path.exists():
            raise FileNotFoundError(f"{self!r}, but no {name}")
        hashes: dict[str, str] | None = None
        if self.complete:
            with _guarded(self.path / _DONE):
                hashes = reading.typed(Mapping[str, str], reading.json_file(self.path / _DONE))
        with _guarded(path):
            content = path.read_bytes()
            if hashes is not None and hashlib.sha256(content).hexdigest() != hashes.get(name):
                raise ValueError("it is not what the run finished with")
        return content, path


def joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several dicts of tensors as one, "part.name" -> tensor, because files are whole only one by one.  `parted` undoes it."""
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def parted(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """What `joined` made one, as several dicts again; a part that held nothing is not there."""
    parts: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        part, _, name = full.partition(".")
        parts.setdefault(part, {})[name] = tensor
    return parts


def from_bytes(content: bytes) -> Tensor:
    """Bytes as a tensor, so that they can lie in the same file as others.  `to_bytes` undoes it."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def to_bytes(tensor: Tensor) -> bytes:
    """The bytes that `from_bytes` made a tensor."""
    return tensor.numpy().tobytes()


def digest(*tensors: Tensor) -> str:
    """The contents of these tensors, type and shape included, in 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _canonical(config: Mapping[str, Any]) -> str:
    if not isinstance(config, Mapping):
        raise ValueError(f"config={config!r} is a {type(config).__name__}; give a dict of settings")
    return json.dumps(_plain(config, "config"), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        if odd := [k for k in value if not isinstance(k, str)]:
            raise ValueError(f"{where} has the key {odd[0]!r}; keys must be text")
        return {k: _plain(v, f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, os.PathLike):
        raise ValueError(
            f"{where}={os.fspath(value)!r} is a path, and the file may lie elsewhere tomorrow; give its hash, or its name as text"
        )
    kind = type(value).__name__
    raise ValueError(
        f"{where}={value!r} ({kind}) has no fixed text form; give finite numbers, text, None, lists or dicts"
    )


def _checked_name(argument: str, name: str) -> str:
    if not _NAME.fullmatch(name) or f"{name}.json" in (_DONE, _CONFIG):
        raise ValueError(
            f"{argument}={name!r} cannot name a file of a run; try small letters, digits and _, as in 'weights'"
        )
    return name


def _guarded(path: Path) -> AbstractContextManager[None]:
    return reading.guarded(path, "is corrupt", f"delete the folder {path.parent} and run again")
