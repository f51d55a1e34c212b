"""Model inversion: losses against their formulas, views that stay inside the picture, choices against brute force, what is kept."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as TF
from torch import nn
from weights import same

from privlab.attacks.model_inversion import ModelInversion, gans, generators, gmi, kedmi, lomma, plg_mi, ppa
from privlab.attacks.model_inversion.losses import LOSSES, logit, max_margin, poincare, random_window
from privlab.attacks.model_inversion.search import joined
from privlab.data import Normalise
from privlab.models import representations

CLASSES = 4


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def pictures(n, seed, channels=1, side=8):
    """Smooth random pictures: 4 x 4 numbers, enlarged."""
    rough = 0.5 + 0.15 * torch.randn(n, channels, 4, 4, generator=drawn(seed))
    return F.interpolate(rough, (side, side), mode="bilinear").clamp(0, 1)


@pytest.fixture(scope="module")
def prior():
    return generators.Eigenfaces(pictures(40, 0), 10)


@pytest.fixture(scope="module")
def target():
    """A linear classifier, of normalised pixels, with a bias against the last class."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(CLASSES, 64, generator=drawn(1)) * 0.3)
        model[1].bias.copy_(torch.tensor([0.0, 0.0, 0.0, -1.0]))
    model.normalise = Normalise((0.5,), (0.25,))
    return model.eval()


def network():
    """All that an attack could disturb: BatchNorm, dropout, frozen parameters and others, in train mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(4)]
        model = nn.Sequential(*body, nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, CLASSES))
    model[0].weight.requires_grad_(False)
    return model.train()


# At 8 pixels a crop of 90% would round to all of them.
QUICK = ModelInversion(pool=60, candidates=5, kept=2, steps=8, lr=0.05, share=(0.5, 1.0), views=6)


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
    rows, targets = [[3.0, -1.0, 0.0], [3.0, -1.0, 0.0], [-0.2, 5.0, 7.0], [1.0, 1.0, 1.0]], [0, 2, 1, 1]
    got = poincare(torch.tensor(rows), torch.tensor(targets))
    assert got.tolist() == pytest.approx([*map(by_hand, rows, targets)], rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient_are_finite_on_the_rim(loss):
    rim = [[0.0, 1.0, 0.0], [7.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3e38, 0.0], [1e-38, 2e-38, -1e-38]]
    value = LOSSES[loss](logits := torch.tensor(rim, requires_grad=True), torch.tensor([1] * 5))
    (slope,) = torch.autograd.grad(value.sum(), logits)
    assert value.isfinite().all() and slope.isfinite().all() and value.dtype == torch.float32


@pytest.mark.parametrize("share", [(0.5, 0.9), (0.3, 0.3)])
def test_a_view_is_torchvisions_crop_of_the_drawn_area_place_and_shape(share):
    """Five even draws a view: area, shape, top, left, and whether it is a mirror image; nothing else is drawn."""
    images, draw, again, state = pictures(3, 0, side=20), drawn(2), drawn(2), torch.get_rng_state()
    mirrored = 0
    for _ in range(50):
        seen = random_window(images, share, draw, (0.8, 1.2), mirror=True)
        area, shape, down, right, flip = torch.rand(5, generator=again).tolist()
        size, stretch = share[0] + (share[1] - share[0]) * area, 0.8 + 0.4 * shape  # of the image; width to height
        h, w = (min(round(20 * side**0.5), 20) for side in (size / stretch, size * stretch))
        expected = TF.resized_crop(images, round(down * (20 - h)), round(right * (20 - w)), h, w, [20, 20])
        torch.testing.assert_close(seen, expected.flip(-1) if flip < 0.5 else expected)
        mirrored += flip < 0.5
    assert 10 < mirrored < 40 and torch.equal(state, torch.get_rng_state())


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


def test_the_rate_falls_to_a_tenth_where_told(target, prior):
    """Adam without memory moves each coordinate by the rate, whatever the gradient, which here is the same all along."""
    how = dict(betas=(0.0, 0.0), steps=10, drops=(0.6, 0.8), lr=0.02, loss="logit", share=(1.0, 1.0))
    attack = replace(QUICK, **how, candidates=1, kept=1)
    moved = attack.run(target, prior, [0, 1]).latents - (w := attack.select(target, prior, torch.tensor([0, 1]), 0))
    loss = logit(target(target.normalise(prior.synthesise(w.requires_grad_()))), torch.arange(2))
    (slope,) = torch.autograd.grad(loss.sum(), w)
    torch.testing.assert_close(moved, -slope.sign() * (6 * 0.02 + 2 * 0.002 + 2 * 0.0002), rtol=1e-2, atol=0)


@pytest.mark.parametrize(("at_once", "batches"), [(14, [10, 5]), (4, [4, 4, 4, 3])])
def test_what_passes_at_once_changes_memory_alone(target, prior, at_once, batches):
    """Five candidates each of three classes: whole classes where there is room; that results agree is a test below."""
    seen = []
    watch = target.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])) if x[0].requires_grad else None)
    with watch:
        replace(QUICK, at_once=at_once).run(target, prior, [0, 2, 3])
    assert seen == batches * 8


@pytest.mark.parametrize("loss", LOSSES)
def test_the_target_is_convinced(target, prior, loss):
    found = replace(QUICK, steps=40, lr=0.1, loss=loss).run(target, prior, [0, 1, 3], seed=2)
    before, after = (probabilities(target, x)[torch.arange(6), found.targets] for x in (found.first, found.images))
    assert (after > before).all() and after.mean() > before.mean() + 0.2 and after.min() > 0.75
    torch.testing.assert_close(found.likelihood.double(), after, atol=1e-5, rtol=0)
    assert torch.equal(found.images, prior.synthesise(found.latents))


def test_what_convinces_from_most_views_is_kept(target, prior):
    attack = replace(QUICK, candidates=7, kept=3)
    found, every = (replace(attack, kept=n).run(target, prior, [1, 3], seed=5) for n in (3, 7))
    draw, score = drawn(6), torch.zeros(14, dtype=torch.float64)
    for _ in range(6):
        seen = random_window(every.images, (0.5, 0.9), draw, (0.8, 1.2), mirror=True)
        score += probabilities(target, seen)[torch.arange(14), every.targets].detach() / 6
    torch.testing.assert_close(every.score.double(), score, atol=1e-5, rtol=0)
    assert (every.score.view(2, 7).diff() <= 0).all() and found.targets.tolist() == [1, 1, 1, 3, 3, 3]
    assert same(vars(found), vars(every.best(3)))
    begun = prior.synthesise(attack.select(target, prior, torch.tensor([1]), 5))
    assert all((begun - image).abs().amax((1, 2, 3)).min() < 1e-6 for image in found.first[:3])


@pytest.mark.parametrize("change", [{}, dict(fitted=True, anchor=0.5)], ids=str)
def test_a_class_is_searched_for_as_if_alone(target, prior, change):
    """By the seed, and not by the caller's random state; alone, joined with others, or in batches of another size."""
    attack = replace(QUICK, **change)
    together, alone = (replace(attack, at_once=7).run(target, prior, some, seed=1) for some in ([0, 2, 1], [2]))
    torch.manual_seed(3)
    parts = joined([attack.run(target, prior, torch.tensor(some), seed=1) for some in ([2], [1, 0])])
    assert parts.targets.tolist() == [2, 2, 1, 1, 0, 0]
    for name in ("images", "latents", "likelihood", "score", "first"):
        for rows in (getattr(together, name)[2:4], getattr(parts, name)[:2]):
            torch.testing.assert_close(rows, getattr(alone, name), atol=1e-4, rtol=1e-4)
    assert not torch.equal(attack.run(target, prior, [2], seed=2).images, alone.images)


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
    assert [p.requires_grad for p in model.parameters()] == learnable
    assert all(p.grad is None for p in model.parameters())
    assert not any(module.training for module in model.modules())  # dropout would speak with another voice each time


def test_realism_pulls_towards_what_the_discriminator_finds_real(target, prior):
    """This one finds bright pictures real: its logit is ten times the mean brightness above 1/2."""
    doubting = copy.deepcopy(prior)
    doubting.realism = lambda images: 10 * (images.flatten(1).mean(1) - 0.5)
    found = [replace(QUICK, realism=r, steps=30).run(target, doubting, [1], 3) for r in (0.0, 10.0)]
    assert found[1].images.mean() > found[0].images.mean() + 0.02


def test_a_draw_has_the_fitted_variance():
    attack = replace(QUICK, fitted=True, candidates=4000, pool=4000)
    found = attack.sample(torch.ones(4000, 2), torch.tensor([0.0, math.log(9)]).expand(4000, 2), drawn(0))
    assert found.std(0).tolist() == pytest.approx([1, 3], rel=0.05)
    assert found.mean(0).tolist() == pytest.approx([1, 1], abs=0.15)


def test_the_anchor_holds_features_near_those_of_the_generators_pictures(prior):
    """With a weight that leaves nothing else to do, the features go where those of the pictures are on average."""
    model = network().eval()
    mean = representations.read(model, prior.synthesise(prior.sample(500, 4)))[representations.LAST].mean(0)
    attack = replace(QUICK, loss="logit", lr=0.1, steps=30, share=(1.0, 1.0))

    def far(anchor):
        end = replace(attack, anchor=anchor).run(model, prior, [0, 1, 2, 3])
        return (representations.read(model, end.images)[representations.LAST] - mean).square().mean().item()

    assert far(1e4) < 0.5 * far(0.0)


def test_the_loss_is_the_mean_over_the_models(target):
    models = [target, network().eval(), copy.deepcopy(target)]
    models[2][1].weight.data.neg_()
    attack, images, labels = replace(QUICK, loss="logit", anchor=0.5), pictures(3, 5), torch.tensor([2, 2, 0])
    normalised, rows = (images - 0.5) / 0.25, torch.arange(3)
    seen = zip(models, (normalised, images, normalised), strict=True)  # the second knows no preprocessing
    each = [-model(x)[rows, labels] for model, x in seen]
    mean, point = torch.stack(each).mean(0), torch.arange(64.0)
    torch.testing.assert_close(attack.objective(models, images, labels, None), mean)
    held = mean + 0.5 * (normalised.flatten(1) - point).square().mean(1)
    torch.testing.assert_close(attack.objective(models, images, labels, point), held)


def test_the_presets_are_as_the_authors_have_them():
    koh = dict(loss="poincare", lr=0.005, betas=(0.1, 0.1), share=(0.9, 1), views=100, steps=50, drops=(0.6, 0.8))
    gan = dict(candidates=5, kept=5, pool=5, betas=(0.9, 0.999), drops=(), views=0, lr=0.02, share=(1, 1))
    for attack, own in (
        (ppa(), koh),
        (gmi(), gan | dict(loss="cross_entropy", realism=0.01, steps=1500, fitted=False)),
        (kedmi(), gan | dict(loss="cross_entropy", realism=0.01, steps=2400, fitted=True)),
        (plg_mi(), gan | dict(loss="max_margin", realism=0, lr=0.1, steps=600, share=(0.8, 1))),
        (lomma(kedmi()), gan | dict(loss="logit", realism=0.01, steps=2400, fitted=True, anchor=1)),
        (plg_mi(candidates=3), dict(candidates=3, kept=3, pool=3)),
    ):
        assert {name: getattr(attack, name) for name in own} == own


def test_a_generator_that_is_told_the_class_is_searched_within_it():
    """The first choice shows one pool under each class, to a target that a mirror image means something else to."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = gans.DCGAN(6, (1, 16, 16), 4, 2).eval()
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


def test_an_attack_is_kept_under_all_that_it_depends_on(target, prior, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    other, further, quick = copy.deepcopy(target), generators.Eigenfaces(pictures(30, 2), 6), replace(QUICK, steps=2)
    other[1].bias.data += 1
    direct, kept = quick.run(target, prior, [2, 0], 3), quick.run_once(target, prior, [2, 0], 3)
    assert same(vars(direct), vars(kept)) and kept.targets.tolist() == [2, 2, 0, 0]
    for change in ((other, prior, [2, 0], 3), (target, further, [2, 0], 3), (target, prior, [0, 2], 3)):
        quick.run_once(*change)
    quick.run_once(target, prior, [2, 0], 4)
    quick.run_once(target, prior, [2, 0], 3, [other])
    replace(quick, lr=0.2).run_once(target, prior, [2, 0], 3)
    assert len(list((tmp_path / "model_inversion").iterdir())) == 7
    monkeypatch.setattr(ModelInversion, "run", lambda *_: pytest.fail("attacked again"))
    assert same(vars(quick.run_once(copy.deepcopy(target), copy.deepcopy(prior), [2, 0], 3)), vars(kept))


@pytest.mark.parametrize("targets", [[0, 4], [-1], [2, 1, 2], []], ids=str)
def test_classes_that_cannot_be_targets(target, prior, targets):
    with pytest.raises(ValueError, match=r"targets=.*: give one or more different classes of the target's, 0 to 3"):
        QUICK.run(target, prior, targets)


def test_a_generator_that_does_not_fit_is_named(target, prior):
    other = generators.Eigenfaces(pictures(12, 0, side=12), 5)
    with pytest.raises(ValueError, match=r"generator: its images are \(1, 12, 12\), which this model does not take"):
        QUICK.run(target, other, [0])
    with pytest.raises(ValueError, match="pool=60: give 1 or more, each at most the next"):
        replace(QUICK, candidates=61)
