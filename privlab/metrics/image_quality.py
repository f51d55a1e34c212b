"""How far a recovered image is from the true one: one number an image, then one summary a batch.

Every metric takes `images` and `truth`, both (batch, channels, height, width), of any float format, on any device, and returns a (batch,)
float64 tensor on the CPU. `truth` lies in [0, 1]. `images` may leave it, as closed-form recoveries do: MSE, PSNR and FFT2D take them as
they are, since an overshoot is an error like any other. SSIM and LPIPS are defined on [0, 1] only, so they judge what a screen would
show: `images` clamped. All raise ValueError for shapes, types or values that cannot be compared.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor

from privlab.data import sources

if TYPE_CHECKING:
    from lpips import LPIPS

SSIM_WINDOW = 11  # pixels: a Gaussian of standard deviation 1.5, cut at 3.5 of them
LPIPS_SIDE = 31  # shortest side, in pixels, of which AlexNet's last pooling leaves anything


def mse(images: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error over channels and pixels, on the [0, 1] scale of the pixels; 0 is exact."""
    images, truth = _checked(images, truth)
    return (images - truth).square().mean(dim=(1, 2, 3))


def psnr(images: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, -10 log10(MSE) for a peak of 1; higher is nearer, inf is exact, and below 0 is possible."""
    return -10 * mse(images, truth).log10()


def ssim(images: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity with the standard 11 x 11 Gaussian window (standard deviation 1.5), mean over channels.

    Sides have 11 pixels or more.  Returns (batch,) float64 in [-1, 1]; 1 is exact.
    Source: Wang et al. 2004, equation 13, as scikit-image computes it (population covariance, borders left out).
    """
    from skimage.metrics import structural_similarity  # not at the top: a worker that only searches need not load it

    images, truth = _checked(images, truth)
    if min(truth.shape[2:]) < SSIM_WINDOW:
        raise ValueError(f"images: {_size(truth)} pixels are less than SSIM's 11 x 11 window; use mse or psnr")
    values = [
        structural_similarity(
            image, true, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1.0, channel_axis=0
        )
        for image, true in zip(images.clamp(0, 1).numpy(), truth.clamp(0, 1).numpy(), strict=True)
    ]
    return torch.tensor(values, dtype=torch.float64)


def lpips(images: Tensor, truth: Tensor) -> Tensor:
    """Learned perceptual distance (LPIPS, version 0.1, on AlexNet); lower is nearer, 0 is exact.

    Sides have 31 pixels or more, channels are 3, or 1 that is repeated. Nothing is enlarged here. The heads were fitted to 64 x 64 patches:
    values at 32 x 32 compare among themselves, less so with a paper's at 224.
    Returns (batch,) float64, from a float32 network on the images' device.  Raises what `sources.fetch("lpips")` raises.
    Source: Zhang et al. 2018, The Unreasonable Effectiveness of Deep Features as a Perceptual Metric.
    """
    device = images.device if isinstance(images, Tensor) else None
    images, truth = _checked(images, truth)
    if min(truth.shape[2:]) < LPIPS_SIDE:
        raise ValueError(f"images: {_size(truth)} pixels, but LPIPS needs sides of {LPIPS_SIDE}; enlarge both")
    if truth.shape[1] not in (1, 3):
        raise ValueError(f"images: got {truth.shape[1]} channels; LPIPS takes 3 (colour) or 1 (grey)")
    network = perceptual_network().to(device)
    images, truth = (x.clamp(0, 1).expand(-1, 3, -1, -1).to(device, torch.float32) * 2 - 1 for x in (images, truth))
    with torch.no_grad():
        values = [network(image[None], true[None]) for image, true in zip(images, truth, strict=True)]
    return torch.cat(values).flatten().cpu().double()


def fft2d(images: Tensor, truth: Tensor) -> Tensor:
    """Cosine distance between the 2-D Fourier transforms of two images, in [0, 2]; 0 is alike up to contrast.

    The GradViT paper names a cosine *similarity* in Fourier space, yet marks it lower-is-better: what it prints must be a distance.
    Of what, it does not say; this is that of the complex transforms, 1 - Re<F(x), F(y)> / (|F(x)| |F(y)|), so `compare` calls it
    "fft2d_complex". By Parseval it is the cosine distance of the pixels. Channels count as one long vector. An image that is black
    throughout has no direction: its distance is 0 to another such image and 1 to any other.
    Source: Hatamizadeh et al. 2022, section 4, "FFT 2D" of Tables 1 to 5.
    """
    x, y = (torch.fft.fft2(x).flatten(1) for x in _checked(images, truth))  # (batch, channels * height * width)
    lengths = [v.norm(dim=1, keepdim=True) for v in (x, y)]
    x, y = (v / length.where(length > 0, 1.0) for v, length in zip((x, y), lengths, strict=True))
    distance = (x - y).abs().square().sum(dim=1) / 2  # 1 - cosine of unit vectors, and exactly 0 for equal ones
    one_is_black = ((lengths[0] > 0) != (lengths[1] > 0)).flatten()
    return distance.where(~one_is_black, 1.0)


@dataclass(frozen=True, repr=False)
class Summary:
    """A batch's values in one line, such as "24.1 ± 2.3 (median 24.0, n=8)".

    mean, std, median: over the finite values. std is the sample's (over n - 1), nan where fewer than two are left.
    n: how many values there were.  exact: how many of them were infinite, which is the PSNR of an exact image.
    Where all are exact, mean and median are inf.
    """

    mean: float
    std: float
    median: float
    n: int
    exact: int = 0

    def __repr__(self) -> str:
        finite = self.n - self.exact
        if finite == 0:
            return f"exact (n={self.n})"
        digits = _digits(self.mean, self.std)
        spread = f" ± {self.std:{digits}} (median {self.median:{digits}}, " if finite > 1 else " ("
        return f"{self.mean:{digits}}{spread}n={finite}{f', and {self.exact} exact' if self.exact else ''})"


def summary(values: Tensor | Sequence[float]) -> Summary:
    """Mean, spread and median over a batch; an exact image (PSNR inf) is counted apart and spoils none of them.

    values: (batch,), one value an image.  Raises ValueError for no values, or NaN or -inf among them.
    """
    numbers = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    if numbers.ndim != 1 or len(numbers) == 0:
        raise ValueError(f"values: got shape {tuple(numbers.shape)}; give one value an image, and at least one")
    if bad := [v for v in numbers.tolist() if math.isnan(v) or v == -math.inf]:
        raise ValueError(f"values: {len(bad)} of {len(numbers)} are {bad[0]}; leave out what failed and say so")
    finite = numbers[numbers.isfinite()]
    if len(finite) == 0:
        return Summary(math.inf, math.nan, math.inf, len(numbers), len(numbers))
    std = finite.std().item() if len(finite) > 1 else math.nan
    return Summary(finite.mean().item(), std, finite.quantile(0.5).item(), len(numbers), len(numbers) - len(finite))


def compare(images: Tensor, truth: Tensor) -> dict[str, Summary]:
    """A batch against the truth, by name: "mse", "psnr" (the mean of the images' own), "ssim" and "fft2d_complex".

    Image i is compared with truth i: put them in order first if an attack returns them in another.
    """
    metrics = {"mse": mse, "psnr": psnr, "ssim": ssim, "fft2d_complex": fft2d}
    return {name: summary(metric(images, truth)) for name, metric in metrics.items()}


@cache
def perceptual_network() -> LPIPS:
    """LPIPS: the heads that its package ships, on the AlexNet that `sources` keeps.

    Built empty, on torch's "meta" device: the library would first draw a random AlexNet, a quarter of a gigabyte of it.
    """
    trunk = load_file(sources.fetch("lpips") / "alex.safetensors")
    import lpips as library  # not at the top: it takes seconds, and few cells need it

    heads = Path(library.__file__).parent / "weights" / "v0.1" / "alex.pth"
    state = torch.load(heads, map_location="cpu", weights_only=True)
    state |= {name.replace("lin", "lins.", 1): weight for name, weight in state.items()}  # the library holds them twice
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an argument that torchvision renamed, and the library's own loading of heads
        network = library.LPIPS(net="alex", pnet_rand=True, verbose=False)
    network.scaling_layer = library.ScalingLayer()
    state |= network.scaling_layer.state_dict(prefix="scaling_layer.")
    slots = {name.split(".", 1)[1]: name for name in network.net.state_dict()}  # "3.weight" -> "slice2.3.weight"
    state |= {f"net.{slots[name.removeprefix('features.')]}": weight for name, weight in trunk.items()}
    network.load_state_dict(state, assign=True)
    return network.requires_grad_(False)


def _checked(images: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Both batches in float64 on the CPU; ValueError where they cannot be compared."""
    for name, batch in (("images", images), ("truth", truth)):
        if not isinstance(batch, Tensor) or batch.ndim != 4 or batch.numel() == 0 or not batch.is_floating_point():
            got = f"shape {tuple(batch.shape)} of {batch.dtype}" if isinstance(batch, Tensor) else type(batch).__name__
            raise ValueError(
                f"{name}: got {got}; give floats in [0, 1], (batch, channels, height, width), with at least one image"
            )
        if not batch.isfinite().all():
            raise ValueError(f"{name}: NaN or infinity among the pixels; leave out the images that failed and say so")
    if images.shape != truth.shape:
        raise ValueError(f"images: {tuple(images.shape)} is not the shape of truth, {tuple(truth.shape)}; match them")
    low, high = truth.min().item(), truth.max().item()
    if low < -1e-3 or high > 1 + 1e-3:  # wide enough for what a trip through a normalisation rounds
        raise ValueError(f"truth: {low:.3g} to {high:.3g} leaves [0, 1]; divide by 255, or undo the normalisation")
    return images.detach().cpu().double(), truth.detach().cpu().double()  # in this order: not every device has float64


def _size(batch: Tensor) -> str:
    return f"{batch.shape[2]} x {batch.shape[3]}"


def _digits(mean: float, std: float) -> str:
    """A format that shows two digits of the spread (three of the mean where there is none), at most four decimals."""
    scale = abs(mean) if math.isnan(std) else max(abs(mean), std)
    if scale == 0:
        return ".0f"
    if not 1e-3 <= scale < 1e5:
        return ".1e"
    decimals = 1 - math.floor(math.log10(std)) if std > 0 else 2 - math.floor(math.log10(scale))
    return f".{min(max(decimals, 0), 4)}f"
