"""GANs with their discriminators: losses by hand, how bright images are, KEDMI's target in the loop, and the same bits
after an interruption."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from weights import same

from privlab import compute
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import conditional_gan, gans
from privlab.data import Normalise
from privlab.training import epoch_loop

DARK = (torch.rand(64, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 50).to(torch.uint8)  # brightness .1
SMALL = model_inversion.GANRecipe(epochs=3, seed=1, width=8, channels=4, batch_size=16, lr=2e-3)


def classifier(classes=3, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(196, classes)
        )
    model.normalise = Normalise((0.1,), (0.1,))
    return model


def gmi(root, watch=None, **changes):
    return gans.gmi(DARK, replace(SMALL, **changes), root=root, watch=watch, progress=False)


def kedmi(root, images=DARK, target=None, watch=None, entropy=0.0064, **changes):
    settings = dict(entropy=entropy, root=root, watch=watch, progress=False)
    return gans.kedmi(images, target or classifier(), replace(SMALL, **changes), **settings)


def plg_mi(root, images=DARK, target=None, watch=None, each=24, margin=0.2, share=(0.8, 1.0), **changes):
    settings = dict(each=each, margin=margin, share=share, root=root, watch=watch, progress=False)
    return conditional_gan.plg_mi(images, target or classifier(), replace(SMALL, **changes), **settings)


TRAIN = {"gmi": gmi, "kedmi": kedmi, "plg_mi": plg_mi}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return {kind: train(tmp_path_factory.mktemp(kind)) for kind, train in TRAIN.items()}


# -- losses ----------------------------------------------------------------------------------------------------------------


def test_kedmis_discriminator_loss_by_hand():
    """Logits 0 and ln 3 have classes (1/4, 3/4) and a sum of exponentials of 4; of two zeros, a sum of 2: D = 4/5 and 2/3."""
    real, fake = torch.tensor([[0.0, math.log(3)]]), torch.zeros(1, 2)
    known = -(0.6 * math.log(1 / 4) + 0.4 * math.log(3 / 4))
    judged = (-math.log(4 / 5) - math.log(1 - 2 / 3)) / 2
    got = gans.discriminator_loss(real, fake, torch.tensor([[0.6, 0.4]]))
    assert got.item() == pytest.approx(known + judged, rel=1e-5)


def test_kedmis_generator_loss_by_hand():
    """Mean features (2, 1) and (0, 4): |2| and |-3|, a mean of 2.5; entropies of a fair coin and of a certain answer."""
    features, wanted = torch.tensor([[1.0, 0.0], [3.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    logits = torch.tensor([[5.0, 5.0], [500.0, 0.0]])
    assert gans.generator_loss(features, wanted, logits, 0.0).item() == pytest.approx(2.5)
    assert gans.generator_loss(features, wanted, logits, 0.1).item() == pytest.approx(2.5 + 0.1 * math.log(2) / 2)


def test_realism_is_the_log_sum_exp_of_the_classes_and_the_one_logit_without(whole):
    images = torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    for kind, width in (("gmi", 1), ("kedmi", 3)):
        logits, features = whole[kind].judged(images)
        assert logits.shape == (5, width) and len(features) == 5
        expected = logits.double().exp().sum(1).log()
        torch.testing.assert_close(whole[kind].realism(images).double(), expected, rtol=1e-5, atol=1e-5)


# -- training --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gmi", "kedmi"])
def test_it_tells_public_images_from_noise(kind, tmp_path):
    """After enough epochs for made images, grey at first, to become dark; bright noise is neither."""
    made = TRAIN[kind](tmp_path, epochs=25)
    images = made.synthesise(made.sample(64, 5))
    assert images.mean() < 0.3
    noise = torch.rand(64, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    assert made.realism(DARK.float() / 255).mean() > made.realism(noise).mean()
    w = made.sample(2, 0).requires_grad_()
    (slope,) = torch.autograd.grad(made.realism(made.synthesise(w)).sum(), w)
    assert slope.abs().min() > 0


@pytest.mark.parametrize("train", [kedmi, plg_mi])
def test_the_target_is_left_as_it_was_and_the_callers_random_state_stays(train, tmp_path):
    target = classifier().train()
    before = copy.deepcopy(target.state_dict())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    train(tmp_path, target=target)
    assert torch.equal(state, torch.get_rng_state())
    assert same(target, before)
    assert target.training and all(p.grad is None and p.requires_grad for p in target.parameters())


@pytest.mark.parametrize("kind", TRAIN)
@pytest.mark.parametrize("epoch", [1, 2])
def test_an_interrupted_training_goes_on_to_the_same_bits(kind, epoch, whole, tmp_path):
    seen = []

    def watch(done, _):
        seen.append(done)
        if len(seen) == epoch + 1:  # in the middle of the next epoch, before it is kept
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TRAIN[kind](tmp_path, watch=watch)
    assert same(TRAIN[kind](tmp_path, watch=watch), whole[kind])
    assert seen == [*range(1, epoch + 2), *range(epoch + 1, 4)]  # what was kept was not trained again
    again = TRAIN[kind](tmp_path, watch=watch)
    assert same(again, whole[kind]) and len(seen) == 4 and not again.training


@pytest.mark.parametrize("dies", ["save", "finish"])
def test_killed_between_the_last_epoch_and_the_end(whole, tmp_path, monkeypatch, dies):
    real, trained = epoch_loop.train, []
    monkeypatch.setattr(epoch_loop, "train", lambda *a, **b: trained.append(1) or real(*a, **b))
    with monkeypatch.context() as patched:
        save = compute.Run.save
        if dies == "finish":
            patched.setattr(compute.Run, "finish", lambda self: 1 / 0)
        else:
            patched.setattr(compute.Run, "save", lambda self, n, t: save(self, n, t) if t else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gmi(tmp_path)
    assert same(gmi(tmp_path), whole["gmi"]) and trained == [1]


def test_a_watcher_changes_nothing(whole, tmp_path):
    def watch(done, made):
        torch.rand(3)
        assert not any(part.training for part in made.generator.modules())
        seen.append(made.synthesise(made.sample(4, 0)).detach())

    seen = []
    made = TRAIN["kedmi"](tmp_path, watch=watch)
    assert same(made, whole["kedmi"]) and len(seen) == 3 and not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], made.synthesise(made.sample(4, 0)))


OWN = {"kedmi": [dict(entropy=1.0)], "plg_mi": [dict(each=23), dict(margin=0.3), dict(share=(0.9, 1.0))]}


@pytest.mark.parametrize("kind", OWN)
def test_the_key_is_what_the_weights_depend_on(kind, whole, tmp_path, monkeypatch):
    TRAIN[kind](tmp_path)
    monkeypatch.setattr(epoch_loop, "train", lambda *_, **__: pytest.fail("trained again"))
    assert same(TRAIN[kind](tmp_path), whole[kind])
    recipes = dict(seed=2), dict(epochs=4), dict(lr=1e-3), dict(width=9), dict(batch_size=8)
    targets = dict(images=255 - DARK), dict(target=classifier(seed=1)), dict(target=classifier(classes=4))
    for change in (*recipes, *targets, *OWN[kind]):
        with pytest.raises(pytest.fail.Exception, match="trained again"):
            TRAIN[kind](tmp_path, **change)


@pytest.mark.parametrize(
    ("images", "more", "says"),
    [
        (DARK[:, :, :, :8], {}, "a DCGAN makes square images with a side of 16, 32, 64 or 128"),
        (DARK[:, :, 2:, 2:], {}, r"shape=\(1, 14, 14\): a DCGAN makes square images with a side of 16, 32, 64 or"),
        (DARK, dict(epochs=0), "epochs=0, 64 images: give one epoch or more"),
    ],
)
def test_what_no_gan_is_trained_on(images, more, says, tmp_path):
    target = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 3))
    for train in (
        lambda: gans.gmi(images, replace(SMALL, **more), root=tmp_path),
        lambda: kedmi(tmp_path, images, target, **more),
    ):
        with pytest.raises(ValueError, match=says):
            train()
    with pytest.raises(ValueError, match="epochs=3, 15 images: give one epoch or more, and 16 images"):
        plg_mi(tmp_path, DARK, each=5)  # of each of three classes
    assert not any(tmp_path.iterdir())
