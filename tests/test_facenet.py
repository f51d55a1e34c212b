"""FaceNet through its package: a small stand-in for the package, with the same class and the same file's extra layer."""

import sys
import types

import pytest
import torch
from torch import nn

from privlab import facenet


class InceptionResnetV1(nn.Module):
    """Takes 160 x 160, tells what it was given, and has a row of length 1 for each image."""

    def __init__(self, pretrained=None, classify=False):
        super().__init__()
        assert pretrained is None and not classify  # nothing is downloaded, and nothing classified
        self.last_linear = nn.Linear(3, 512, bias=False)
        self.dropout = nn.Dropout(0.6)
        self.seen = []

    def forward(self, images):
        self.seen.append(images)
        return nn.functional.normalize(self.last_linear(self.dropout(images.mean((2, 3)))), dim=1)


@pytest.fixture
def package(monkeypatch):
    module = types.ModuleType("facenet_pytorch")
    module.made = []

    def make(**options):
        module.made.append(InceptionResnetV1(**options))
        return module.made[-1]

    module.InceptionResnetV1 = make
    monkeypatch.setitem(sys.modules, "facenet_pytorch", module)
    return module


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "20180402-114759-vggface2.pt"
    tensors = {"last_linear.weight": torch.randn(512, 3, generator=torch.Generator().manual_seed(0))}
    torch.save(tensors | {"logits.weight": torch.zeros(5, 512), "logits.bias": torch.zeros(5)}, path)
    return path


def test_faces_become_rows_of_length_one(package, weights):
    embed = facenet.embedder(weights, batch_size=2)
    faces = torch.rand(5, 3, 160, 160, generator=torch.Generator().manual_seed(1), requires_grad=True)
    rows = embed(faces)
    assert rows.shape == (5, 512) and not rows.requires_grad
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(5))
    weight = torch.load(weights, weights_only=True)["last_linear.weight"]
    scaled = (faces.detach() * 255 - 127.5) / 128
    torch.testing.assert_close(rows, nn.functional.normalize(scaled.mean((2, 3)) @ weight.T, dim=1))
    assert [len(part) for part in package.made[0].seen] == [2, 2, 1]
    assert torch.equal(embed(faces), rows)  # no dropout
    assert not any(p.requires_grad for p in package.made[0].parameters())


def test_black_and_white_are_scaled_as_in_training():
    ends = facenet.prepare(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 160, 160))
    assert ends[0].unique().tolist() == [-127.5 / 128] and ends[1].unique().tolist() == [127.5 / 128]


def test_faces_of_another_size_are_resized_and_grey_ones_repeated():
    grey = torch.rand(2, 1, 48, 64, generator=torch.Generator().manual_seed(2))
    ready = facenet.prepare(grey)
    assert ready.shape == (2, 3, 160, 160)
    assert torch.equal(ready[:, 0], ready[:, 1]) and torch.equal(ready[:, 0], ready[:, 2])
    torch.testing.assert_close((ready.mean((1, 2, 3)) * 128 + 127.5) / 255, grey.mean((1, 2, 3)), atol=5e-3, rtol=0)


def test_nothing_is_drawn_from_the_global_generator(package, weights):
    state = torch.random.get_rng_state()
    facenet.embedder(weights)
    assert torch.equal(state, torch.random.get_rng_state())


def test_without_the_package_one_is_told_how_to_have_it(monkeypatch, weights):
    monkeypatch.setitem(sys.modules, "facenet_pytorch", None)
    with pytest.raises(ImportError, match="pip install --no-deps facenet-pytorch"):
        facenet.embedder(weights)


def test_without_the_weights_one_is_told_where_they_are(package, tmp_path):
    with pytest.raises(
        FileNotFoundError, match="nowhere.pt' is no file; .*releases/download/v2.2.9/20180402-114759-vggface2.pt"
    ):
        facenet.embedder(tmp_path / "nowhere.pt")


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('it was run')",)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (Trap(), "cannot be read as weights alone"),
        ({"last_linear.weight": torch.zeros(2, 3)}, "does not hold InceptionResnetV1's weights .*size mismatch"),
        ({"fc.weight": torch.zeros(512, 3)}, "does not hold InceptionResnetV1's weights .*fc.weight"),
        (torch.zeros(3), "does not hold InceptionResnetV1's weights"),
    ],
)
def test_a_file_of_something_else_is_told(package, tmp_path, held, says):
    torch.save(held, tmp_path / "w.pt")
    with pytest.raises(ValueError, match=f"(?s){says}"):
        facenet.embedder(tmp_path / "w.pt")


def test_a_file_that_is_no_archive_is_told(package, tmp_path):
    (tmp_path / "w.pt").write_bytes(b"<html>404</html>")
    with pytest.raises(ValueError, match="cannot be read as weights alone"):
        facenet.embedder(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (torch.rand(3, 160, 160), "images: got torch.float32 of shape"),
        (torch.rand(2, 4, 8, 8), "give .n, 1 or 3, height, width"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "images: got torch.uint8"),
        (torch.rand(0, 3, 8, 8), r"shape \(0, 3, 8, 8\)"),
        (torch.rand(2, 3, 8, 8) * 255, r"FaceNet's scaling expects \[0, 1\]"),
    ],
)
def test_images_that_are_none_are_told(package, weights, images, says):
    embed = facenet.embedder(weights)
    with pytest.raises(ValueError, match=says):
        embed(images)
