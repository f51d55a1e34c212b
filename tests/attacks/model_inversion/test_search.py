"""Model inversion: losses against their formulas, views that stay inside the picture, choices against brute force, what is kept."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from weights import same

from privlab.attacks.model_inversion import (
    ModelInversion,
    gans,
    generators,
    gmi,
    kedmi,
    lomma,
    plg_mi,
    ppa,
)
from privlab.attacks.model_inversion.losses import (
    LOSSES,
    cross_entropy,
    logit,
    max_margin,
    poincare,
    random_window,
)
from privlab.attacks.model_inversion.search import joined
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


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient_are_finite_on_the_rim(loss):
    rim = [[0.0, 1.0, 0.0], [7.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3e38, 0.0], [1e-38, 2e-38, -1e-38]]
    logits = torch.tensor(rim, requires_grad=True)
    value = LOSSES[loss](logits, torch.tensor([1] * 5))
    (slope,) = torch.autograd.grad(value.sum(), logits)
    assert value.isfinite().all() and slope.isfinite().all() and value.dtype == torch.float32


def test_the_gradient_of_poincare_lasts_where_that_of_cross_entropy_fades():
    """At logits that are certain of the target, to a probability of 1 - 1e-8."""
    logits = torch.tensor([[20.0, 1.0, -1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    (fades,), (lasts,) = (
        torch.autograd.grad(f(logits, torch.tensor([0])).sum(), logits) for f in (cross_entropy, poincare)
    )
    assert fades.abs().max() < 1e-8 and lasts.abs().max() > 1e-2


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
    images, state, draw = pictures(3, 0, side=20), torch.get_rng_state(), drawn(2)
    first, second = (random_window(images, (0.5, 0.9), draw) for _ in range(2))
    assert torch.equal(first, random_window(images, (0.5, 0.9), drawn(2))) and not torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state()) and first.shape == images.shape
    alone = random_window(images[1:2], (0.5, 0.9), drawn(2))  # the same window for all
    torch.testing.assert_close(alone, first[1:2])


@pytest.mark.parametrize("share", [(0.5, 0.9), (0.3, 0.3)])
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
    attack = replace(QUICK, pool=700, candidates=6)  # more than pass at once
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
    """Adam without memory moves each coordinate by the rate, whatever the gradient, which here is the same all along."""
    attack = replace(QUICK, betas=(0.0, 0.0), steps=10, drops=(0.6, 0.8), lr=0.02, loss="logit", share=(1.0, 1.0))
    attack = replace(attack, candidates=1, kept=1)
    moved = attack.run(target, prior, [0, 1]).latents - (w := attack.select(target, prior, torch.tensor([0, 1]), 0))
    loss = logit(target(target.normalise(prior.synthesise(w.requires_grad_()))), torch.arange(2))
    (slope,) = torch.autograd.grad(loss.sum(), w)
    torch.testing.assert_close(moved, -slope.sign() * (6 * 0.02 + 2 * 0.002 + 2 * 0.0002), rtol=1e-2, atol=0)


@pytest.mark.parametrize(("at_once", "batches"), [(15, [15]), (14, [10, 5]), (9, [5, 5, 5]), (4, [4, 4, 4, 3])])
def test_what_passes_at_once_changes_memory_alone(target, prior, at_once, batches):
    """Five candidates each of three classes, in one batch where there is room, and else whole classes in each."""
    seen = []
    watch = target.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])) if x[0].requires_grad else None)
    try:
        found = replace(QUICK, at_once=at_once).run(target, prior, [0, 2, 3])
    finally:
        watch.remove()
    assert seen == batches * 8
    whole = QUICK.run(target, prior, [0, 2, 3])
    torch.testing.assert_close(found.latents, whole.latents, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_target_is_convinced(target, prior, loss):
    found = replace(QUICK, steps=40, lr=0.1, loss=loss).run(target, prior, [0, 1, 3], seed=2)
    before = probabilities(target, found.first)[torch.arange(6), found.targets]
    after = probabilities(target, found.images)[torch.arange(6), found.targets]
    assert (after > before).all() and after.mean() > before.mean() + 0.2 and after.min() > 0.75
    torch.testing.assert_close(found.likelihood.double(), after, atol=1e-5, rtol=0)
    assert found.images.min() >= 0 and found.images.max() <= 1
    assert torch.equal(found.images, prior.synthesise(found.latents))
    assert "Found 6 pictures of 3 classes" in repr(found) and f"{after.mean():.3f}" in repr(found)


# -- the last choice -------------------------------------------------------------------------------------------------------


def test_what_convinces_from_most_views_is_kept(target, prior):
    attack = replace(QUICK, candidates=7, kept=3)
    found, every = attack.run(target, prior, [1, 3], seed=5), replace(attack, kept=7).run(target, prior, [1, 3], seed=5)
    draw, score = drawn(6), torch.zeros(14, dtype=torch.float64)
    for _ in range(6):
        seen = random_window(every.images, (0.5, 0.9), draw, (0.8, 1.2), mirror=True)
        score += probabilities(target, seen)[torch.arange(14), every.targets].detach() / 6
    torch.testing.assert_close(every.score.double(), score, atol=1e-5, rtol=0)
    assert (every.score.view(2, 7).diff() <= 0).all()
    assert found.targets.tolist() == [1, 1, 1, 3, 3, 3]
    assert same(vars(found), vars(every.best(3)))
    begun = attack.select(target, prior, torch.tensor([1]), 5)
    assert all((prior.synthesise(begun) - image).abs().amax((1, 2, 3)).min() < 1e-6 for image in found.first[:3])


# -- seeds and neighbours --------------------------------------------------------------------------------------------------


def test_the_seed_decides_and_the_callers_random_state_stays(target, prior):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, again, other = (QUICK.run(target, prior, [0, 1], seed=seed) for seed in (7, 7, 8))
    assert torch.equal(state, torch.get_rng_state())
    assert same(vars(one), vars(again)) and not torch.equal(one.images, other.images)


GAUSSIANS = [dict(fitted=True), dict(anchor=1.0), dict(fitted=True, anchor=0.5)]


@pytest.mark.parametrize("change", [{}, *GAUSSIANS], ids=str)
def test_a_class_is_searched_for_as_if_alone(target, prior, change):
    """And in batches of another size, in which no draw changes."""
    attack = replace(QUICK, **change)
    together, alone = attack.run(target, prior, [0, 2, 1], seed=1), attack.run(target, prior, [2], seed=1)
    parts = replace(attack, at_once=7).run(target, prior, torch.tensor([2, 1, 0]), seed=1)
    assert parts.targets.tolist() == [2, 2, 1, 1, 0, 0]
    for name in ("images", "latents", "likelihood", "score", "first"):
        for rows in (getattr(together, name)[2:4], getattr(parts, name)[:2]):
            torch.testing.assert_close(rows, getattr(alone, name), atol=1e-4, rtol=1e-4)


def test_attacks_on_other_classes_are_joined(target, prior):
    parts = [QUICK.run(target, prior, [3], seed=1), QUICK.run(target, prior, [1], seed=1)]
    got, whole = joined(parts), QUICK.run(target, prior, [3, 1], seed=1)
    for name in ("images", "targets", "latents", "likelihood", "score", "first"):
        torch.testing.assert_close(getattr(got, name), getattr(whole, name), atol=1e-4, rtol=1e-4)


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


def test_realism_pulls_towards_what_the_discriminator_finds_real(target, prior):
    doubting = Doubting(prior.mean, prior.components, prior.deviations)
    found = [replace(QUICK, realism=r, steps=30).run(target, doubting, [1], 3) for r in (0.0, 10.0)]
    assert found[1].images.mean() > found[0].images.mean() + 0.02


def test_a_draw_from_the_gaussians_has_their_moments():
    attack = ModelInversion(pool=4000, candidates=4000, kept=1, fitted=True)
    mean, spread = torch.full((4000, 1), 2.0), torch.full((4000, 1), math.log(9.0))
    seen = attack.sample(mean, spread, drawn(0))
    assert (seen.mean().item(), seen.std().item()) == pytest.approx((2, 3), abs=0.15)
    assert replace(attack, fitted=False).sample(mean, spread, drawn(0)) is mean


def test_the_anchor_holds_features_near_those_of_the_generators_pictures(prior):
    """With a weight that leaves nothing else to do, the features go where those of the pictures are on average."""
    model = network().eval()
    mean, deviation = QUICK._feature_stats(model, prior, seed=0)
    features = representations.read(model, prior.synthesise(prior.sample(500, 4)))[representations.LAST]
    torch.testing.assert_close((mean, deviation), (features.mean(0), features.std(0)))
    attack = replace(QUICK, loss="logit", lr=0.1, steps=30, share=(1.0, 1.0))

    def far(anchor):
        end = replace(attack, anchor=anchor).run(model, prior, [0, 1, 2, 3])
        return (representations.read(model, end.images)[representations.LAST] - mean).square().mean().item()

    assert far(1e4) < 0.5 * far(0.0)


def test_the_loss_is_the_mean_over_the_models(target):
    others = [network().eval(), copy.deepcopy(target)]
    others[1][1].weight.data.neg_()
    attack, images, labels = replace(QUICK, loss="logit", anchor=0.5), pictures(3, 5), torch.tensor([2, 2, 0])
    normalised = (images - 0.5) / 0.25  # but for the network, which knows no preprocessing
    each = [
        -m(x)[torch.arange(3), labels] for m, x in zip((target, *others), (normalised, images, normalised), strict=True)
    ]
    mean = torch.stack(each).mean(0)
    torch.testing.assert_close(attack.objective((target, *others), images, labels, None), mean)
    point = torch.arange(64.0)
    held = mean + 0.5 * (normalised.flatten(1) - point).square().mean(1)
    torch.testing.assert_close(attack.objective((target, *others), images, labels, point), held)


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
        (lomma(kedmi()), gan | dict(loss="logit", steps=2400, fitted=True, anchor=1)),
        (lomma(gmi()), gan | dict(loss="logit", steps=1500, fitted=False, anchor=1)),
    ):
        assert {name: getattr(attack, name) for name in own} == own
    other = plg_mi(candidates=3, steps=7)
    assert (other.candidates, other.kept, other.pool, other.steps) == (3, 3, 3, 7)
    assert (kedmi(pool=50).pool, lomma(gmi(), anchor=2.0).anchor) == (50, 2)
    assert replace(ppa(lr=0.1, kept=3), lr=0.005, kept=4) == ppa()


@pytest.mark.parametrize("attack", [gmi, kedmi, lambda **short: lomma(kedmi(**short))], ids=["gmi", "kedmi", "lomma"])
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


def test_a_generator_that_is_told_the_class_is_searched_within_it():
    """The first choice shows one pool under each class, to a target that a mirror image means something else to."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = gans.ConditionalDCGAN(6, (1, 16, 16), 4, 2).eval()
        for norm in made.norms:
            nn.init.normal_(norm.shift.weight)
        target = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    attack = plg_mi(candidates=3, kept=2, pool=20, steps=10)
    chosen, pool = attack.select(target, made, torch.tensor([1, 0]), seed=4), made.sample(20, 4)
    for place, wanted in enumerate((1, 0)):
        images = made.synthesise(pool, torch.full((20,), wanted))
        sure = (target(images).softmax(1) + target(images.flip(-1)).softmax(1))[:, wanted]
        best = sorted(range(20), key=lambda i: -sure[i])[:3]
        assert torch.equal(chosen[3 * place : 3 * place + 3], pool[best])
    found = attack.run(target, made, [1, 0], seed=4)
    assert torch.equal(found.images, made.synthesise(found.latents, found.targets))
    assert found.likelihood.mean() > target(found.first).softmax(1)[torch.arange(4), found.targets].mean()


# -- what is kept ----------------------------------------------------------------------------------------------------------


def test_an_attack_is_kept_under_all_that_it_depends_on(target, prior, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    other, further = copy.deepcopy(target), generators.eigenfaces(pictures(30, 2), 6)
    other[1].bias.data += 1
    direct, kept = QUICK.run(target, prior, [2, 0], 3), QUICK.run_once(target, prior, [2, 0], 3)
    assert same(vars(direct), vars(kept)) and kept.targets.tolist() == [2, 2, 0, 0]
    QUICK.run_once(other, prior, [2, 0], 3)
    QUICK.run_once(target, further, [2, 0], 3)
    QUICK.run_once(target, prior, [0, 2], 3)  # the pictures stand in this order
    QUICK.run_once(target, prior, [2, 0], 4)
    QUICK.run_once(target, prior, [2, 0], 3, [other])
    replace(QUICK, lr=0.2).run_once(target, prior, [2, 0], 3)
    assert len(list((tmp_path / "model_inversion").iterdir())) == 7
    monkeypatch.setattr(ModelInversion, "run", lambda *_: pytest.fail("attacked again"))
    assert same(vars(QUICK.run_once(copy.deepcopy(target), copy.deepcopy(prior), [2, 0], 3)), vars(kept))


# -- what does not fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [[0, 4], [-1], [2, 1, 2], []], ids=str)
def test_classes_that_cannot_be_targets(target, prior, targets):
    with pytest.raises(ValueError, match=r"targets=.*: give one or more different classes of the target's, 0 to 3"):
        QUICK.run(target, prior, targets)


def test_a_model_and_a_generator_that_do_not_fit_are_named(target, prior):
    other = generators.eigenfaces(pictures(12, 0, side=12), 5)
    with pytest.raises(ValueError, match=r"generator: its images are \(1, 12, 12\), which this model does not take"):
        QUICK.run(target, other, [0])
    any_size = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(64, 4))
    any_size.image_shape = (1, 8, 8)
    with pytest.raises(ValueError, match=r"the target was trained on \(1, 8, 8\)"):
        QUICK.run(any_size, other, [0])
    with pytest.raises(ValueError, match=r"generator, ensemble: .* give some of the target's"):
        QUICK.run(target, prior, [0], ensemble=[nn.Sequential(nn.Flatten(), nn.Linear(64, 3))])


def test_settings_that_are_no_attack():
    with pytest.raises(ValueError, match="loss='poincaré' is not known.*poincare.*cross_entropy"):
        ppa(loss="poincaré")
