"""StyleGAN2 as a generator of faces: the authors' code and weights, from files that you have (Karras et al. 2020).

Neither is part of this package. You need a checkout of https://github.com/NVlabs/stylegan2-ada-pytorch, whose code then runs in your
process, and one of its networks (`ffhq.pkl`). That file is a pickle, which can run anything when it is opened, so `convert` reads it
with an unpickler that knows tensors and settings alone, and writes them down: NAME.safetensors, and NAME.json beside it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.model_inversion.generators import normal
from privlab.data import sources

HOME = "https://github.com/NVlabs/stylegan2-ada-pytorch"
_PACKAGES = ("training", "torch_utils", "dnnlib")  # what a checkout calls its own


class StyleGAN2(nn.Module):
    """A generator (see `generators`) that searches in W: one style for all layers, as in PPA (Struppek et al. 2022).

    checkout: the folder of the authors' repository.  weights: NAME.safetensors from `convert`, with NAME.json beside it.
    psi: how far styles are pulled to their mean, 1 not at all (PPA: 0.5). It holds for every layer, as the same style does; PPA looks at
        candidates with the first 8 layers pulled and begins the search from that one style in all of them.
    crop: side of the square cut out of the middle, in pixels (PPA: 800 of 1024); None leaves all.
    resize: the side that this is resized to, bilinear and antialiased (PPA: 224); None leaves it.
    clip: whether pixels beyond [0, 1] are cut off. There is no gradient where they are, so PPA's searches for faces go without.
    On a GPU the authors' code compiles two operations when it is first used, and does without where it cannot.
    Raises FileNotFoundError where the checkout or the weights are not there, ValueError for weights that do not fit, for a network with
    classes, and for a crop that is larger than the image.
    """

    def __init__(
        self,
        checkout: str | os.PathLike[str],
        weights: str | os.PathLike[str],
        psi: float = 0.5,
        crop: int | None = None,
        resize: int | None = None,
        clip: bool = True,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        code, file = Path(checkout).expanduser().absolute(), Path(weights).expanduser().absolute()
        settings, tensors = _read(file)
        if settings.get("c_dim"):
            raise ValueError(f"weights='{file}': this network draws {settings['c_dim']} classes; take one without")
        self.network = _build(code, settings)
        try:
            self.network.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(f"weights='{file}' do not fit the checkout's Generator: {error}") from error
        self.network.eval().requires_grad_(False).to(device)
        self.width, side = int(self.network.z_dim), int(self.network.img_resolution)
        if crop is not None and not 0 < crop <= side:
            raise ValueError(f"crop={crop}: the images have {side} pixels a side; give 1 to {side}, or None")
        last = resize or crop or side
        self.shape = (int(settings["img_channels"]), last, last)
        self.psi, self.crop, self.resize, self.clip = psi, crop, resize, clip

    def __repr__(self) -> str:
        about = f"psi={self.psi}, crop={self.crop}, resize={self.resize}, clip={self.clip}"
        return f"StyleGAN2({self.width} -> {'x'.join(map(str, self.shape))}, {about})"

    def sample(self, n: int, seed: int) -> Tensor:
        """Standard normal latents z, (n, width)."""
        return normal(n, self.width, seed, next(self.network.parameters()))

    def map(self, z: Tensor) -> Tensor:
        """Their styles w, (n, w_dim), pulled to the mean by psi."""
        return self.network.mapping(z, None, truncation_psi=self.psi)[:, 0]  # the rows of all layers are the same

    def synthesise(self, w: Tensor) -> Tensor:
        """The images (n, *shape) of styles (n, w_dim), with fixed noise and in float32; differentiable in w."""
        rows = w[:, None].expand(-1, self.network.num_ws, -1)  # (n, layers, w_dim)
        images = self.network.synthesis(rows, noise_mode="const", force_fp32=True) / 2 + 0.5
        if self.crop is not None:
            before = (images.shape[-1] - self.crop) // 2
            images = images[..., before : before + self.crop, before : before + self.crop]
        if self.resize is not None:
            images = F.interpolate(images, (self.resize,) * 2, mode="bilinear", align_corners=False, antialias=True)
        return images.clamp(0, 1) if self.clip else images


def _read(weights: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of a converted network, each held against the hash that `convert` wrote beside it before it is used."""
    beside, script = weights.with_suffix(".json"), "python data_scripts/stylegan.py"
    if missing := [path.name for path in (weights, beside) if not path.is_file()]:
        raise FileNotFoundError(
            f"weights='{weights}': no {' and no '.join(missing)} in {weights.parent}. Fetch a network of {HOME} (ffhq.pkl), and run "
            f"{script} ffhq.pkl --to {weights.parent}"
        )
    if weights.suffix != ".safetensors":
        raise ValueError(f"weights='{weights}' is no .safetensors file; {script} makes one of a .pkl")
    cure = "convert the network again"
    with sources.checked(beside, cure), sources.checked(weights, cure):
        return json.loads(beside.read_text(encoding="utf-8")), safetensors.torch.load_file(weights)


def _build(checkout: Path, settings: dict[str, Any]) -> Any:
    if not (checkout / "training" / "networks.py").is_file():
        raise FileNotFoundError(
            f"checkout='{checkout}' lacks training/networks.py; give the folder of git clone {HOME}"
        )
    with _importable(checkout), torch.random.fork_rng(devices=[]):  # networks begin with random weights
        try:
            return importlib.import_module("training.networks").Generator(**settings)
        except (ImportError, AttributeError, TypeError) as error:
            raise ValueError(
                f"checkout='{checkout}': its training/networks.py has no Generator that takes these settings ({error})"
            ) from error


@contextlib.contextmanager
def _importable(checkout: Path) -> Iterator[None]:
    """The checkout's packages by their own, common, names; afterwards whatever had these names has them again."""

    def take() -> dict[str, Any]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in _PACKAGES}

    before, place = take(), str(checkout.resolve())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)
        take()
        sys.modules.update(before)


# -- from a pickle -----------------------------------------------------------------------------------------------------


def convert(network: str | os.PathLike[str], to: str | os.PathLike[str] | None = None) -> Path:
    """Write the averaged generator (G_ema) of a network pickle as NAME.safetensors and NAME.json; no code in the pickle is run.

    network: a .pkl as the authors hand it out.  to: the folder to write in; beside the pickle if not given.
    Returns the path of the .safetensors file.
    Raises FileNotFoundError where there is no such file, ValueError for one that asks for anything but tensors and settings (it names
    what), or that holds no StyleGAN2 generator.
    """
    path = Path(network).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"network={str(network)!r} is no file; the authors' networks are linked from {HOME}")
    try:
        with path.open("rb") as file:
            generator = _Reader(file).load()["G_ema"]
        if generator.kind != "Generator" or generator.state["_init_args"]:
            raise ValueError("its G_ema is no Generator whose settings have names")
        settings = json.dumps(generator.state["_init_kwargs"], indent=1)
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in _tensors(generator)}
    except Exception as error:  # a pickle that was made up can fail in any way
        raise ValueError(f"network={str(network)!r} is no StyleGAN2 network of {HOME} ({error})") from error
    place = (Path(to).expanduser() if to else path.parent) / f"{path.stem}.safetensors"
    sources.write(place, safetensors.torch.save(tensors))
    sources.write(place.with_suffix(".json"), (settings + "\n").encode())
    return place


class _Network:
    """What the authors' pickles hold in place of a module: its class, its state, and its source, which is left alone."""

    def __init__(self, reduced: dict[str, Any]) -> None:
        self.kind, self.state = reduced["class_name"], reduced["state"]


class _Settings(dict):
    """In place of dnnlib's EasyDict."""


class _Ignored:
    """In place of what is not needed: takes any arguments, and any state."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, _: Any) -> None: ...


def _storage(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


class _Reader(pickle.Unpickler):
    """Everything that these pickles may ask for; each is replaced by something of ours that runs nothing."""

    KNOWN: dict[str, Callable[..., Any]] = {  # noqa: RUF012
        "torch_utils.persistence._reconstruct_persistent_obj": _Network,
        "dnnlib.util.EasyDict": _Settings,
        "torch._utils._rebuild_tensor_v2": lambda *parts: torch._utils._rebuild_tensor_v2(*parts),
        "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
        "torch.storage._load_from_bytes": _storage,
        "collections.OrderedDict": lambda *items: OrderedDict(*items),
        "builtins.set": set,
        "__builtin__.set": set,
        "numpy.dtype": _Ignored,
        "numpy.core.multiarray.scalar": _Ignored,
        "numpy._core.multiarray.scalar": _Ignored,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (full_name := f"{module}.{name}") not in self.KNOWN:
            raise pickle.UnpicklingError(f"it asks for {full_name}, which no StyleGAN2 network needs; refused")
        return self.KNOWN[full_name]


def _tensors(network: _Network, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers under the names of a state dict."""
    state = network.state
    passing = state.get("_non_persistent_buffers_set", ())
    for name, tensor in [*state["_parameters"].items(), *state["_buffers"].items()]:
        if tensor is not None and name not in passing:
            yield prefix + name, tensor
    for name, inner in state["_modules"].items():
        if inner is not None:
            yield from _tensors(inner, f"{prefix}{name}.")
