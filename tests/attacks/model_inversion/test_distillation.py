"""Students of a target model: the divergence by hand, answers that come near the target's, and the same bits after an interruption."""

import copy
import math

import pytest
import torch
from torch import nn
from weights import same

from privlab import training
from privlab.attacks.model_inversion.distillation import distil, divergence
from privlab.data import Normalise
from privlab.training import epoch_loop

TINY = dict(img_size=16, patch_size=8, in_chans=1, embed_dim=16, depth=1, num_heads=1, drop_rate=0.1)
PUBLIC = (torch.rand(96, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 255).to(torch.uint8)
SMALL = dict(epochs=3, seed=1, model=TINY, batch_size=16, progress=False)


@pytest.fixture(scope="module")
def target():
    """Four classes, a fourth of the picture's rows each, the brightest wins."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 4))
    with torch.no_grad():
        rows = torch.zeros(4, 16, 16)
        for i in range(4):
            rows[i, 4 * i : 4 * i + 4] = 0.3
        model[1].weight.copy_(rows.flatten(1))
        model[1].bias.zero_()
    model.normalise = Normalise((0.5,), (0.25,))
    return model


def test_divergence_by_hand():
    """Teacher (3/4, 1/4), student (1/2, 1/2): 3/4 ln 3/2 + 1/4 ln 1/2; twins diverge by nothing; a mean over both."""
    taught, said = torch.tensor([[math.log(3), 0.0], [1.0, 2.0]]), torch.tensor([[7.0, 7.0], [2.0, 3.0]])
    once = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert divergence(said, taught).item() == pytest.approx(once / 2, rel=1e-5)


def test_a_student_comes_to_answer_as_the_target_does(target, tmp_path):
    def apart(epochs):
        made = distil(target, "vit_cifar", PUBLIC, root=tmp_path, **(SMALL | dict(epochs=epochs)))
        return divergence(training.logits(made, PUBLIC), training.logits(target, PUBLIC)).item()

    assert apart(30) < 0.5 * apart(1)


def test_it_comes_from_its_folder_with_classes_and_preprocessing(target, tmp_path):
    made = distil(target, "vit_cifar", (PUBLIC, torch.zeros(96, dtype=torch.long)), root=tmp_path, **SMALL)
    assert training.logits(made, PUBLIC).shape == (96, 4) and made.normalise == target.normalise
    assert not made.training and not any(p.requires_grad for p in made.parameters())


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_interrupted_training_goes_on_to_the_same_bits(target, tmp_path, epoch, stop_behind_save):
    """With dropout, which draws from the global generator."""
    whole = distil(target, "vit_cifar", PUBLIC, root=tmp_path / "whole", **SMALL)
    saved = stop_behind_save(epoch)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        distil(target, "vit_cifar", PUBLIC, root=tmp_path, **SMALL)
    again = distil(target, "vit_cifar", PUBLIC, root=tmp_path, **SMALL)
    assert torch.equal(state, torch.get_rng_state())
    assert same(again, whole) and saved == ["checkpoint"] * 3 + ["weights", "checkpoint"]


def test_the_key_is_what_the_student_depends_on(target, tmp_path, monkeypatch):
    once = distil(target, "vit_cifar", PUBLIC, root=tmp_path, **SMALL)
    monkeypatch.setattr(epoch_loop, "train", lambda *_, **__: pytest.fail("trained again"))
    assert same(distil(target, "vit_cifar", PUBLIC, root=tmp_path, **SMALL), once)
    other = copy.deepcopy(target)
    other.normalise = Normalise((0.4,), (0.25,))
    for who, images, change in (
        (other, PUBLIC, {}), (target, 255 - PUBLIC, {}), (target, PUBLIC, dict(seed=2)),
        (target, PUBLIC, dict(model=TINY | dict(depth=2))), (target, PUBLIC, dict(epochs=4)),
    ):  # fmt: skip
        with pytest.raises(pytest.fail.Exception, match="trained again"):
            distil(who, "vit_cifar", images, root=tmp_path, **(SMALL | change))


@pytest.mark.parametrize(
    ("name", "images", "more", "says"),
    [
        ("vit_cifar", PUBLIC[:15], {}, "epochs=3, 15 images: give one epoch or more, and 16 images"),
        ("vit_cifar", PUBLIC, dict(epochs=0), "epochs=0, 96 images: give one epoch or more"),
        ("vit_cifer", PUBLIC, {}, "vit_cifar"),
    ],
)
def test_what_makes_no_student(name, images, more, says, target, tmp_path):
    with pytest.raises(ValueError, match=says):
        distil(target, name, images, root=tmp_path, **(SMALL | more))
    assert not any(tmp_path.iterdir())
