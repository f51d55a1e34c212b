"""Values as JSON, for a pipe to a process that is not trusted: numbers, words, tensors, and collections of them. No pickle.

Reading builds nothing but these, and never calls what the other side named.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import os
import struct
from collections.abc import Callable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab.models.morph_steps import Step

MOST = 16_000_000  # bytes of a message
DEPTH = 20  # of collections in collections
KINDS = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
_COLLECTIONS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
# dataclasses of plain values that answers are asked with; another that should cross goes here
_RECORDS: dict[str, Any] = {"step": Step}


class NoData(BaseException):
    """A value that cannot cross. Not an Exception: a check that asks an answer must not take it for the answer's own."""


def refuse(value: object) -> Any:
    raise NoData(type(value).__name__)


def by_kind(value: object) -> Any:
    """What stands for a value that is no data: the name of its class."""
    return {"other": type(value).__name__}


def encode(
    value: object, other: Callable[[object], Any] = refuse, graph: Callable[[Tensor], Any] | None = None, depth: int = 0
) -> Any:
    """A value as JSON.

    other: what stands for a value that is no data, such as a function.  graph: for a tensor that needs a gradient; else it is a leaf there.
    """
    if value is None or type(value) in (bool, str, float) or (type(value) is int and value.bit_length() < 1000):
        return value
    if value is ...:
        return {"dots": None}
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, Fraction) and value.numerator.bit_length() < 1000 > value.denominator.bit_length():
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, Tensor):
        return graph(value) if graph and value.requires_grad else _tensor(value, other)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcU" and value.nbytes <= MOST / 2:
        array = np.ascontiguousarray(value)
        return {"array": [array.dtype.str, np.shape(value), _text(array.tobytes()), isinstance(value, np.generic)]}
    if depth < DEPTH:
        if isinstance(value, Mapping):
            return {"dict": [[encode(x, other, graph, depth + 1) for x in pair] for pair in value.items()]}
        if isinstance(value, list | tuple | set | frozenset):
            kind = next(kind for kind, cls in _COLLECTIONS.items() if isinstance(value, cls))
            return {kind: [encode(x, other, graph, depth + 1) for x in value]}
        if isinstance(value, KeysView | ValuesView | range):
            return encode(list(value), other, graph, depth)
        if isinstance(value, Iterator):
            return {"iterator": [encode(x, other, graph, depth + 1) for x in value]}
        for kind, record in _RECORDS.items():
            if type(value) is record:
                return {
                    kind: {
                        f.name: encode(getattr(value, f.name), other, graph, depth + 1) for f in fields(_RECORDS[kind])
                    }
                }
    return other(value)


def decode(content: Any, other: Callable[[str, Any], Any] | None = None) -> Any:
    """The value back.  Raises some Exception or other for what `encode` did not make.

    other: makes the value of a kind that is not known here, of its name and what is in it.
    """
    if not isinstance(content, dict):
        return _plain(content)
    ((kind, inside),) = content.items()
    if kind == "dots":
        return ...
    if kind == "complex":
        return complex(*map(float, inside))
    if kind == "fraction":
        return Fraction(*map(operator.index, inside))
    if kind == "tensor":
        return _tensor_back(*inside)
    if kind == "array":
        return _array_back(*inside)
    if kind == "dict":
        return {decode(key, other): decode(value, other) for key, value in inside}
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind]([decode(x, other) for x in inside])
    if kind == "iterator":
        return iter([decode(x, other) for x in inside])
    if kind in _RECORDS:
        return _RECORDS[kind](**{name: decode(value, other) for name, value in inside.items()})
    if kind == "other":
        return type(str(inside), (), {})()  # an empty thing with the name of what could not cross
    if other:
        return other(kind, inside)
    raise ValueError(f"{kind} is no kind of value")


def _plain(content: Any) -> Any:
    if isinstance(content, list) or (isinstance(content, int) and content.bit_length() >= 1000):
        raise ValueError("no value")
    return content


def _array_back(name: str, shape: list[int], text: str, single: bool) -> Any:
    dtype = np.dtype(str(name))
    if dtype.kind not in "biufcU" or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array of {dtype}")
    array = np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()
    return array[()] if single else array


def _tensor(value: Tensor, other: Callable[[object], Any]) -> Any:
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in KINDS or value.layout is not torch.strided or value.is_meta or value.nbytes > MOST / 2:
        return other(value)
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return {"tensor": [kind, list(value.shape), _text(plain.view(torch.uint8).numpy().tobytes()), value.requires_grad]}


def _tensor_back(kind: str, shape: list[int], text: str, graph: bool) -> Tensor:
    if kind not in KINDS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"a tensor of {kind}, {shape}")
    content = bytearray(base64.b64decode(text))
    dtype = getattr(torch, kind)
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"a tensor of {shape} in {len(content)} bytes")
    if not content:
        return torch.empty(shape, dtype=dtype).requires_grad_(bool(graph))
    if kind == "bool":
        return torch.frombuffer(content, dtype=torch.uint8).ne(0).reshape(shape)
    return torch.frombuffer(content, dtype=dtype).reshape(shape).clone().requires_grad_(bool(graph))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def update(mine: Any, theirs: Any) -> None:
    """Make an argument what the other process made of its copy, in place."""
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        mine.data = theirs.detach()
        if mine.is_leaf:
            mine.requires_grad_(theirs.requires_grad)
    elif isinstance(mine, np.ndarray):
        mine[...] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, list):
        mine[:] = theirs


# -- a pipe -----------------------------------------------------------------------------------------------------------------


def send(to: int, message: Any) -> None:
    """Write a message, its length first.  Raises ValueError where it is longer than MOST."""
    content = json.dumps(message).encode()
    if len(content) > MOST:
        raise ValueError(f"{len(content):,} bytes are more than the {MOST:,} that an answer may take")
    _write(to, struct.pack("<I", len(content)) + content)


def receive(source: int) -> Any:
    """The next message.  Raises EOFError where there is none to come, ValueError for one that is too long or no JSON."""
    (length,) = struct.unpack("<I", _read(source, 4))
    if length > MOST:
        raise ValueError(f"a message of {length:,} bytes")
    return json.loads(_read(source, length))


def _write(to: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(to, view) :]


def _read(source: int, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        piece = os.read(source, length - len(content))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)
