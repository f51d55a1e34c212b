"""Sources: the real sets through their packages, the official layouts through a server on this machine, and bad luck."""

import gzip
import hashlib
import http.server
import io
import multiprocessing
import os
import pickle
import re
import shutil
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import fetch
import numpy as np
import pooch
import pytest
import torch
from safetensors.torch import load_file

from privlab import data
from privlab.data import downloads, readers, sources
from privlab.data.downloads import File
from privlab.data.sources import Origin, Source


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def site(monkeypatch):
    """Serves `files` after `slow` seconds; breaks the first `deaths` transfers off half-way."""
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
    monkeypatch.delenv("PRIVLAB_OFFICIAL", raising=False)
    made = SimpleNamespace(files={}, deaths=0, asked=[], slow=0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            made.asked.append(name := self.path.lstrip("/"))
            threading.Event().wait(made.slow)
            if name not in made.files:
                return self.send_error(404)
            content = made.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if made.deaths else content)
            made.deaths = max(0, made.deaths - 1)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


PEOPLE = tuple(f"person {i}" for i in range(1, 12))


def listed(monkeypatch, *origins: Origin, name: str = "faces", **more) -> None:
    """Let `sources` list this one instead of what sources.toml says."""
    facts = {"title": name, "about": "", "cite": "", "licence": "", "home": "", "disk": 1000, "classes": PEOPLE} | more
    one = Source(name, layout={"train.safetensors": ""}, origins=origins, **facts)
    monkeypatch.setattr(sources, "catalogue", lambda: {name: one})


def official(site: SimpleNamespace, sha256: str | None = None) -> Origin:
    return Origin("orl", [File("faces.zip", [f"{site.url}/faces.zip"], sha256)])


def orl_zip() -> bytes:
    """Faces in AT&T's layout; the picture of person p, number k has p in its top left corner and k to the right of it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for person in range(11, 0, -1):
            for k in (1, 2):
                pixels = np.zeros((112, 92), np.uint8)
                pixels[0, 0], pixels[0, 1], pixels[1, 0] = person, k, 200
                archive.writestr(f"s{person}/{k}.pgm", b"P5\n92 112\n255\n" + pixels.tobytes())
    return out.getvalue()


def tgz(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def faces(site, monkeypatch):
    """A source called "faces" on the local site: 11 people, 2 pictures each."""
    site.files["faces.zip"] = orl_zip()
    listed(monkeypatch, official(site, digest(site.files["faces.zip"])))


def test_every_source_is_fully_described():
    for name in sources.names():
        entry = sources.describe(name)
        assert all((entry.title, entry.about, entry.cite, entry.licence, entry.home, entry.layout)), name
        for origin in entry.origins:
            assert origin.reader in readers.READERS
            for file in origin.files:
                assert file.urls and all(re.match("https?://|pip:.*==|npm:.*@", url) for url in file.urls)
                known = file.sha256 and re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size
                assert known or entry.contents.keys() == entry.layout.keys(), name  # else the contents must be known


def official_rows(split: data.Images) -> bytes:
    rows = np.concatenate([split.labels.numpy().astype(np.uint8)[:, None], split.pixels.flatten(1).numpy()], axis=1)
    return rows.tobytes()


def test_cifar10_equals_the_official_binary_files():
    published = [  # SHA-256 of data_batch_1 to 5 in cifar-10-binary.tar.gz, as listed by torchvision for Ruby
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    ]
    rows, width = official_rows(data.load("cifar10")), 10_000 * 3073
    assert [digest(rows[i * width : (i + 1) * width]) for i in range(5)] == published
    test = official_rows(data.load("cifar10", "test"))
    assert digest(test) == "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"


def official_idx(split: data.Images) -> tuple[bytes, bytes]:
    n, side = len(split).to_bytes(4, "big"), (28).to_bytes(4, "big")
    images = b"\0\0\x08\x03" + n + side + side + split.pixels.numpy().tobytes()
    return images, b"\0\0\x08\x01" + n + split.labels.numpy().astype(np.uint8).tobytes()


def test_mnist_equals_the_official_idx_files():
    published = [  # SHA-256 of the four official IDX files, unpacked: images and labels to train on, and to test
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ]
    splits = (data.load("mnist", split) for split in ("train", "test"))
    assert [digest(content) for split in splits for content in official_idx(split)] == published


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_foolbox_samples_are_the_first_test_images(name):
    samples, test = data.load(f"{name}_samples"), data.load(name, "test")
    assert len(samples) == 20
    assert samples.classes == test.classes
    places = [int((test.pixels == image).flatten(1).all(1).nonzero()[0]) for image in samples.pixels]
    assert samples.labels.tolist() == test.labels[places].tolist()


def test_the_binary_layouts_of_cifar(tmp_path):
    """Rows as above, whose digests are the authors', in files of any order; for CIFAR-100 a coarse label stands before each."""
    few, archive = data.load("cifar10_samples"), tmp_path / "cifar.tar.gz"
    rows = np.frombuffer(official_rows(few), np.uint8).reshape(20, 3073)
    coarse, batches = np.insert(rows, 0, 99, axis=1), ["test_batch", *(f"data_batch_{i}" for i in range(1, 6))]
    ten = {f"x/{name}.bin": row.tobytes() for name, row in zip(batches, rows, strict=False)}
    hundred = {"x/test.bin": coarse[0].tobytes(), "x/train.bin": coarse[1:6].tobytes()}
    for reader, files in (("cifar10_binary", ten), ("cifar100_binary", hundred)):
        archive.write_bytes(tgz(dict(reversed(files.items()))))
        for part, held in zip(readers.READERS[reader]([archive]).values(), (slice(1, 6), slice(1)), strict=True):
            assert np.array_equal(part["images"], few.pixels[held])
            assert np.array_equal(part["labels"], few.labels[held])


def test_idx_layout(tmp_path):
    few = data.load("mnist_samples")
    for split in ("train", "t10k"):
        for kind, content in zip(("images-idx3", "labels-idx1"), official_idx(few), strict=True):
            (tmp_path / f"{split}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    for part in readers.READERS["idx"]([*tmp_path.iterdir()]).values():
        assert np.array_equal(part["images"], few.pixels) and np.array_equal(part["labels"], few.labels)


def test_att_layout_orders_people_by_number_and_a_server_that_dies_midway_is_asked_again(site, faces, tmp_path):
    site.deaths = 2
    place = sources.fetch("faces", tmp_path)
    assert len(site.asked) == 3 and sources.complete("faces", tmp_path)
    assert not (tmp_path / ".incoming" / "faces").exists()  # the archives go once the set is ready
    ready = load_file(place / "train.safetensors")
    assert ready["images"].shape == (22, 1, 112, 92)
    assert ready["images"][:, 0, 0, 0].tolist() == [p for p in range(1, 12) for _ in range(2)]
    assert ready["images"][:, 0, 0, 1].tolist() == [1, 2] * 11
    assert ready["images"][0, 0, 1, 0] == 200  # second row, first column: not transposed
    assert ready["labels"].tolist() == [p for p in range(11) for _ in range(2)]


def test_a_second_address_and_then_a_package_stand_in(site, monkeypatch, tmp_path, capsys):
    real = sources.describe("cifar10_samples")
    gone = [f"{site.url}/gone.zip", "http://127.0.0.1:9/x.zip"]  # where nobody listens
    down = Origin("cifar10_samples", [File("x.zip", gone, real.origins[0].files[0].sha256)])
    listed(monkeypatch, down, real.origins[0], name="few", contents=real.contents)
    monkeypatch.setenv("PRIVLAB_OFFICIAL", "0")
    assert sources.fetch("few", tmp_path / "other").exists() and site.asked == []  # official addresses can be skipped
    monkeypatch.delenv("PRIVLAB_OFFICIAL")
    place = sources.fetch("few", tmp_path)
    assert "few: ready, from pip:foolbox==3.3.4" in capsys.readouterr().out
    assert load_file(place / "train.safetensors")["labels"][:3].tolist() == [3, 8, 8]


def test_another_digest_is_refused_and_what_nobody_knows_one_of_is_judged_by_its_contents(site, monkeypatch, tmp_path):
    for content, sha256, contents, says in (
        (orl_zip(), "0" * 64, {}, f"faces.zip.* does not match .*expected {'0' * 64} but got"),
        (b"<html>moved</html>", None, {}, "not a zip file"),
        (orl_zip(), None, {"train.safetensors": "1" * 64}, f"tensors of train.safetensors .* expected {'1' * 64}"),
    ):
        site.files["faces.zip"] = content
        listed(monkeypatch, official(site, sha256), contents=contents)
        with pytest.raises(RuntimeError, match=says):
            sources.fetch("faces", tmp_path)
        assert not (tmp_path / "faces").exists()
        assert sha256 is None or not [*tmp_path.rglob("faces.zip*")]
    listed(monkeypatch, official(site))
    assert sources.fetch("faces", tmp_path).exists() and len(site.asked) == 3 + 1 + 1 + 1  # retried, and asked again


@pytest.mark.check  # 61 MB
def test_npm_is_borrowed_where_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(downloads.shutil, "which", lambda program: None)
    (file,) = sources.describe("mnist").origins[1].files
    assert pooch.file_hash(downloads.get(file, tmp_path)) == file.sha256
    assert os.listdir(tmp_path) == [file.name]


def test_pip_refuses_a_package_with_another_digest(tmp_path):
    (file,) = sources.describe("orl").origins[1].files
    with pytest.raises(ConnectionError, match=f"pip failed.*{'0' * 64}.*{file.sha256}"):
        downloads.get(replace(file, sha256="0" * 64), tmp_path)


def test_a_damaged_folder_is_prepared_again(site, faces, tmp_path):
    place = sources.fetch("faces", tmp_path)
    good = (place / "train.safetensors").read_bytes()
    assert sources.fetch("faces", tmp_path) == place and len(site.asked) == 1
    (place / "train.safetensors").unlink()
    assert not sources.complete("faces", tmp_path)
    sources.fetch("faces", tmp_path)
    (place / "manifest.json").write_text('{"files": {"train.safetensors": 1}}')
    assert not sources.complete("faces", tmp_path)
    sources.fetch("faces", tmp_path)
    assert (place / "train.safetensors").read_bytes() == good and len(site.asked) == 3


def test_a_read_only_folder_serves_what_it_has_and_one_without_the_set_says_so(faces, tmp_path, monkeypatch):
    place = sources.fetch("faces", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(sources, "FileLock", None)  # nothing may be written, a lock neither
        patch.setitem(data.NORMALISE, "faces", data.Normalise())
        assert sources.fetch("faces") == place and data.load("faces").take([0])[0].shape == (1, 1, 112, 92)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    (tmp_path / "file").write_text("")
    for root in ("/proc/privlab", tmp_path / "file"):  # neither can be written in, not even by root
        monkeypatch.setenv("PRIVLAB_DATA", str(root))
        says = r"'faces' is not in .* nothing can be written there .*fetch.py faces --to"
        with pytest.raises(PermissionError, match=says):
            sources.fetch("faces")


def test_two_processes_share_one_download(site, faces, tmp_path):
    site.slow = 2  # nobody gets an answer before both have asked or wait for the lock
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=sources.fetch, args=("faces", tmp_path)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0] and len(site.asked) == 1


def test_a_changed_file_is_noticed_with_its_path_and_the_cure(tmp_path):
    """Also in a process that has hashed it before, and where the date is as it was."""
    path = shutil.copytree(sources.fetch("mnist_samples"), tmp_path / "mnist_samples") / "train.safetensors"
    data.load("mnist_samples", to=tmp_path)
    before, good = path.stat(), path.read_bytes()
    time.sleep(0.05)  # a file system's clock ticks a hundred times a second or more
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    says = rf"{path} cannot be read \(it has changed: SHA-256 is \w{{64}}.*; .*fetch 'mnist_samples' again"
    with pytest.raises(ValueError, match=says):
        data.load("mnist_samples", to=tmp_path)


def test_sets_that_changed_places_are_noticed(tmp_path, monkeypatch):
    """With their manifests, which agree with what lies beside them; of `imagenet_samples` we have no list of tensors."""
    for name in ("cifar10_samples", "imagenet_samples"):
        shutil.copytree(sources.fetch("mnist_samples"), tmp_path / name)
        assert not sources.complete(name, tmp_path)


class Malice:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_a_pickle_that_calls_something_is_refused(tmp_path):
    harmful = pickle.dumps({"AlexNet_0": Malice(tmp_path / "made")}, protocol=4)
    with pytest.raises(pickle.UnpicklingError, match=r"asks for posix.mkdir; only NumPy arrays"):
        readers.ArrayUnpickler(io.BytesIO(harmful)).load()
    assert not (tmp_path / "made").exists()
    with pytest.raises(pickle.UnpicklingError, match=r"asks for numpy.fromfile"):
        readers.ArrayUnpickler(io.BytesIO(b"cnumpy\nfromfile\n(S'/etc/passwd'\ntR.")).load()


def test_a_torchvision_checkpoint_gives_the_same_file_as_the_pickle(tmp_path):
    layers = {str(i): torch.nn.Conv2d(2, 3, 4) for i in readers.CONVOLUTIONS}
    net = torch.nn.ModuleDict({"features": torch.nn.ModuleDict(layers), "classifier": torch.nn.Linear(2, 2)})
    torch.save(net.state_dict(), tmp_path / "alexnet-owt-0.pth")
    flax = {
        f"Conv_{i}": {"kernel": c.weight.detach().numpy().transpose(2, 3, 1, 0), "bias": c.bias.detach().numpy()}
        for i, c in enumerate(layers.values())
    }
    (tmp_path / "p.tar.gz").write_bytes(tgz({"x/weights/alexnet.ckpt": pickle.dumps({"AlexNet_0": flax}, protocol=4)}))
    direct = readers.READERS["lpips_torchvision"]([tmp_path / "alexnet-owt-0.pth"])
    converted = readers.READERS["lpips_pickles"]([tmp_path / "p.tar.gz"])
    assert direct.keys() == converted.keys() == sources.describe("lpips").layout.keys()
    for file, weights in direct.items():
        assert weights.keys() == converted[file].keys()
        assert all(np.array_equal(value, converted[file][name]) for name, value in weights.items())


def command(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fetch.py", *arguments])
    return fetch.main()


def test_the_command_fetches_lists_and_verifies(faces, tmp_path, monkeypatch, capsys):
    to = ("--to", str(tmp_path))
    assert command(monkeypatch, "facs", "faces", *to) == 1  # it goes on after a bad name
    assert command(monkeypatch, "--list", *to) == 0
    assert command(monkeypatch, "--verify", *to) == 0
    said = capsys.readouterr()
    assert "did you mean 'faces'?" in said.err
    assert str(tmp_path / "faces") in said.out and "here]" in said.out and "faces, good" in said.out
    (tmp_path / "faces" / "train.safetensors").write_bytes(b"x")
    assert command(monkeypatch, "--verify", "faces", *to) == 1
    assert "SHA-256 is" in capsys.readouterr().err
