"""Prepared files that somebody or some disk has changed: each is noticed by the first load of a process, with its path and the cure."""

import os
import random
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from privlab import data, models
from privlab.data import faces, integrity, sources


def photo(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)).save(path)


@pytest.fixture
def image_set(tmp_path, monkeypatch):
    def again(source, root):
        raise ValueError(f"{root / source.name} would be prepared again")

    for name in ("mnist_samples", "cifar10_samples"):
        shutil.copytree(sources.fetch(name), tmp_path / name)
    monkeypatch.setattr(sources, "_prepare", again)
    return tmp_path / "mnist_samples" / "train.safetensors", lambda: data.load("mnist_samples", to=tmp_path)


@pytest.fixture
def people(tmp_path):
    for k, who in enumerate(("actors/faces/Al_A", "actresses/faces/Ada_A")):
        photo(tmp_path / f"from/{who}/1.png", k)
    place = faces.prepare("facescrub", tmp_path / "from", 8, to=tmp_path, progress=False)
    return place, lambda: faces.load("facescrub", 8, tmp_path)


@pytest.fixture(params=["image_set", "people"])
def prepared(request):
    return request.getfixturevalue(request.param)


def flipped(content, *places):
    changed = bytearray(content)
    for place in places:
        changed[place] ^= 1 << random.Random(place).randrange(8)
    return bytes(changed)


def to_folder(path):
    path.unlink()
    path.mkdir()


def rewritten(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def exchanged(content):
    """The last byte and the nearest other one that differs, in each other's place: every sum over the bytes is as before."""
    place = max(i for i in range(len(content) - 1) if content[i] != content[-1])
    return content[:place] + content[-1:] + content[place + 1 : -1] + content[place : place + 1]


DAMAGE = {
    "header": rewritten(lambda b: flipped(b, 40)),
    "two bytes exchanged": rewritten(exchanged),
    "last byte": rewritten(lambda b: flipped(b, len(b) - 1)),
    "cut": rewritten(lambda b: b[:-1]),
    "empty": rewritten(lambda b: b""),
    "folder": to_folder,
    "link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_changed_file_is_noticed_at_the_first_load(prepared, damage):
    path, read = prepared
    read()
    DAMAGE[damage](path)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read()
    said = str(caught.value)
    assert str(path.parent) in said and "\n" not in said
    assert any(cure in said for cure in ("fetch", "data_scripts/prepare.py", "prepared again"))


def test_a_change_that_keeps_the_date_is_noticed(prepared):
    """Even after a load of the same process, which then need not hash it again."""
    path, read = prepared
    read()
    time.sleep(0.05)  # a file system's clock ticks a hundred times a second or more
    before, good = path.stat(), path.read_bytes()
    path.write_bytes(flipped(good, len(good) - 5))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ValueError, match=r"cannot be read \(it has changed: SHA-256 is \w{64}, expected \w{64}\); "):
        read()


def test_a_process_hashes_an_untouched_file_once(prepared, monkeypatch):
    path, read = prepared
    hashed = []
    integrity._hashed.cache_clear()
    monkeypatch.setattr(integrity, "sha256", lambda p, real=integrity.sha256: hashed.append(p) or real(p))
    for _ in range(3):
        read()
    assert hashed == [path]


def test_another_process_looks_again(image_set, tmp_path):
    path, read = image_set
    read()
    path.write_bytes(flipped(path.read_bytes(), 9_000))
    code = f"from privlab import data; data.load('mnist_samples', to={str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and f"{path} cannot be read (it has changed" in done.stderr.splitlines()[-1]
    assert f"remove {path.parent} and fetch 'mnist_samples' again" in done.stderr


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("one", "other"), [("mnist_samples", "cifar10_samples")])
def test_sets_that_changed_places_are_noticed(image_set, tmp_path, one, other, whole):
    """One file for the other, or the folders with their manifests, which agree with what lies beside them."""
    parts = [tmp_path / name if whole else tmp_path / name / "train.safetensors" for name in (one, other)]
    parts[0].rename(tmp_path / "third")
    parts[1].rename(parts[0])
    (tmp_path / "third").rename(parts[1])
    for name in (one, other):
        with pytest.raises(ValueError, match=f"{name}.*(has changed|prepared again)"):
            data.load(name, to=tmp_path)


@pytest.mark.parametrize("content", ["", "{", "null", '{"files": []}', '{"files": {"train.safetensors": 1}}'])
def test_a_manifest_that_is_none_is_noticed(image_set, tmp_path, content):
    path, read = image_set
    (path.parent / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match="mnist_samples would be prepared again"):
        read()
    with pytest.raises(
        ValueError,
        match=f"{path.parent} lacks a file, or its manifest is damaged .* remove .* fetch 'mnist_samples' again",
    ):
        sources.verify("mnist_samples", tmp_path)


def test_a_folder_of_another_set_is_not_taken_for_one_whose_tensors_nobody_knows(tmp_path, monkeypatch):
    """`imagenet_samples` has no list of ours to be held against: only the manifest says whose it is."""
    shutil.copytree(sources.fetch("mnist_samples"), tmp_path / "imagenet_samples")
    assert not sources.complete("imagenet_samples", tmp_path)


def test_weights_are_checked_too(tmp_path, monkeypatch):
    name = "efficientnet_lite0"
    path = shutil.copytree(sources.fetch(name), tmp_path / name) / "tf_efficientnet_lite0.safetensors"
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path))
    good = path.read_bytes()
    for place in (3, 500, len(good) // 3, len(good) - 1):
        path.write_bytes(flipped(good, place))
        with pytest.raises(ValueError, match=f"{path} cannot be read .it has changed.*fetch '{name}' again"):
            models.pretrained_networks.efficientnet_lite0()


@pytest.mark.parametrize("content", ["", "a b c"])
def test_a_record_that_is_none_is_told(people, content):
    path, read = people
    path.with_name(f"{path.name}.sha256").write_text(content)
    with pytest.raises(
        ValueError, match=f"{path}.sha256 is no SHA-256 of {path.name} .* run python data_scripts/prepare.py"
    ):
        read()


def test_the_record_is_what_sha256sum_checks(people):
    path, _ = people
    done = subprocess.run(
        ["sha256sum", "--check", f"{path.name}.sha256"], cwd=path.parent, capture_output=True, text=True
    )
    assert done.returncode == 0 and "OK" in done.stdout


def test_prepared_again_it_is_recorded_again(people, tmp_path):
    _, read = people
    photo(tmp_path / "from/actors/faces/Al_A/2.png", 7)
    faces.prepare("facescrub", tmp_path / "from", 8, to=tmp_path, progress=False)
    assert len(read()) == 3
