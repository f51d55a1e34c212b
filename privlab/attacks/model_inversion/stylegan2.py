"""StyleGAN2 as a generator of faces: the authors' code and weights, from files that you have (Karras et al. 2020).

Neither is part of this package. You need a checkout of https://github.com/NVlabs/stylegan2-ada-pytorch, whose code then runs in your
process, and one of its networks (`ffhq.pkl`). That file is a pickle, which can run anything when it is opened, so `convert` reads it
with an unpickler that knows tensors and settings alone, and writes them down: NAME.safetensors, and NAME.json beside it.
"""

import importlib
import io
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.functional import center_crop

from privlab.attacks.model_inversion.generators import Generator


class StyleGAN2(Generator):
    """Searches in W: one style for all layers, as in PPA (Struppek et al. 2022).

    checkout: the folder of the authors' repository.  weights: NAME.safetensors from `convert`, with NAME.json beside it.
    crop, resize: side of the square cut out of the middle (PPA: 800 of 1024 pixels), and to which this is resized (PPA: 224).
    Styles are pulled half-way to their mean, in every layer; PPA looks at candidates with the first 8 layers pulled and begins the search
    from that one style in all of them.
    Pixels may leave [0, 1]: cut off they would have no gradient, so PPA's searches for faces go without.
    """

    def __init__(self, checkout: str, weights: str, crop: int, resize: int) -> None:
        super().__init__()
        file = Path(weights).expanduser()
        settings = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        sys.path.insert(0, place := str(Path(checkout).expanduser().absolute()))
        try:
            networks = importlib.import_module("training.networks")  # the authors' name for it
        finally:
            sys.path.remove(place)
        with torch.random.fork_rng(devices=[]):  # it begins with random weights
            self.network: Any = networks.Generator(**settings)
        self.network.load_state_dict(safetensors.torch.load_file(file))
        self.network.eval().requires_grad_(False)
        self.width, self.shape = int(self.network.z_dim), (int(settings["img_channels"]), resize, resize)
        self.crop, self.resize = crop, resize

    def extra_repr(self) -> str:
        return f"crop={self.crop}, resize={self.resize}"

    def map(self, z: Tensor) -> Tensor:
        """The styles w of latents z, (n, w_dim), pulled to the mean."""
        return self.network.mapping(z, None, truncation_psi=0.5)[:, 0]  # the rows of all layers are the same

    def synthesise(self, w: Tensor) -> Tensor:
        """The images (n, *shape) of styles (n, w_dim), with fixed noise and in float32; differentiable in w."""
        rows = w[:, None].expand(-1, self.network.num_ws, -1)  # (n, layers, w_dim)
        images = self.network.synthesis(rows, noise_mode="const", force_fp32=True) / 2 + 0.5
        images, size = center_crop(images, [self.crop]), (self.resize, self.resize)
        return F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


def convert(network: str, to: str | None = None) -> Path:
    """Write the averaged generator (G_ema) of a network pickle as NAME.safetensors and NAME.json; no code in the pickle is run.

    network: a .pkl as the authors hand it out.  to: the folder to write in; beside the pickle if not given.
    Returns the path of the .safetensors file.
    Raises ValueError for a file that asks for anything but tensors and settings (it names what), or that holds no StyleGAN2 generator.
    """
    path = Path(network).expanduser()
    with path.open("rb") as file:
        try:
            state = _Reader(file).load()["G_ema"]
            settings = json.dumps(state["_init_kwargs"], indent=1)
            tensors = {name: tensor.detach().clone().contiguous() for name, tensor in _tensors(state)}
        except Exception as error:  # a pickle that was made up can fail in any way
            raise ValueError(f"network={str(network)!r} holds no StyleGAN2 generator ({error})") from error
    place = (Path(to).expanduser() if to else path.parent) / f"{path.stem}.safetensors"
    place.parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, place)
    place.with_suffix(".json").write_text(settings + "\n", encoding="utf-8")
    return place


class _Ignored:
    """In place of what is not needed: takes any arguments, and any state."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, _: Any) -> None: ...


class _Reader(pickle.Unpickler):
    """Knows all that these pickles may ask for, and puts something that runs nothing in its place."""

    KNOWN: dict[str, Callable[..., Any]] = {  # noqa: RUF012
        # the source of a module is left alone
        "torch_utils.persistence._reconstruct_persistent_obj": lambda module: module["state"],
        "dnnlib.util.EasyDict": dict,
        "torch._utils._rebuild_tensor_v2": lambda *parts: torch._utils._rebuild_tensor_v2(*parts),
        "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
        "torch.storage._load_from_bytes": lambda content: torch.load(io.BytesIO(content), "cpu", weights_only=True),
        "collections.OrderedDict": OrderedDict,
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


def _tensors(state: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers under the names of a state dict."""
    passing = state.get("_non_persistent_buffers_set", ())
    for name, tensor in [*state["_parameters"].items(), *state["_buffers"].items()]:
        if tensor is not None and name not in passing:
            yield prefix + name, tensor
    for name, inner in state["_modules"].items():
        if inner is not None:
            yield from _tensors(inner, f"{prefix}{name}.")
