from . import identification, roc, tradeoff
from .identification import iip
from .image_quality import Summary, compare, fft2d, lpips, mse, psnr, ssim, summary

__all__ = [
    "Summary",
    "compare",
    "fft2d",
    "identification",
    "iip",
    "lpips",
    "mse",
    "psnr",
    "roc",
    "ssim",
    "summary",
    "tradeoff",
]
