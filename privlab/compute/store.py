"""The run store: what took long to compute, kept under a name made from its settings, so that it is computed once.

Files are written whole or not at all, so the next job goes on from those that a killed one left. A run counts only after `finish()`.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from privlab.compute.files import guarded, write_atomic


def folder() -> Path:
    """Where runs are kept: $PRIVLAB_STORE, or ~/.cache/privlab/store."""
    return Path(os.environ.get("PRIVLAB_STORE") or "~/.cache/privlab/store").expanduser()


def key(config: Mapping[str, Any]) -> str:
    """The name of a configuration: the SHA-256 of its canonical JSON, 64 hexadecimal digits.

    config: dicts with text keys, lists or tuples, text, finite numbers, truth values, None; else json's TypeError or ValueError. The order
    of keys does not count, a tuple is a list, and a whole number is the same as int and as float.
    """
    text = json.dumps(_plain(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def versions() -> dict[str, str]:
    """Releases of the packages that results hang on; one release of torch counts the same however it was built (2.12.0+cpu)."""
    return {package: metadata.version(package).split("+")[0] for package in ("torch", "timm")}


def environment(format: int, device: str | torch.device = "cpu") -> dict[str, Any]:
    """What every result hangs on beside its settings.  format: raised when they begin to give another result.  device: its kind counts."""
    return {"format": format, "device": torch.device(device).type, "versions": versions()}


class Run:
    """One long computation and its results.

    kind: what it is, such as "victim".  config: all that its result depends on, see `key`: its settings and its `environment`.
    path: its folder, `root/KIND/KEY`.  root: `folder()` if not given; may be read-only as long as the run is complete.
    Several processes may work at the same run: of two that save the same name the last one counts, as both computed the same.
    """

    def __init__(self, kind: str, config: Mapping[str, Any], root: Path | str | None = None) -> None:
        self.config, self.path = _plain(config), Path(root or folder()) / kind / key(config)[:32]

    @property
    def complete(self) -> bool:
        """Whether some process has finished this run."""
        return (self.path / "complete.json").exists()

    def names(self) -> list[str]:
        """Names of the tensors and notes saved so far."""
        return sorted({file.stem for file in self.path.glob("[!.]*")} - {"complete"})

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors under a name, copied, as no two may share memory; saving the name again replaces them (a checkpoint)."""
        plain = {n: t.detach().cpu().clone(memory_format=torch.contiguous_format) for n, t in tensors.items()}
        self._write(f"{name}.safetensors", safetensors.torch.save(plain))

    def load(self, name: str) -> dict[str, Tensor]:
        """The tensors saved under a name, on the CPU.  Raises FileNotFoundError, or ValueError for a corrupt file."""
        with guarded(path := self.path / f"{name}.safetensors", "is corrupt", "delete its folder and run again"):
            return safetensors.torch.load(path.read_bytes())

    def note(self, name: str, content: Any) -> None:
        """Keep something as JSON under a name: a trace, an accuracy.  Raises ValueError or TypeError for what JSON does not know."""
        self._write(f"{name}.json", json.dumps(content, indent=1, allow_nan=False).encode())

    def read(self, name: str) -> Any:
        """What `note` kept under a name.  Raises FileNotFoundError, or ValueError for a corrupt file."""
        with guarded(path := self.path / f"{name}.json", "is corrupt", "delete its folder and run again"):
            return json.loads(path.read_bytes())

    def finish(self) -> None:
        """Declare the run complete: it now holds all that it will ever hold, its configuration as well."""
        self.note("complete", self.config)

    def _write(self, name: str, content: bytes) -> None:
        if not self.complete:  # or another process was faster, and has computed the same
            write_atomic(self.path / name, content)


def joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several dicts of tensors as one, "part.name" -> tensor, for one file.  `parted` undoes it."""
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def parted(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """What `joined` made one, as several dicts again, without those that held nothing."""
    parts: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        part, _, name = full.partition(".")
        parts.setdefault(part, {})[name] = tensor
    return parts


def digest(*tensors: Tensor) -> str:
    """The contents of these tensors, type and shape included, in 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]
