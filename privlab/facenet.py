"""FaceNet's embedding of faces: the features in which model inversion's papers measure how near two faces are (Schroff et al. 2015).

The network is InceptionResnetV1, trained on VGGFace2, of the PyPI package facenet-pytorch (Tim Esler, MIT). The package asks for
versions of torch and numpy of its year, so it is installed without its dependencies; it runs with those that are here.
"""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.data import check_range

SIDE = 160  # pixels; what the network was trained on
WEIGHTS = "https://github.com/timesler/facenet-pytorch/releases/download/v2.2.9/20180402-114759-vggface2.pt"


def embedder(
    path: str | os.PathLike[str], device: str | torch.device = "cpu", batch_size: int = 64
) -> Callable[[Tensor], Tensor]:
    """A function from faces to FaceNet's embeddings, for distances such as PPA's delta_face (Struppek et al. 2022).

    path: the authors' weight file, 20180402-114759-vggface2.pt.  batch_size: images at once in the network.
    The function takes images (n, 1 or 3, height, width) in [0, 1], a grey one as three equal channels, and returns (n, 512): rows of
    length 1, on the device, without gradients. Images are resized to 160 x 160 and scaled as (255 x - 127.5) / 128, as in training.
    Raises ImportError without the package, FileNotFoundError without the file, ValueError for a file of something else.
    """
    try:
        package = importlib.import_module("facenet_pytorch")
    except ImportError as error:
        raise ImportError(
            f"facenet_pytorch cannot be imported ({error}); FaceNet comes with it: pip install --no-deps facenet-pytorch"
        ) from error
    place = Path(path).expanduser()
    if not place.is_file():
        raise FileNotFoundError(f"path={str(path)!r} is no file; the authors' weights are at {WEIGHTS} (112 MB)")
    try:
        weights = torch.load(place, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"path={str(path)!r} cannot be read as weights alone ({error}); fetch {WEIGHTS} again"
        ) from error
    with torch.random.fork_rng(devices=[]):  # it begins with random weights
        network = package.InceptionResnetV1(pretrained=None, classify=False)
    try:  # the file also has the classifier of VGGFace2's 8,631 people, behind the embedding
        network.load_state_dict({name: w for name, w in weights.items() if not name.startswith("logits.")})
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ValueError(
            f"path={str(path)!r} does not hold InceptionResnetV1's weights ({error}); they are at {WEIGHTS}"
        ) from error
    network.eval().requires_grad_(False).to(device)

    @torch.no_grad()
    def embed(images: Tensor) -> Tensor:
        if images.dim() != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point() or len(images) == 0:
            raise ValueError(
                f"images: got {images.dtype} of shape {tuple(images.shape)}; give (n, 1 or 3, height, width) in [0, 1]"
            )
        check_range("images", images, "FaceNet's scaling expects [0, 1]")
        return torch.cat([network(prepare(part.to(device))) for part in images.split(batch_size)])

    return embed


def prepare(images: Tensor) -> Tensor:
    """Faces (n, 1 or 3, height, width) in [0, 1] as the network takes them: (n, 3, 160, 160), from about -1 to 1."""
    if images.shape[-2:] != (SIDE, SIDE):
        images = F.interpolate(images, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    return (images.float().expand(-1, 3, -1, -1) * 255 - 127.5) / 128
