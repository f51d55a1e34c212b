"""Turn what was downloaded into ready files: whatever the origin, the same arrays.

A reader takes the paths of the downloads and returns {file to write: {tensor name: array}}. Image sets become
`images`, uint8 (n, channels, height, width), and `labels`, int64 (n,). Archives are read in place, so a name inside one
that points outside it can do no harm.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from privlab.data import pretrained_weights

Arrays = dict[str, dict[str, np.ndarray]]


def members(paths: list[Path], pattern: str) -> Iterator[tuple[re.Match[str], bytes]]:
    """(match, bytes) for each file whose name matches, in .zip, .whl, .tar.gz and .tgz archives or on its own."""
    for path in paths:
        for name, read in _contents(path):
            if match := re.search(pattern, name):
                yield match, read()


def _contents(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The files in an archive, or the one file that it is, and how each is read."""
    if path.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, partial(archive.read, name)
    elif path.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(path) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                yield member.name, tar.extractfile(member).read  # type: ignore[union-attr]
    else:
        yield path.name, path.read_bytes


# -- CIFAR -------------------------------------------------------------------------------------------------------------


def _cifar_rows(parts: dict[str, bytes], order: list[str], label_bytes: int) -> dict[str, np.ndarray]:
    """The official binary layout: each row is the label (CIFAR-100: coarse, then fine) and 3 planes of 32x32 bytes."""
    missing = [name for name in order if name not in parts]
    if missing:
        raise ValueError(f"{missing[0]} is missing from the archive")
    width = label_bytes + 3 * 32 * 32
    for name in order:
        if not parts[name] or len(parts[name]) % width:
            raise ValueError(f"{name} has {len(parts[name]):,} bytes, not a whole number of {width}-byte rows")
    rows = np.concatenate([np.frombuffer(parts[name], np.uint8).reshape(-1, width) for name in order])
    return {
        "images": rows[:, label_bytes:].reshape(-1, 3, 32, 32),
        "labels": rows[:, label_bytes - 1].astype(np.int64),
    }


CIFAR10_TRAIN = [f"data_batch_{i}" for i in range(1, 6)]


def cifar10_binary(paths: list[Path]) -> Arrays:
    """The authors' cifar-10-binary.tar.gz."""
    parts = {match[1]: content for match, content in members(paths, r"([^/]+)\.bin$")}
    return {
        "train.safetensors": _cifar_rows(parts, CIFAR10_TRAIN, 1),
        "test.safetensors": _cifar_rows(parts, ["test_batch"], 1),
    }


def cifar100_binary(paths: list[Path]) -> Arrays:
    """The authors' cifar-100-binary.tar.gz, with the 100 fine labels."""
    parts = {match[1]: content for match, content in members(paths, r"([^/]+)\.bin$")}
    return {f"{split}.safetensors": _cifar_rows(parts, [split], 2) for split in ("train", "test")}


def cifar10_png(paths: list[Path]) -> Arrays:
    """The npm package: a batch is a PNG with one image a row, its 1,024 pixels side by side; labels are JSON lists."""
    images: dict[str, np.ndarray] = {}
    labels: dict[str, list[int]] = {}
    for match, content in members(paths, r"/(data_batch_\d|test_batch)\.png$|/(train|test)_lables\.json$"):
        if match[1]:
            with Image.open(io.BytesIO(content)) as picture:
                rows = np.asarray(picture.convert("RGB"))  # (images, 1024, 3)
            images[match[1]] = rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
        else:
            labels[match[2]] = json.loads(content)
    train = np.concatenate([images[name] for name in CIFAR10_TRAIN])
    return {
        "train.safetensors": {"images": train, "labels": np.array(labels["train"], np.int64)},
        "test.safetensors": {"images": images["test_batch"], "labels": np.array(labels["test"], np.int64)},
    }


# -- MNIST --------------------------------------------------------------------------------------------


def idx(paths: list[Path]) -> Arrays:
    """The four IDX files of MNIST, gzipped or not, loose or in a package."""
    parts: dict[str, np.ndarray] = {}
    for match, content in members(paths, r"(?:^|/)(train|t10k)-(images|labels)-idx\d-ubyte(\.gz)?$"):
        parts[f"{match[1]} {match[2]}"] = _idx_array(gzip.decompress(content) if match[3] else content)
    arrays = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = parts[f"{prefix} images"], parts[f"{prefix} labels"]
        if images.ndim != 3 or labels.shape != (len(images),):
            raise ValueError(f"{prefix}: images {images.shape} and labels {labels.shape} do not belong together")
        arrays[f"{split}.safetensors"] = {"images": images[:, None], "labels": labels.astype(np.int64)}
    return arrays


def _idx_array(content: bytes) -> np.ndarray:
    """IDX: two zero bytes, the type (8 is unsigned byte), how many dimensions, each as a big-endian integer, data."""
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"not an IDX file of bytes: it begins with {content[:4].hex()}, expected 000008")
    dims = content[3]
    shape = tuple(np.frombuffer(content, ">u4", dims, offset=4).tolist())
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * dims)
    if data.size != math.prod(shape):
        raise ValueError(f"an IDX file announces {shape} and holds {data.size:,} bytes of data")
    return data.reshape(shape)


# -- faces and samples -------------------------------------------------------------------------------------------------


def orl(paths: list[Path]) -> Arrays:
    """s1/1.pgm to s40/10.pgm, in that order; person k has label k - 1."""
    faces: dict[tuple[int, int], np.ndarray] = {}
    for match, content in members(paths, r"(?:^|/)s(\d+)/(\d+)\.pgm$"):
        with Image.open(io.BytesIO(content)) as picture:
            faces[int(match[1]), int(match[2])] = np.asarray(picture.convert("L"))  # (112, 92)
    if not faces:
        raise ValueError("no s*/*.pgm in the archive")
    order = sorted(faces)
    images = np.stack([faces[place] for place in order])[:, None]
    labels = np.array([person - 1 for person, _ in order], np.int64)
    return {"train.safetensors": {"images": images, "labels": labels}}


def foolbox_samples(paths: list[Path], prefix: str, size: int | None = None) -> Arrays:
    """foolbox/data/{set}_{place}_{label}.png or .jpg, in order of place.

    size: where the photographs differ in size, the central square of any other is resized to size x size.
    """
    samples: dict[int, tuple[np.ndarray, int]] = {}
    for match, content in members(paths, rf"foolbox/data/{prefix}_(\d+)_(\d+)\.(?:png|jpg)$"):
        with Image.open(io.BytesIO(content)) as picture:
            square = (size or picture.width, size or picture.height)
            array = np.asarray(picture if picture.size == square else ImageOps.fit(picture, square))
        planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)  # (channels, height, width)
        samples[int(match[1])] = planes, int(match[2])
    order = sorted(samples)
    images = np.stack([samples[place][0] for place in order])
    labels = np.array([samples[place][1] for place in order], np.int64)
    return {"train.safetensors": {"images": images, "labels": labels}}


def weights(paths: list[Path], pattern: str, file: str, read: Callable[[bytes], pretrained_weights.Weights]) -> Arrays:
    """The one checkpoint whose name matches, read and renamed."""
    ((_, checkpoint),) = members(paths, pattern)
    return {file: read(checkpoint)}


READERS: dict[str, Callable[[list[Path]], Arrays]] = {
    "cifar10_binary": cifar10_binary,
    "cifar10_png": cifar10_png,
    "cifar100_binary": cifar100_binary,
    "idx": idx,
    "orl": orl,
    "imagenet_samples": partial(foolbox_samples, prefix="imagenet", size=512),
    "cifar10_samples": partial(foolbox_samples, prefix="cifar10"),
    "mnist_samples": partial(foolbox_samples, prefix="mnist"),
    "lpips_pickles": partial(
        weights, pattern=r"/weights/alexnet\.ckpt$", file="alex.safetensors", read=pretrained_weights.lpips_pickle
    ),
    "lpips_torchvision": partial(
        weights, pattern=r"alexnet-.*\.pth$", file="alex.safetensors", read=pretrained_weights.lpips_torchvision
    ),
    "efficientnet_lite0": partial(
        weights, pattern=r"/efficientnet-lite0-\w+\.pth$", file="tf_efficientnet_lite0.safetensors",
        read=pretrained_weights.efficientnet_lite0,
    ),
}  # fmt: skip
