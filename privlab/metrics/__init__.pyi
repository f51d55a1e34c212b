from . import identification, roc, tradeoff
from .identification import iip
from .image_quality import fft2d, lpips, mse, psnr, ssim

__all__ = ["fft2d", "identification", "iip", "lpips", "mse", "psnr", "roc", "ssim", "tradeoff"]
