"""GANs and students: losses and pseudo-labels by hand, what a trained one draws and says, and the same bits after an interruption."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from weights import same

from privlab import training
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import gans
from privlab.data import Normalise
from privlab.training import epoch_loop

DARK = (torch.rand(64, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 50).to(torch.uint8)  # brightness .1
SMALL = model_inversion.GANRecipe(epochs=3, seed=1, width=8, channels=4, batch_size=16, lr=2e-3)
TINY = dict(img_size=16, patch_size=8, in_chans=1, embed_dim=16, depth=1, num_heads=1, drop_rate=0.1)


def classifier(classes=3, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Conv2d(1, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(196, classes)
    model = nn.Sequential(*layers)
    model.normalise = Normalise((0.1,), (0.1,))
    return model


def gmi(images=DARK, target=None, **changes):
    return gans.gmi(images, replace(SMALL, **changes), progress=False)


def kedmi(images=DARK, target=None, **changes):
    return gans.kedmi(images, target or classifier(), replace(SMALL, **changes), progress=False)


def plg_mi(images=DARK, target=None, each=24, **changes):
    return gans.plg_mi(images, target or classifier(), replace(SMALL, **changes), each=each, progress=False)


def student(images=DARK, target=None, **changes):
    how = dict(epochs=3, seed=1, model=TINY, batch_size=16, progress=False) | changes
    return gans.distil(target or classifier(), "vit_cifar", images, **how)


TRAIN = {"gmi": gmi, "kedmi": kedmi, "plg_mi": plg_mi, "student": student}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVLAB_STORE", str(tmp_path_factory.mktemp("whole")))
        return {kind: train() for kind, train in TRAIN.items()}


def test_kedmis_losses_by_hand():
    """Logits 0 and ln 3 have classes (1/4, 3/4) and a sum of exponentials of 4; of two zeros, a sum of 2: D = 4/5 and 2/3.

    Mean features (2, 1) and (0, 4): |2| and |-3|, a mean of 2.5; entropies of a fair coin and of a certain answer.
    """
    real, fake = torch.tensor([[0.0, math.log(3)]]), torch.zeros(1, 2)
    known = -(0.6 * math.log(1 / 4) + 0.4 * math.log(3 / 4))
    judged = (-math.log(4 / 5) - math.log(1 - 2 / 3)) / 2
    got = gans.discriminator_loss(real, fake, torch.tensor([[0.6, 0.4]]))
    assert got.item() == pytest.approx(known + judged, rel=1e-5)
    features, wanted = torch.tensor([[1.0, 0.0], [3.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    got = gans.generator_loss(features, wanted, torch.tensor([[5.0, 5.0], [500.0, 0.0]]))
    assert got.item() == pytest.approx(2.5 + 1e-4 * 64 * math.log(2) / 2)


def test_pseudo_labels_by_hand():
    """Image 3 serves both classes, image 1 none."""
    said = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.8, 0.6]])
    places, labels = gans.pseudo_labels(said, 2)
    assert (places.tolist(), labels.tolist()) == ([0, 3, 2, 3], [0, 0, 1, 1])


def test_class_batch_norm_by_hand():
    norm = gans.ClassBatchNorm(1, 2)
    with torch.no_grad():
        norm.scale.weight[1], norm.shift.weight[1] = 3.0, 5.0
    x = torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1)  # mean 0, variance 1
    assert norm(x, torch.tensor([0, 1])).flatten().tolist() == pytest.approx([-1, 3 * 1 + 5], abs=1e-4)


def test_the_opponents_logit_is_a_line_plus_a_projection():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        opponent = gans.Projection((1, 16, 16), 4, 3).eval()
    images, labels = torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1, 0])
    features = opponent.body(images).sum((2, 3))
    weights = opponent.plain.weight[0] + opponent.classes.weight[labels]
    torch.testing.assert_close(opponent(images, labels), opponent.plain.bias[0] + (features * weights).sum(1))
    for weight in (opponent.plain.weight, opponent.classes.weight, opponent.body[0].weight.flatten(1)):
        assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(1, abs=0.15)  # after few power iterations


@pytest.mark.parametrize("kind", ["gmi", "kedmi"])
def test_it_tells_public_images_from_noise(kind):
    """After enough epochs for made images, grey at first, to become dark; bright noise is neither."""
    made, noise = TRAIN[kind](epochs=25), torch.rand(64, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    assert made.synthesise(made.sample(64, 5)).mean() < 0.3
    assert made.realism(DARK.float() / 255).mean() > made.realism(noise).mean()
    torch.testing.assert_close(made.realism(noise), made.judged(noise)[0].exp().sum(1).log(), rtol=1e-5, atol=1e-5)


def test_a_trained_generator_draws_the_class_it_is_told():
    """The target tells pictures with a bright left half from those with a bright right one."""
    images = torch.rand(64, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 0.2
    images[::2, :, :, :8] += 0.6
    images[1::2, :, :, 8:] += 0.6
    target = nn.Sequential(nn.AvgPool2d((16, 8)), nn.Flatten(), nn.Linear(2, 2))
    target[2].weight.data, target[2].bias.data = 6 * torch.eye(2), torch.zeros(2)
    made = plg_mi(images, target, each=32, epochs=30, lr=1e-2)
    z = made.sample(32, 3)
    halves = (made.synthesise(z, torch.full((32,), label)) for label in (0, 1))
    left, right = ((x[..., :8].mean() - x[..., 8:].mean()).item() for x in halves)
    assert left > 0.2 and right < -0.2


def test_a_student_comes_to_answer_as_the_target_does():
    target, apart = classifier().eval(), []
    for epochs in (1, 25):
        made = student(target=target, epochs=epochs)
        said, taught = (training.logits(model, DARK).log_softmax(1) for model in (made, target))
        apart.append(nn.functional.kl_div(said, taught, reduction="batchmean", log_target=True).item())
    assert apart[1] < 0.5 * apart[0] and made.normalise == target.normalise


@pytest.mark.parametrize("kind", ["kedmi", "plg_mi", "student"])
def test_the_target_is_left_as_it_was_and_the_callers_random_state_stays(kind):
    target = classifier().train()
    before = copy.deepcopy(target.state_dict())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    TRAIN[kind](target=target)
    assert torch.equal(state, torch.get_rng_state())
    assert same(target, before)
    assert target.training and all(p.grad is None and p.requires_grad for p in target.parameters())


@pytest.mark.parametrize("kind", TRAIN)
def test_an_interrupted_training_goes_on_to_the_same_bits(kind, whole, stop_behind_save):
    stop_behind_save(2)
    with pytest.raises(KeyboardInterrupt):
        TRAIN[kind]()
    made = TRAIN[kind]()
    assert same(made, whole[kind])
    assert not made.training and not any(p.requires_grad for p in made.parameters())


@pytest.mark.parametrize(
    ("kind", "own"),
    [("kedmi", dict(lr=1e-3)), ("plg_mi", dict(each=23)), ("student", dict(model=TINY | dict(depth=2)))],
)
def test_the_key_is_what_the_weights_depend_on(kind, own, whole, monkeypatch):
    TRAIN[kind]()
    monkeypatch.setattr(epoch_loop, "train", lambda *_, **__: pytest.fail("trained again"))
    assert same(TRAIN[kind](), whole[kind])
    for change in (dict(seed=2), own, dict(images=255 - DARK), dict(target=classifier(seed=1))):
        with pytest.raises(pytest.fail.Exception, match="trained again"):
            TRAIN[kind](**change)


def test_what_no_gan_and_no_student_is_trained_on(store):
    for train, changes, says in (
        (gmi, dict(images=DARK[:, :, 2:, 2:]), r"shape=\(1, 14, 14\): a DCGAN makes square images with a side of 16"),
        (plg_mi, dict(each=5), "epochs=3, 15 images: give one epoch or more, and 16 images"),  # each of three classes
        (student, dict(epochs=0), "epochs=0, 64 images: give one epoch or more"),
    ):
        with pytest.raises(ValueError, match=says):
            train(**changes)
    assert not store.exists()
