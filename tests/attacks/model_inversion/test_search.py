"""Model inversion: losses against their formulas, views that stay inside the picture, and choices against brute force."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from weights import same

from privlab.attacks.model_inversion import ModelInversion, gans, generators, gmi, kedmi, lomma, plg_mi, ppa
from privlab.attacks.model_inversion.losses import LOSSES, cross_entropy, feature_distance, logit, max_margin, poincare
from privlab.attacks.model_inversion.random_window import random_window
from privlab.attacks.model_inversion.results import joined
from privlab.data import Normalise
from privlab.models import representations

SIDE, CLASSES = 8, 4


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def pictures(n, seed, channels=1, side=SIDE):
    """Smooth random pictures: 4 x 4 numbers, enlarged."""
    rough = 0.5 + 0.15 * torch.randn(n, channels, 4, 4, generator=drawn(seed))
    return F.interpolate(rough, (side, side), mode="bilinear").clamp(0, 1)


@pytest.fixture(scope="module")
def prior():
    return generators.eigenfaces(pictures(40, 0), 10)


@pytest.fixture(scope="module")
def target():
    """A linear classifier, of normalised pixels, with a bias against the last class."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, CLASSES))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(CLASSES, SIDE * SIDE, generator=drawn(1)) * 0.3)
        model[1].bias.copy_(torch.tensor([0.0, 0.0, 0.0, -1.0]))
    model.normalise = Normalise((0.5,), (0.25,))
    return model.eval()


def network():
    """All that an attack could disturb: BatchNorm, dropout, frozen parameters and others, in train mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(64, CLASSES),
        )
    model[0].weight.requires_grad_(False)
    return model.train()


# At 8 pixels a crop of 90% would round to all of them.
QUICK = ModelInversion(pool=60, candidates=5, kept=2, steps=8, lr=0.05, share=(0.5, 1.0), views=6)


# -- losses ----------------------------------------------------------------------------------------------------------------


def test_max_margin_and_logit_by_hand():
    logits, targets = torch.tensor([[3.0, -1.0, 2.0], [3.0, -1.0, 2.0], [-5.0, -1.0, -2.0]]), torch.tensor([0, 1, 2])
    assert max_margin(logits, targets).tolist() == [2 - 3, 3 + 1, -1 + 2]
    assert logit(logits, targets).tolist() == [-3, 1, 2]


@pytest.mark.parametrize("loss", [max_margin, logit])
def test_gradients_that_do_not_fade_when_the_target_is_certain(loss):
    logits = torch.tensor([[90.0, 1.0, 2.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(loss(logits, torch.tensor([0])).sum(), logits)
    assert slope.tolist() == [[-1, 0, 1 if loss is max_margin else 0]]
    (faded,) = torch.autograd.grad(cross_entropy(logits, torch.tensor([0])).sum(), logits)
    assert faded.abs().max() < 1e-20


def test_strayed_by_hand():
    features, around = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([1.0, 0.0])
    assert feature_distance(features, around).tolist() == [(0 + 4) / 2, (1 + 16) / 2]


def by_hand(z, target):
    """arccosh(1 + 2 |u - v|^2 / ((1 - |u|^2) (1 - |v|^2))), u the logits over the sum of their absolutes, v the drawn-in target."""
    u = np.array(z, dtype=float) / np.abs(z).sum()
    v = np.zeros(len(z))
    v[target] = 1 - 1e-4
    return math.acosh(1 + 2 * ((u - v) ** 2).sum() / ((1 - (u**2).sum()) * (1 - (v**2).sum())))


def test_poincare_by_hand():
    # logits 3, -1, 0 become 3/4, -1/4, 0: 1 + 2 (.2499^2 + .25^2) / (3/8 * 1.9999e-4), by pencil
    first = math.acosh(1 + 2 * (0.2499**2 + 0.0625) / (0.375 * (2e-4 - 1e-8)))
    assert first == pytest.approx(by_hand([3, -1, 0], 0), rel=1e-9)
    rows, targets = [[3.0, -1.0, 0.0], [3.0, -1.0, 0.0], [-0.2, 5.0, 7.0], [1.0, 1.0, 1.0]], [0, 2, 1, 1]
    got = poincare(torch.tensor(rows), torch.tensor(targets))
    assert got.dtype == torch.float32 and got[0].item() == pytest.approx(first, rel=1e-6)
    assert got.tolist() == pytest.approx([by_hand(z, t) for z, t in zip(rows, targets, strict=True)], rel=1e-6)


EDGES = {
    "one-hot": [0.0, 1.0, 0.0],
    "one-hot of another class": [7.0, 0.0, 0.0],
    "less than nothing": [0.0, -1.0, 0.0],
    "zeros": [0.0, 0.0, 0.0],
    "huge": [1e30, -2e30, 3e38],
    "huge and alone": [0.0, 3e38, 0.0],
    "tiny": [1e-38, 2e-38, -1e-38],
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_finite_on_the_rim(loss, name, dtype):
    logits = torch.tensor([EDGES[name]], dtype=dtype, requires_grad=True)
    value = LOSSES[loss](logits, torch.tensor([1]))
    (slope,) = torch.autograd.grad(value.sum(), logits)
    assert value.isfinite().all() and slope.isfinite().all() and value.dtype == dtype


def test_the_gradient_of_poincare_lasts_where_that_of_cross_entropy_fades():
    """At logits that are certain of the target, to a probability of 1 - 1e-8."""
    logits = torch.tensor([[20.0, 1.0, -1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    (fades,), (lasts,) = (
        torch.autograd.grad(f(logits, torch.tensor([0])).sum(), logits) for f in (cross_entropy, poincare)
    )
    assert fades.abs().max() < 1e-8 and lasts.abs().max() > 1e-2
    assert torch.autograd.gradcheck(lambda z: poincare(z, torch.tensor([0])), logits)


# -- views -----------------------------------------------------------------------------------------------------------------


def ramp(height=40, width=30):
    """Each pixel's column and row, two channels: what a window shows of them tells where it lies."""
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([column, row])[None].float()


def window(image):
    """Width, height, left and top of the window behind a view of the ramp, in pixels (width below 0: a mirror image)."""
    height, width = image.shape[-2:]
    across, down = image[0, 0, height // 2], image[0, 1, :, width // 2]
    third = width // 3, height // 3
    step = [(line[2 * n] - line[n]).item() / n for line, n in ((across, third[0]), (down, third[1]))]
    middle = (across.mean().item() + 0.5, down.mean().item() + 0.5)
    size = step[0] * width, step[1] * height
    return *size, middle[0] - abs(size[0]) / 2, middle[1] - size[1] / 2


def test_a_view_follows_its_generator_and_nothing_else():
    images = pictures(3, 0, side=20)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = [random_window(images, (0.5, 0.9), d) for d in [drawn(2)] for _ in range(4)]
    again = [random_window(images, (0.5, 0.9), d) for d in [drawn(2)] for _ in range(4)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    assert torch.equal(state, torch.get_rng_state()) and first[0].shape == images.shape
    alone = random_window(images[1:2], (0.5, 0.9), drawn(2))  # the same window for all
    torch.testing.assert_close(alone, first[0][1:2])


@pytest.mark.parametrize("share", [(0.9, 1.0), (0.5, 0.9), (0.3, 0.3)])
def test_the_windows_area_is_as_told_and_the_window_inside(share):
    seen = [window(random_window(ramp(), share, draw)) for draw in [drawn(0)] for _ in range(600)]
    area = [w * h / (40 * 30) for w, h, _, _ in seen]
    assert np.mean(area) == pytest.approx(sum(share) / 2, abs=0.01)
    assert min(area) > share[0] - 0.04 and max(area) < share[1] + 0.04  # whole pixels
    for size, where, full in ((0, 2, 30), (1, 3, 40)):
        start = np.array([each[where] for each in seen])
        end = start + [each[size] for each in seen]
        assert start.min() == pytest.approx(0, abs=0.2) and end.max() == pytest.approx(full, abs=0.2)
    assert np.mean([w / h for w, h, _, _ in seen]) == pytest.approx(0.75, abs=0.03)


def test_about_every_other_view_is_a_mirror_image_if_asked():
    draw = drawn(0)
    flipped = [window(random_window(ramp(), (0.7, 0.9), draw, mirror=True))[0] < 0 for _ in range(400)]
    assert 160 < sum(flipped) < 240
    assert not any(window(random_window(ramp(), (0.7, 0.9), draw))[0] < 0 for _ in range(50))


# -- the first choice ------------------------------------------------------------------------------------------------------


def probabilities(target, images):
    """Of the linear target, in float64 by hand."""
    z = (images.double() - 0.5).flatten(1) / 0.25 @ target[1].weight.double().T + target[1].bias.double()
    return z.exp() / z.exp().sum(1, keepdim=True)


@torch.no_grad()
def test_the_first_choice_against_brute_force(target, prior):
    attack = QUICK.but(pool=700, candidates=6)  # more than pass at once
    pool = prior.sample(700, 3)
    images = prior.synthesise(pool)
    mean = (probabilities(target, images) + probabilities(target, images.flip(-1))) / 2
    chosen = attack.select(target, prior, torch.tensor([2, 0]), 3)
    assert chosen.shape == (12, 10)
    for place, wanted in enumerate((2, 0)):
        best = sorted(range(700), key=lambda i: -mean[i, wanted])[:6]
        assert torch.equal(chosen[6 * place : 6 * place + 6], pool[best])
    plain = sorted(range(700), key=lambda i: -probabilities(target, images)[i, 2])[:6]
    assert not torch.equal(chosen[:6], pool[plain])  # the mirror image has its say


# -- the search ------------------------------------------------------------------------------------------------------------


def test_the_rate_falls_to_a_tenth_where_told(target, prior):
    """Adam without memory moves each coordinate by the rate, whatever the gradient; so the rate can be seen."""
    attack = QUICK.but(betas=(0.0, 0.0), steps=10, drops=(0.6, 0.8), lr=0.02, loss="cross_entropy", share=(1.0, 1.0))
    states = list(attack.search(target, prior, [0, 1]))
    assert [s.step for s in states] == list(range(11))
    moved = [(b.latents - a.latents).abs().median().item() for a, b in itertools.pairwise(states)]
    assert moved == pytest.approx([0.02] * 6 + [0.002] * 2 + [0.0002] * 2, rel=1e-2)
    w = states[0].latents.requires_grad_()
    loss = cross_entropy(target(target.normalise(prior.synthesise(w))), torch.arange(2).repeat_interleave(5))
    torch.testing.assert_close(states[0].loss, loss.detach())
    (slope,) = torch.autograd.grad(loss.sum(), w)
    assert torch.equal((states[1].latents - states[0].latents).sign(), -slope.sign())


@pytest.mark.parametrize(
    ("at_once", "batches"), [(256, [15]), (15, [15]), (14, [10, 5]), (9, [5, 5, 5]), (4, [4, 4, 4, 3]), (1, [1] * 15)]
)
def test_what_passes_at_once_changes_memory_alone(target, prior, at_once, batches):
    """Five candidates each of three classes, in one batch where there is room, and else whole classes in each."""
    seen = []
    watch = target.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])) if x[0].requires_grad else None)
    try:
        found = QUICK.but(at_once=at_once).run(target, prior, [0, 2, 3])
    finally:
        watch.remove()
    assert seen == batches * 8
    whole = QUICK.run(target, prior, [0, 2, 3])
    torch.testing.assert_close(found.latents, whole.latents, atol=1e-4, rtol=1e-4)
    assert found.trace == pytest.approx(whole.trace, rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_target_is_convinced(target, prior, loss):
    found = QUICK.but(steps=40, lr=0.1, loss=loss).run(target, prior, [0, 1, 3], seed=2)
    before = probabilities(target, found.first)[torch.arange(6), found.targets]
    after = probabilities(target, found.images)[torch.arange(6), found.targets]
    assert (after > before).all() and after.mean() > before.mean() + 0.2 and after.min() > 0.75
    torch.testing.assert_close(found.likelihood.double(), after, atol=1e-5, rtol=0)
    assert found.trace[-1] < found.trace[0] - 0.1 and len(found.trace) == 41
    assert found.images.min() >= 0 and found.images.max() <= 1
    assert torch.equal(found.images, prior.synthesise(found.latents))
    assert "Found 6 pictures of 3 classes" in repr(found) and f"{after.mean():.3f}" in repr(found)


# -- the last choice -------------------------------------------------------------------------------------------------------


def test_what_convinces_from_most_views_is_kept(target, prior):
    attack = QUICK.but(candidates=7, kept=3)
    *_, last = attack.search(target, prior, [3, 1], seed=5)
    first = next(iter(attack.search(target, prior, [3, 1], seed=5)))
    labels = torch.tensor([3] * 7 + [1] * 7)
    draw, score = drawn(6), torch.zeros(14, dtype=torch.float64)
    for _ in range(6):
        seen = random_window(prior.synthesise(last.latents), (0.5, 0.9), draw, (0.8, 1.2), mirror=True)
        score += probabilities(target, seen)[torch.arange(14), labels].detach() / 6
    best = torch.cat([score[:7].argsort(descending=True)[:3], 7 + score[7:].argsort(descending=True)[:3]])
    found = attack.run(target, prior, [3, 1], seed=5)
    assert found.targets.tolist() == [3, 3, 3, 1, 1, 1]
    torch.testing.assert_close(found.latents, last.latents[best])
    torch.testing.assert_close(found.score.double(), score[best], atol=1e-5, rtol=0)
    torch.testing.assert_close(found.first, prior.synthesise(first.latents[best]))
    assert (found.score.view(2, 3).diff() <= 0).all()


# -- seeds and neighbours --------------------------------------------------------------------------------------------------


def test_the_seed_decides_and_the_callers_random_state_stays(target, prior):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, again, other = (QUICK.run(target, prior, [0, 1], seed=seed) for seed in (7, 7, 8))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(one.images, again.images) and torch.equal(one.score, again.score) and one.trace == again.trace
    assert not torch.equal(one.images, other.images) and one.trace != other.trace


GAUSSIANS = [dict(fitted=True), dict(anchor=1.0), dict(fitted=True, anchor=0.5)]


@pytest.mark.parametrize("change", [*(dict(loss=loss) for loss in LOSSES), *GAUSSIANS], ids=str)
def test_a_class_is_searched_for_as_if_alone(target, prior, change):
    """And in batches of another size, in which no draw changes."""
    attack = QUICK.but(**change)
    together, alone = attack.run(target, prior, [0, 2, 1], seed=1), attack.run(target, prior, [2], seed=1)
    parts = attack.but(at_once=7).run(target, prior, torch.tensor([2, 1, 0]), seed=1)
    assert parts.targets.tolist() == [2, 2, 1, 1, 0, 0]
    for name in ("images", "latents", "likelihood", "score", "first"):
        for rows in (getattr(together, name)[2:4], getattr(parts, name)[:2]):
            torch.testing.assert_close(rows, getattr(alone, name), atol=1e-4, rtol=1e-4)


def test_attacks_on_other_classes_are_joined(target, prior):
    parts = [QUICK.run(target, prior, [3], seed=1), QUICK.run(target, prior, [1], seed=1)]
    got, whole = joined(parts), QUICK.run(target, prior, [3, 1], seed=1)
    for name in ("images", "targets", "latents", "likelihood", "score", "first"):
        torch.testing.assert_close(getattr(got, name), getattr(whole, name), atol=1e-4, rtol=1e-4)
    assert got.trace == pytest.approx(whole.trace, rel=1e-4)


def test_the_places_of_the_best_pictures(target, prior):
    """In the order of the classes, not of the pictures: 3 stands first, so its best is at 0, those of 0 and 1 are at 4 and 2."""
    found = QUICK.run(target, prior, [3, 1, 0])
    assert found.places(3).tolist() == [4, 2, 0] and found.places(2).tolist() == [4, 2]
    assert torch.equal(found.score[found.places(3)], found.score.view(3, 2).max(1).values[[2, 1, 0]])


def test_the_target_is_left_as_it_was(prior):
    model = network()
    before, learnable = copy.deepcopy(model.state_dict()), [p.requires_grad for p in model.parameters()]
    QUICK.run(model, prior, [0, 1])
    assert same(model, before)  # statistics of BatchNorm, too
    assert [p.requires_grad for p in model.parameters()] == learnable and sorted(set(learnable)) == [False, True]
    assert all(p.grad is None for p in model.parameters())
    assert not any(module.training for module in model.modules())  # dropout would speak with another voice each time


# -- realism, Gaussians, features, models beside ---------------------------------------------------------------------------


class Doubting(generators.Eigenfaces):
    """Finds bright pictures real: the logit is ten times the mean brightness above 1/2."""

    def realism(self, images):
        return 10 * (images.flatten(1).mean(1) - 0.5)


@pytest.fixture(scope="module")
def doubting(prior):
    return Doubting(prior.mean, prior.components, prior.deviations, prior.explained)


def loss_of(attack, target, prior, targets, beside=()):
    return next(iter(attack.search(target, prior, targets, seed=3, beside=beside)))


def test_realism_is_added_with_its_weight(target, doubting):
    attack = QUICK.but(share=(1.0, 1.0), realism=0.7)
    state, plain = loss_of(attack, target, doubting, [1]), loss_of(attack.but(realism=0.0), target, doubting, [1])
    images = doubting.synthesise(state.latents)
    expected = [0.7 * math.log1p(math.exp(-10 * (image.mean().item() - 0.5))) for image in images]
    assert (state.loss - plain.loss).tolist() == pytest.approx(expected, abs=1e-4)
    ends = [list(attack.but(realism=r, steps=30).search(target, doubting, [1], 3))[-1] for r in (0.0, 10.0)]
    bright = [doubting.synthesise(state.latents).mean().item() for state in ends]
    assert bright[1] > bright[0] + 0.02


def test_a_fitted_search_moves_mean_and_variance(target, prior):
    attack = QUICK.but(fitted=True, loss="cross_entropy", steps=40, lr=0.1, share=(1.0, 1.0))
    states = list(attack.search(target, prior, [0, 3], seed=2))
    begun, done = states[0], states[-1]
    assert begun.spread.shape == begun.latents.shape and (begun.spread == 0).all()
    assert torch.equal(begun.latents, attack.select(target, prior, torch.tensor([0, 3]), 2))
    assert (done.latents - begun.latents).abs().median() > 0.3 and done.spread.abs().median() > 0.3
    assert all(state.spread is None for state in QUICK.search(target, prior, [0]))
    found = attack.run(target, prior, [0, 3], seed=2)
    assert torch.equal(found.images, prior.synthesise(found.latents))
    assert not any((found.latents[:2, None] == done.latents[None, :5]).all(2).flatten())  # draws, not means
    assert found.likelihood.mean() > probabilities(target, found.first)[torch.arange(4), found.targets].mean()


def test_a_draw_from_the_gaussians_has_their_moments(prior):
    attack = ModelInversion(pool=4000, candidates=4000, kept=1, fitted=True)
    mean, spread = torch.full((4000, 1), 2.0), torch.full((4000, 1), math.log(9.0))
    seen = attack.sample(mean, spread, drawn(0))
    assert (seen.mean().item(), seen.std().item()) == pytest.approx((2, 3), abs=0.15)
    assert attack.sample(mean, None, drawn(0)) is mean


def test_the_anchor_holds_features_near_those_of_the_generators_pictures(prior):
    """With a weight that leaves nothing else to do, the features go where those of the pictures are on average."""
    model = network().eval()
    mean, deviation = QUICK.feature_stats(model, prior, seed=0)
    features = representations.read(model, prior.synthesise(prior.sample(500, 4)))[representations.LAST]
    torch.testing.assert_close((mean, deviation), (features.mean(0), features.std(0)))
    attack = QUICK.but(loss="logit", lr=0.1, steps=30, share=(1.0, 1.0))

    def far(anchor):
        end = attack.but(anchor=anchor).run(model, prior, [0, 1, 2, 3])
        return (representations.read(model, end.images)[representations.LAST] - mean).square().mean().item()

    assert far(1e4) < 0.5 * far(0.0)


def test_the_loss_is_the_mean_over_the_models(target, prior):
    others = [network().eval(), copy.deepcopy(target)]
    others[1][1].weight.data.neg_()
    attack = QUICK.but(loss="logit", share=(1.0, 1.0))
    state = loss_of(attack, target, prior, [2], others)
    images = prior.synthesise(state.latents)
    normalised = (images - 0.5) / 0.25  # but for the network, which knows no preprocessing
    each = [-target(normalised)[:, 2], -others[0](images)[:, 2], -others[1](normalised)[:, 2]]
    torch.testing.assert_close(state.loss, torch.stack(each).mean(0).detach())
    held = attack.but(anchor=1.0)
    extra = loss_of(held, target, prior, [2], others).loss - state.loss
    torch.testing.assert_close(extra, loss_of(held, target, prior, [2]).loss - loss_of(attack, target, prior, [2]).loss)
    assert held.run(target, prior, [2], 3, others).likelihood.shape == (2,)


# -- presets ---------------------------------------------------------------------------------------------------------------


def test_the_presets_are_as_the_authors_have_them():
    authors = dict(
        loss="poincare", pool=2000, lr=0.005, betas=(0.1, 0.1), share=(0.9, 1), views=100, view_share=(0.5, 0.9)
    )
    bare = dict(candidates=5, kept=5, pool=5, betas=(0.9, 0.999), drops=(), views=0)
    gan = bare | dict(loss="cross_entropy", realism=0.01, lr=0.02, share=(1, 1), anchor=0)
    for attack, own in (
        (ppa(), authors | dict(steps=50, drops=(30 / 50, 40 / 50))),
        (gmi(), gan | dict(steps=1500, fitted=False)),
        (kedmi(), gan | dict(steps=2400, fitted=True)),
        (plg_mi(), bare | dict(loss="max_margin", realism=0, lr=0.1, steps=600, fitted=False, share=(0.8, 1))),
        (lomma(), gan | dict(loss="logit", steps=2400, fitted=True, anchor=1)),
        (lomma(gmi()), gan | dict(loss="logit", steps=1500, fitted=False, anchor=1)),
    ):
        assert {name: getattr(attack, name) for name in own} == own
    other = plg_mi(candidates=3, steps=7)
    assert (other.candidates, other.kept, other.pool, other.steps) == (3, 3, 3, 7)
    assert (kedmi(pool=50).pool, lomma(anchor=2.0).anchor) == (50, 2)
    assert ppa(lr=0.1, kept=3).but(lr=0.005, kept=4) == ppa()


@pytest.mark.parametrize("attack", [gmi, kedmi, lomma])
def test_each_preset_convinces_a_trained_classifier(attack):
    """Of which quarter of the rows is the brightest; through a GAN that knows no more of it than random weights do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = gans.Adversary(6, (1, 16, 16), 4, 0 if attack is gmi else CLASSES)
        model = nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        with torch.no_grad():
            for _ in range(3):  # for statistics of BatchNorm with which pictures differ
                made.judged(made.synthesise(torch.randn(32, 6)))
        images = made.eval().requires_grad_(False).synthesise(made.sample(256, 1))
        model.normalise = Normalise((images.mean().item(),), (images.std(0).mean().item(),))
        rows = images.view(256, CLASSES, 64).mean(2)
        labels = (rows - rows.mean(0)).argmax(1)
        optimiser = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(150):
            optimiser.zero_grad()
            F.cross_entropy(model(model.normalise(images)), labels).backward()
            optimiser.step()
    assert (model(model.normalise(images)).argmax(1) == labels).float().mean() > 0.9
    found = attack(steps=60, lr=0.1).run(model, made, range(CLASSES), seed=1)
    before = model(model.normalise(found.first)).softmax(1)[torch.arange(20), found.targets]
    assert found.likelihood.mean() > before.mean() + 0.3 and found.likelihood.mean() > 0.6


# -- what does not fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ([0, 4], "targets: class 4 is none of the target's; it has 0 to 3"),
        ([-1], "targets: class -1 is none of the target's"),
        ([2, 1, 2], r"targets=\[2, 1, 2\]: give one or more different classes, as whole numbers"),
        ([], r"targets=\[\]: give one or more"),
        ([0.5], r"targets=\[0.5\]: give one or more different classes, as whole"),
        ([[0, 1]], r"targets=\[\[0, 1\]\]: give one"),
    ],
)
def test_classes_that_cannot_be_targets(target, prior, targets, says):
    for begin in (QUICK.run, lambda *a: next(QUICK.search(*a))):
        with pytest.raises(ValueError, match=says):
            begin(target, prior, targets)


ANY = [torch.nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(64, 4)]  # takes images of any size
NAN = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
nn.init.constant_(NAN[1].weight, torch.nan)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(side=12), r"generator: its images are \(1, 12, 12\), which this Sequential does not take"),
        (dict(channels=3), r"images are \(3, 8, 8\), .* agree in size, in channels"),
        (dict(model=NAN), "model: its 4 classes are to be finite"),
        (dict(model=nn.Sequential(*ANY), side=12), r"the target was trained on \(1, 8, 8\); fit one for that size"),
        (dict(beside=[nn.Sequential(nn.Flatten(), nn.Linear(64, 3))]), "and those of .* the models beside it"),
    ],
)  # fmt: skip
def test_a_model_and_a_generator_that_do_not_fit_are_named(target, change, says):
    made = generators.eigenfaces(pictures(12, 0, change.get("channels", 1), change.get("side", 8)), 5)
    model = change.get("model", target)
    if len([*model.children()]) == 3:
        model.image_shape = (1, 8, 8)
    with pytest.raises(ValueError, match=says):
        change.get("attack", QUICK).run(model, made, [0], beside=change.get("beside", ()))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(loss="poincaré"), "loss='poincaré' is not known.*poincare.*cross_entropy"),
        (dict(kept=9), "kept=9, candidates=8, pool=2000: the candidates come from the pool, and some are kept"),
        (dict(pool=7), "kept=4, candidates=8, pool=7"),
        (dict(steps=0), "steps=0 is out of range; give 1 or more"),
    ],
)
def test_settings_that_are_no_attack(change, says):
    with pytest.raises(ValueError, match=says):
        ppa().but(**change)
