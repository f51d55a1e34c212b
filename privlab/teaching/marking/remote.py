"""What lives on the other side of the pipe: functions, graphs of autograd and models, used here as if they were here.

Each side gives the other numbers for what it may call, and nothing else crosses but data (`serialisation`). While one waits for a reply it
answers what the other asks: a check asks an answer, which asks the check's model, whose hook asks the answer.

- A function is called where it lives.
- A tensor that needs a gradient crosses as its values. Its backward pass is a question to the side that holds its graph: what is the
  product of this with your Jacobian? The reply may need a gradient itself, so any order of derivative can be had.
- A model of `torch.nn`'s layers stays with its check. The answer gets its twin, made of the same classes, that computes nothing: passes and
  hooks are the check's model's, whatever is set on the twin is set there, and whatever a pass changes comes back. So what the check then
  finds in its model is so, and no report of the answer's.
"""

from __future__ import annotations

import builtins
import copy
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privlab.teaching.marking import serialisation

WORDS = 600  # letters of what an exception says
BAD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError, struct.error)
HOOKS = ("register_forward_hook", "register_forward_pre_hook")
OWN = {"forward", "_own", "__deepcopy__", *HOOKS}  # what a twin's layer has, beside what layers have
_PLAIN = vars(nn.Module()).keys() - {"training"}  # what every module has, beside its settings


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
        return lambda *args, **kwargs: self.call(number, args, kwargs)

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
            owner = Owner(value, self)
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
                self._twins.append(Twin(self, *content))
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


# -- models --------------------------------------------------------------------------------------------------------------------


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    both = (module._parameters | module._buffers).items()
    return {name: tensor for name, tensor in both if tensor is not None}


class Owner:
    """A model of the check's, as the answer's side may use it."""

    def __init__(self, root: nn.Module, link: Link) -> None:
        self.root, self.link = root, link
        self.handles: list[Any] = []

    def tree(self, module: nn.Module) -> Any:
        """What a twin is made of."""
        name = type(module).__name__
        if getattr(nn, name, None) is not type(module):
            raise serialisation.NoData(f"{name}, which is no layer of torch.nn,")
        settings = {k: v for k, v in vars(module).items() if k not in _PLAIN}
        tensors = {k: t.detach() for k, t in _tensors(module).items()}
        children = {k: self.tree(child) for k, child in module.named_children()}
        needing = {k: p.requires_grad for k, p in module._parameters.items() if p is not None}
        return {"kind": name, "parts": serialisation.encode([settings, tensors, needing]), "children": children}

    def forward(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """A pass of one of its layers, and the buffers as they then are."""
        result = self.root.get_submodule(path)(*args, **kwargs)
        return result, {name: buffer.detach() for name, buffer in self.root.named_buffers()}

    def set(self, path: str, settings: dict[str, Any], tensors: dict[str, Tensor], needing: dict[str, bool]) -> None:
        """Settings, parameters and buffers of a layer, and which of them need a gradient; only such as it has."""
        module = self.root.get_submodule(path)
        for name, value in settings.items():
            if name in _PLAIN or name not in vars(module) or callable(value):
                raise ValueError(f"{name} is no setting of this layer")
            setattr(module, name, value)
        for name, tensor in tensors.items():
            mine = _tensors(module)[name]
            if mine.shape != tensor.shape:
                raise ValueError(f"{name} has another shape")
            mine.data = tensor.detach().clone()
        for name, needs in needing.items():
            _tensors(module)[name].requires_grad_(bool(needs))

    def hook(self, path: str, kind: str, hook: Callable[..., Any], settings: dict[str, Any]) -> int:
        """Register a hook of the answer's."""
        if kind not in HOOKS:
            raise ValueError(f"{kind} is no kind of hook")
        register = getattr(self.root.get_submodule(path), kind)
        self.handles.append(register(lambda module, *heard: hook(*heard), **settings))
        return len(self.handles) - 1

    def unhook(self, number: int) -> None:
        """Take it off."""
        self.handles[number].remove()


class Twin:
    """A model of the check's, on the answer's side: `root` has its classes, settings and weights; passes and hooks are that one's."""

    def __init__(self, link: Link, tree: Any, *numbers: int) -> None:
        self.link = link
        self.paths: dict[str, nn.Module] = {}
        self.forward, self.set, self.hook, self.unhook = map(link.function, numbers)
        self.root = self._grown(tree, "")
        self.sent = {path: self._state(module) for path, module in self.paths.items()}

    def _grown(self, tree: Any, path: str) -> nn.Module:
        kind = getattr(nn, tree["kind"])
        module = kind.__new__(kind)
        nn.Module.__init__(module)
        settings, tensors, needing = serialisation.decode(tree["parts"])
        vars(module).update(settings)
        for name, tensor in tensors.items():
            if name in needing:
                module._parameters[name] = nn.Parameter(tensor, needing[name])
            else:
                module._buffers[name] = tensor
        for name, child in tree["children"].items():
            module._modules[name] = self._grown(child, f"{path}.{name}".lstrip("."))
        self.paths[path] = module

        def forward(*args: Any, **kwargs: Any) -> Any:
            if any(vars(m)["forward"] is not m._own for m in list(module.modules())[1:]):  # somebody put another in
                return type(module).forward(module, *args, **kwargs)
            result, buffers = self.forward(path, *args, **kwargs)
            for name, buffer in self.root.named_buffers():
                buffer.data = buffers[name]
            self.sent = {path: self._state(m) for path, m in self.paths.items()}
            leaf = isinstance(result, Tensor) and result.requires_grad and result.is_leaf
            return result.clone() if leaf else result  # an output may be changed in place, as a leaf may not

        def register(kind: str) -> Callable[..., Any]:
            return lambda hook, **settings: _Handle(
                self, self.hook(path, kind, lambda *heard: hook(module, *heard), settings)
            )

        own = {"forward": forward, "_own": forward, "__deepcopy__": lambda memo: _plain(module, memo)}
        vars(module).update(own | {kind: register(kind) for kind in HOOKS})
        return module

    def _state(self, module: nn.Module) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, bool]]:
        tensors = _tensors(module)
        settings = {k: v for k, v in vars(module).items() if k not in OWN and k not in _PLAIN}
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return settings, copies, {name: tensor.requires_grad for name, tensor in tensors.items()}

    def push(self) -> None:
        """Set on the check's model what was set on this one."""
        for path, module in self.paths.items():
            settings, tensors, needing = self._state(module)
            before, values, needed = self.sent[path]
            changes = (
                {k: v for k, v in settings.items() if k in before and v != before[k]},
                {k: t for k, t in tensors.items() if k in values and not _same(t, values[k])},
                {k: n for k, n in needing.items() if k in needed and n != needed[k]},
            )
            if any(changes):
                self.sent[path] = settings, tensors, needing
                self.set(path, *changes)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


class _Handle:
    """Of a hook that is on the check's model."""

    def __init__(self, twin: Twin, number: int) -> None:
        self.twin, self.number = twin, number

    def remove(self) -> None:
        self.twin.unhook(self.number)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _plain(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """A copy that is all here, as `copy.deepcopy` of a model is: what is done with it changes no other."""
    other = type(module).__new__(type(module))
    memo[id(module)] = other
    vars(other).update({k: copy.deepcopy(v, memo) for k, v in vars(module).items() if k not in OWN})
    return other


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
