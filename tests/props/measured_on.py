"""Where a bench is measured, as its file says it."""

import time
from importlib import metadata

import torch

from privlab.compute import machine


def about(device: str = "cpu") -> dict[str, str | int]:
    """Releases, the cores of this process and the threads of torch, and the name of the device."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else machine.processor()
    releases = {"torch": str(torch.__version__), "timm": metadata.version("timm")}
    return {**releases, "cpus": machine.cores(), "threads": torch.get_num_threads(), "device_name": name}


def timed(call, *given, **options):
    """What it returns, and the seconds that it took."""
    began = time.perf_counter()
    return call(*given, **options), time.perf_counter() - began
