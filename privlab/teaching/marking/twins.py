"""A model of a check's, and its twin on the answer's side of the pipe.

The model, of `torch.nn`'s layers, stays with its check. The twin is made of the same classes and computes nothing: its passes and hooks are
the check's model's, whatever is set on it is set there, and whatever a pass changes comes back. So what the check then finds in its model
is so, and no report of the answer's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from privlab.teaching.marking import serialisation

HOOKS = ("register_forward_hook", "register_forward_pre_hook")
OWN = {"forward", "_own", "__deepcopy__", *HOOKS}  # what a twin's layer has, beside what layers have
_PLAIN = vars(nn.Module()).keys() - {"training"}  # what every module has, beside its settings


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    both = (module._parameters | module._buffers).items()
    return {name: tensor for name, tensor in both if tensor is not None}


class Owner:
    """A model of the check's, as the answer's side may use it."""

    def __init__(self, root: nn.Module) -> None:
        self.root = root
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

    def __init__(self, tree: Any, *methods: Callable[..., Any]) -> None:
        self.paths: dict[str, nn.Module] = {}
        self.forward, self.set, self.hook, self.unhook = methods
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
