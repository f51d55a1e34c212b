"""Names of measured values as a reader wants them: psnr[gradvit, vit_std_0p02] is "PSNR (gradvit, vit std 0.02)"."""

from __future__ import annotations

import re

from privlab.ledger.panel import mse_of

METRICS = {
    "psnr": "PSNR",
    "ssim": "SSIM",
    "lpips": "LPIPS",
    "auc": "AUC",
    "iip": "image identifiability precision",
    "fft2d": "distance of spectra",
    "acc": "accuracy",
    "task_acc": "test accuracy",
    "train_acc": "training accuracy",
    "attacc": "attack accuracy",
    "attack_acc": "attack accuracy",
    "params_m": "million parameters",
    "tpr_at_fpr_0p01": "members found at 1% false alarms",
}
_NAME = re.compile(r"([a-z][a-z0-9_]*)\[([^\]]*)\]")


def plain(text: str) -> str:
    """A text with every name of a measured value in it in plain words."""
    return _NAME.sub(lambda m: f"{_metric(m[1], m[2])} ({_words(m[2])})", text)


def _metric(name: str, keys: str) -> str:
    return f"mean squared error of {mse_of(keys)}" if name == "mse" else METRICS.get(name) or _words(name)


def _words(key: str) -> str:
    return re.sub(r"(\d)p(\d)", r"\1.\2", key).replace("_", " ")
