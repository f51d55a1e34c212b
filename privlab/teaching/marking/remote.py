"""What lives on the other side of the pipe: functions, graphs of autograd and models, used here as if they were here.

Each side gives the other numbers for what it may call, and nothing else crosses but data (`serialisation`). While one waits for a reply it
answers what the other asks: a check asks an answer, which asks the check's model, whose hook asks the answer.

- A function is called where it lives.
- A tensor that needs a gradient crosses as its values. Its backward pass is a question to the side that holds its graph: what is the
  product of this with your Jacobian? The reply may need a gradient itself, so any order of derivative can be had.
- A model stays with its check, and the answer gets its twin (`twins`).
"""

from __future__ import annotations

import builtins
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privlab.teaching.marking import serialisation
from privlab.teaching.marking.twins import Owner, Twin

WORDS = 600  # letters of what an exception says
BAD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError, struct.error)


class Lost(BaseException):
    """The other process ended, or sent what is no answer. Not an Exception: a check must not take it for the answer's own."""


class Link:
    """One end of the pipes.  source, to: descriptors.  answering: whether this is the answer's end.  gone: says how the other ended."""

    def __init__(self, source: int, to: int, answering: bool, gone: Callable[[], str] = str) -> None:
        self.source, self.to, self.answering, self.gone = source, to, answering, gone
        self.tried: list[str] = []  # what the answer reached for and may not have
        self._exports: list[tuple[Callable[..., Any], Sequence[Tensor]]] = []
        self._twins: list[Twin] = []

    def export(self, function: Callable[..., Any], roots: Sequence[Tensor] = ()) -> int:
        """A number by which the other side can call a function.  roots: tensors here that its result depends on."""
        self._exports.append((function, roots))
        return len(self._exports) - 1

    def function(self, number: int) -> Callable[..., Any]:
        """A function of the other side's."""

        def yours(*args: Any, **kwargs: Any) -> Any:
            return self.call(number, args, kwargs)

        yours.__qualname__ = yours.__name__  # as a check's reason may print it
        return yours

    def call(self, number: int, args: Sequence[Any], kwargs: dict[str, Any], roots: Sequence[Tensor] = ()) -> Any:
        """What a function of the other side's returns, or raises.  roots: tensors here, the twins of those it was exported with."""
        for twin in self._twins:
            twin.push()
        message, sent = self._packed([list(args), kwargs])
        self._send(message | {"call": number, "grad": torch.is_grad_enabled()})
        reply = self.reply()
        try:
            for place, theirs in serialisation.decode(reply.get("after", {"dict": []})).items():
                serialisation.update(args[place], theirs)
            if "raised" not in reply:
                return self._unpacked(reply, [*roots, *sent])[0]
            error = exception(reply)
        except BAD:
            raise Lost("what it answered is not what an answer can be") from None
        raise error

    def reply(self) -> dict[str, Any]:
        """The next reply; what is asked before it comes is answered."""
        while True:
            try:
                message = serialisation.receive(self.source)
                if not isinstance(message, dict):
                    raise ValueError("no message")
            except EOFError:
                raise Lost(self.gone()) from None
            except (ValueError, RecursionError, MemoryError):
                raise Lost("what it answered is not what an answer can be") from None
            if "tried" in message:
                self.tried = list(dict.fromkeys([*self.tried, str(message["tried"])[:60]]))[:3]
            elif "call" in message:
                self.answer(message)
            else:
                return message

    def answer(self, message: dict[str, Any]) -> None:
        """Answer one question."""
        try:
            reply = self._called(message)
        except BaseException as error:
            reply = self._stopped(error)
        try:
            self._send(reply)
        except ValueError as error:
            self._send(as_data(error))

    def _stopped(self, error: BaseException) -> dict[str, Any]:
        if not self.answering and not isinstance(error, Exception):
            raise error
        return as_data(error)  # an answer may raise SystemExit and the like as well

    def _send(self, message: dict[str, Any]) -> None:
        try:
            serialisation.send(self.to, message)
        except BrokenPipeError:
            raise Lost(self.gone()) from None

    def _called(self, message: dict[str, Any]) -> dict[str, Any]:
        number = message["call"]
        if type(number) is not int or not 0 <= number < len(self._exports):
            raise ValueError(f"nothing to call is numbered {number!r:.20}")
        function, roots = self._exports[number]
        (args, kwargs), inputs = self._unpacked(message, [])
        before = _states(args)
        try:
            with torch.set_grad_enabled(bool(message["grad"])):
                result = function(*args, **kwargs)
                reply = self._packed(result, [*roots, *inputs])[0]
        except BaseException as error:
            reply = self._stopped(error)
        if self.answering:
            for twin in self._twins:
                twin.push()
            changed = {k: v for k, v in _states(args).items() if v != before[k]}
            reply |= {"after": {"dict": [[k, v] for k, v in changed.items()]}} if changed else {}
        return reply

    # -- what is sent -----------------------------------------------------------------------------------------------------

    def _packed(self, value: Any, inputs: Sequence[Tensor] | None = None) -> tuple[dict[str, Any], list[Tensor]]:
        """A value as a message, and the tensors of it whose gradient the other side may ask for.

        inputs: for a result, what it can depend on; None for arguments, which depend on each other.
        """
        tensors: dict[int, Tensor] = {}

        def graph(tensor: Tensor) -> Any:
            tensors[id(tensor)] = tensor
            return {"graph": list(tensors).index(id(tensor))}

        follow = torch.is_grad_enabled() if inputs is None else bool(inputs)
        other = self._exported if inputs is None else serialisation.by_kind
        message: dict[str, Any] = {"value": serialisation.encode(value, other, graph if follow else None)}
        outputs = {n for n, t in enumerate(tensors.values()) if inputs is not None or _depends(t, tensors.values())}
        leaves = [t for n, t in enumerate(tensors.values()) if n not in outputs]
        message["tensors"] = [[n in outputs, serialisation.encode(t.detach())] for n, t in enumerate(tensors.values())]
        if outputs:
            ends, starts = [t for n, t in enumerate(tensors.values()) if n in outputs], [*(inputs or ()), *leaves]
            message["pull"] = self.export(_pulling(ends, starts), starts)
        return message, leaves

    def _exported(self, value: object) -> Any:
        if isinstance(value, nn.Module) and not self.answering:
            owner = Owner(value)
            methods: tuple[Callable[..., Any], ...] = (owner.forward, owner.set, owner.hook, owner.unhook)
            return {"model": [owner.tree(value), *map(self.export, methods)]}
        if callable(value):
            return {"function": self.export(value)}
        return serialisation.refuse(value) if not self.answering else serialisation.by_kind(value)

    # -- what is received -------------------------------------------------------------------------------------------------

    def _unpacked(self, message: dict[str, Any], inputs: list[Tensor]) -> tuple[Any, list[Tensor]]:
        """The value of a message, and the tensors that its sender may ask for the gradient of."""
        tensors = [(bool(output), serialisation.decode(content)) for output, content in message.get("tensors", [])]
        leaves = [t.requires_grad_() for output, t in tensors if not output]
        values = [t for output, t in tensors if output]
        outputs: Iterator[Tensor] = iter(())
        if values:
            pull = message["pull"]
            outputs = iter(_Pulled.apply(self, pull, len(values), *values, *inputs, *leaves))
        plain = iter(leaves)
        here = [next(outputs) if output else next(plain) for output, _ in tensors]

        def other(kind: str, content: Any) -> Any:
            if kind == "graph":
                return here[content]
            if kind == "function":
                return self.function(content)
            if kind == "model" and self.answering:
                self._twins.append(Twin(content[0], *map(self.function, content[1:])))
                return self._twins[-1].root
            raise ValueError(f"{kind} is no kind of value")

        return serialisation.decode(message["value"], other), leaves


class _Pulled(torch.autograd.Function):
    """Tensors whose graph is on the other side."""

    @staticmethod
    def forward(ctx: Any, link: Link, pull: int, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.link, ctx.pull, ctx.count = link, pull, count
        ctx.save_for_backward(*tensors[count:])
        return tuple(t.clone() for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        inputs = ctx.saved_tensors
        gradients = ctx.link.call(ctx.pull, cotangents, {}, inputs)
        if not isinstance(gradients, tuple) or len(gradients) != len(inputs):
            raise Lost("what it answered is not what an answer can be")
        return (None,) * (3 + ctx.count) + gradients


def _pulling(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Callable[..., Any]:
    def pull(*cotangents: Tensor) -> Any:
        if not inputs:
            return ()
        graph = torch.is_grad_enabled()
        return torch.autograd.grad(
            outputs, inputs, cotangents, retain_graph=True, create_graph=graph, allow_unused=True
        )

    return pull


def _depends(tensor: Tensor, others: Any) -> bool:
    """Whether a tensor's graph leads to another of these."""
    others = [t for t in others if t is not tensor]
    if tensor.grad_fn is None or not others:
        return False
    ones = torch.ones_like(tensor)
    return any(g is not None for g in torch.autograd.grad(tensor, others, ones, retain_graph=True, allow_unused=True))


def _states(args: Sequence[Any]) -> dict[int, Any]:
    """Arguments as data; what only runs through once is left alone."""
    return {
        k: serialisation.encode(x, serialisation.by_kind) for k, x in enumerate(args) if not isinstance(x, Iterator)
    }


# -- exceptions ----------------------------------------------------------------------------------------------------------------


def as_data(error: BaseException) -> dict[str, Any]:
    """An exception as data."""
    return {"raised": [kind.__name__ for kind in type(error).__mro__], "text": text_of(error)}


def text_of(error: BaseException) -> str:
    """What an exception says."""
    try:
        return str(error)[:WORDS]
    except BaseException:  # somebody else's class
        return ""


def exception(reply: dict[str, Any]) -> Exception:
    """What the other side raised, as an exception of ours with its name, that a check may catch by what it is."""
    kinds = [str(kind)[:60] for kind in list(reply["raised"])] or ["Exception"]
    builtin = (getattr(builtins, kind, None) for kind in kinds)
    base = next((k for k in builtin if isinstance(k, type) and issubclass(k, Exception)), Exception)
    text = str(reply.get("text", ""))
    return type(kinds[0], (base,), {"__init__": lambda self: None, "__str__": lambda self: text})()
