"""How far a recovered image is from the true one: one number an image.

Every metric takes `images` and `truth`, floats (batch, channels, height, width) on any device, and returns a (batch,) float64 tensor on the
CPU. `truth` lies in [0, 1]. `images` may leave it, as closed-form recoveries do: MSE, PSNR and FFT2D take them as they are, since an
overshoot is an error like any other; SSIM and LPIPS judge what a screen would show, `images` clamped.
All raise ValueError for shapes that differ and for a truth that leaves [0, 1].
"""

import warnings
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from privlab.data import sources
from privlab.data.images import check_range


def mse(images: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error over channels and pixels, on the [0, 1] scale of the pixels; 0 is exact."""
    images, truth = _checked(images, truth)
    return (images - truth).square().mean(dim=(1, 2, 3))


def psnr(images: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, -10 log10(MSE) for a peak of 1; higher is nearer, inf is exact, and below 0 is possible."""
    return -10 * mse(images, truth).log10()


def ssim(images: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity in [-1, 1], 1 is exact: Wang et al. 2004, equation 13, mean over channels, 11 x 11 Gaussian window."""
    from skimage.metrics import structural_similarity  # not at the top: a worker that only searches need not load it

    images, truth = _checked(images, truth)
    how = dict(gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1.0, channel_axis=0)
    pairs = zip(images.clamp(0, 1).numpy(), truth.clamp(0, 1).numpy(), strict=True)
    values = [structural_similarity(image, true, **how) for image, true in pairs]
    return torch.tensor(values, dtype=torch.float64)


def lpips(images: Tensor, truth: Tensor) -> Tensor:
    """Learned perceptual distance (LPIPS 0.1 on AlexNet; Zhang et al. 2018); lower is nearer, 0 is exact.

    Sides have 31 pixels or more, channels are 3, or 1 that is repeated. The heads were fitted to 64 x 64 patches: values at 32 x 32
    compare among themselves, less so with a paper's at 224. Computed in float32, on the images' device.
    """
    device = images.device
    network = perceptual_network().to(device)
    pairs = (x.clamp(0, 1).expand(-1, 3, -1, -1).to(device, torch.float32) * 2 - 1 for x in _checked(images, truth))
    with torch.no_grad():
        values = [network(image[None], true[None]) for image, true in zip(*pairs, strict=True)]
    return torch.cat(values).flatten().cpu().double()


def fft2d(images: Tensor, truth: Tensor) -> Tensor:
    """Cosine distance between the 2-D Fourier transforms of two images, in [0, 2]; 0 is alike up to contrast. (Black to others: 1.)

    Hatamizadeh et al. 2022, section 4, "FFT 2D" of Tables 1 to 5. They name a cosine *similarity*, yet mark it lower-is-better, and do not
    say of what; this is 1 - Re<F(x), F(y)> / (|F(x)| |F(y)|) of the complex transforms. By Parseval it is that of the pixels.
    """
    x, y = (torch.fft.fft2(x).flatten(1) for x in _checked(images, truth))  # (batch, channels * height * width)
    lengths = [v.norm(dim=1, keepdim=True) for v in (x, y)]
    x, y = (v / length.where(length > 0, 1.0) for v, length in zip((x, y), lengths, strict=True))
    distance = (x - y).abs().square().sum(dim=1) / 2  # 1 - cosine of unit vectors, and exactly 0 for equal ones
    one_is_black = ((lengths[0] > 0) != (lengths[1] > 0)).flatten()
    return distance.where(~one_is_black, 1.0)


@cache
def perceptual_network() -> Any:
    """LPIPS: the heads that its package ships, on the AlexNet that `sources` keeps."""
    import lpips as library  # not at the top: it takes seconds, and few cells need it

    trunk = load_file(sources.fetch("lpips") / "alex.safetensors")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):  # torchvision renamed an argument
        network = library.LPIPS(net="alex", pnet_rand=True, verbose=False)  # its own trunk is random
    # "slice2.3.weight" is "features.3.weight"
    network.net.load_state_dict({name: trunk[f"features.{name.split('.', 1)[1]}"] for name in network.net.state_dict()})
    return network.requires_grad_(False)


def _checked(images: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Both batches in float64 on the CPU; ValueError where they cannot be compared."""
    if images.shape != truth.shape or truth.ndim != 4 or not images.is_floating_point():
        got = f"{tuple(images.shape)} of {images.dtype} for a truth {tuple(truth.shape)}"
        raise ValueError(f"images: got {got}; give floats (batch, channels, height, width), both of one shape")
    check_range("truth", truth, "divide by 255, or undo the normalisation")
    return images.detach().cpu().double(), truth.detach().cpu().double()  # in this order: not every device has float64
