"""The forward pass of a model, called without leaving a trace; how the model wants its images; a wrong gradient of PyTorch, mended."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from privlab.data import Normalise

Gradients = dict[str, Tensor]  # parameter name -> tensor, shaped like the parameter

# The first forward derivative of a process has torch compile rules of its own, and warn of the compiler: nothing a reader could mend.
warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)


def preprocessing(model: nn.Module) -> Normalise:
    """How the model wants its images: its `normalise` (zoo.build sets it), else the mean and std that timm notes, else none."""
    if isinstance(own := getattr(model, "normalise", None), Normalise):
        return own
    noted = getattr(model, "pretrained_cfg", {})
    return Normalise(tuple(noted["mean"]), tuple(noted["std"])) if noted.get("mean") else Normalise()


@contextmanager
def drawn_by(seed: int) -> Iterator[None]:
    """Inside, weights are drawn by this seed; the caller's random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which seeds every GPU too
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in eval mode; afterwards each of its layers is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def functional(model: nn.Module) -> Callable[[Gradients, Tensor], Tensor]:
    """The forward pass as a function of parameters and images; those that are not given are the model's own.

    It leaves no trace, see `forgetful`, and gradients through it are right, see `RightGradients`. Both take a third of a small network's
    pass, so not again for a shape of images with which no layer wrote anything and there was nothing to mend.
    """
    fine, names = set[tuple[torch.Size, bool]](), {p: name for name, p in model.named_parameters()}
    # torch's functional_call looks for them at each call, in the time of a layer; one parameter may be in two places
    own: list[dict[str, Any]] = [module._parameters for module in model.modules()]
    places = [(place, key, p, names[p]) for place in own for key, p in place.items() if p is not None]

    def forward(parameters: Gradients, x: Tensor) -> Tensor:
        look, kind = RightGradients(), (x.shape, model.training)
        try:
            for place, key, p, name in places if parameters else ():
                place[key] = parameters.get(name, p)
            if kind in fine:
                return model(x)
            with look, forgetful(model) as traces:
                logits = model(x)
        finally:
            for place, key, p, _ in places if parameters else ():
                place[key] = p
        if not look.mended and not traces:
            fine.add(kind)
        return logits

    return forward


@contextmanager
def forgetful(model: nn.Module) -> Iterator[list[str]]:
    """Inside, layers write into copies of their buffers, and find their caches empty; afterwards both are what they were.

    It gives a list in which a word stands afterwards if a layer wrote anything.

    A cache is a dict with "cache" in its name, or what has a graph in a dict of another. timm's LeViT, EfficientFormer and TinyViT keep
    attention biases so in eval mode: of a call whose graph is freed, or was never made, they give the next one an error, or no gradient.
    """
    copies: dict[int, Tensor] = {}  # two layers may share a buffer
    held = []
    for module in model.modules():
        own = {k: v for k, v in vars(module).items() if k not in OF_A_MODULE and isinstance(v, dict)}
        held += [(each, dict(each)) for each in (module._buffers, *own.values())]
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else copies.setdefault(id(buffer), buffer.clone())
        for name, cache in own.items():
            for key in [k for k, v in cache.items() if "cache" in name or getattr(v, "grad_fn", None) is not None]:
                del cache[key]
    inside, traces = [[*map(id, now.values())] for now, _ in held], list[str]()
    try:
        yield traces
    finally:
        swapped = inside != [[*map(id, now.values())] for now, _ in held]
        if swapped or any(copy.is_inference() or copy._version for copy in copies.values()):
            traces.append("written")
        for now, before in held:
            now.clear()
            now.update(before)


OF_A_MODULE = frozenset(vars(nn.Module()))  # its parameters, hooks and mode


class RightGradients(TorchFunctionMode):
    """Inside, BatchNorm and InstanceNorm get their input, and later the gradient of their output, laid out in the usual order.

    Where a map has a side of one (one image, or one row of pixels), its strides can be those of a `channels_last` tensor and not be
    told from the usual ones; the CPU's kernel for the backward pass (PyTorch 2.11 to 2.15 at least) then takes one for the other and
    answers with another gradient. A tensor that is flattened and shaped again has the gradient copied into the usual order; one that
    is in this order already stays what it is, to the bit.  mended: whether there was such a map, of any strides.
    """

    mended = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        batch = func in (F.batch_norm, torch.batch_norm)
        if not batch and func not in (F.instance_norm, torch.instance_norm):  # to PyTorch a BatchNorm of one image
            return func(*args, **kwargs)
        x: Tensor = args[0] if args else kwargs.pop("input")
        if x.device.type != "cpu" or (batch and (x.ndim < 4 or 1 not in (x.shape[0], *x.shape[2:]))):
            return func(x, *args[1:], **kwargs)
        self.mended = True
        y = func(x.contiguous(), *args[1:], **kwargs)
        return y.flatten().view(y.shape)
