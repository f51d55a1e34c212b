"""Edits of an image, and how well the parts of an update tell them apart."""

import pytest
import torch
from torch import nn

from privlab.attacks.gradient_inversion import edits as of_images
from privlab.attacks.gradient_inversion.edits import brightened, told_apart
from privlab.attacks.gradient_inversion.sensitivity import effective_rank
from privlab.data import Normalise
from privlab.leak import observe
from privlab.models import morph

LABEL = torch.tensor([1])


def linear():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()


def photo(channels: int = 1, side: int = 4):
    return torch.rand(1, channels, side, side, generator=torch.Generator().manual_seed(1)).double()


def test_each_edit_moves_one_square_and_stays_in_range():
    image = torch.rand(1, 3, 10, 9, generator=torch.Generator().manual_seed(2))
    edits = list(brightened(image))
    moved = torch.stack([(edit != image).any(1)[0] for edit in edits])  # (16, 10, 9)
    assert len(edits) == 16 and (moved.sum(0) == 1).all()  # squares do not overlap, and leave no pixel out
    assert all(edit.min() >= 0 and edit.max() <= 1 for edit in edits)
    assert len(list(brightened(image[:, :, :2, :3]))) == 6  # no empty squares


def test_dark_squares_get_brighter_and_bright_ones_darker():
    image = torch.full((1, 1, 4, 4), 0.2)
    image[..., 2:, :] = 0.7
    above, _, below, _ = brightened(image, cells=2)
    torch.testing.assert_close((above - image)[0, 0, :2, :2], torch.full((2, 2), 0.1))
    torch.testing.assert_close((below - image)[0, 0, 2:, :2], torch.full((2, 2), -0.1))


def test_told_apart_is_the_spectrum_of_the_parts_changes(monkeypatch):
    monkeypatch.setattr(of_images, "ROWS", 16_000)
    model, image = morph.build(9, width=0.02, depths=(1, 1, 1, 1)).double(), photo(3, 32)
    model.normalise = Normalise()
    names = [n for n, _ in model.named_parameters()]
    groups = {"first": names[:3], "rest": names[3:]}
    edits = list(brightened(image, cells=2))
    before, after = observe(model, image, LABEL), [observe(model, edit, LABEL) for edit in edits]
    found = told_apart(model, image, LABEL, edits, groups)
    for part, inside in groups.items():
        whole = [torch.cat([(one[n] - before[n]).flatten() for n in inside]) for one in after]
        exact = torch.linalg.svdvals(torch.stack(whole, 1)) / before.only(inside).norm
        torch.testing.assert_close(found[part], exact, rtol=0.05, atol=1e-6 * exact[0].item())


def test_edits_that_are_the_same_are_not_told_apart():
    edit = photo() * 0.5
    found = told_apart(linear(), photo(), LABEL, [edit, edit], {"all": ["1.weight", "1.bias"]})
    assert found["all"][1] < 1e-7 * found["all"][0]
    assert effective_rank(found["all"]) == pytest.approx(1, abs=1e-4)


def test_a_part_without_a_gradient_and_pixels_out_of_range_are_refused():
    model = linear()
    with torch.no_grad():
        model[1].weight.zero_()
    dark = torch.zeros(1, 1, 4, 4).double()
    with pytest.raises(ValueError, match="the gradient of 'weight' is zero everywhere"):
        told_apart(model, dark, LABEL, [], {"weight": ["1.weight"]})
    with pytest.raises(ValueError, match="image: pixels go from"):
        told_apart(model, dark + 2, LABEL, [], {})
