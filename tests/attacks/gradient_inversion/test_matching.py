"""What a search can do beyond one image: chunks, several seeds together, other spaces, terms that look at the victim first."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from privlab import models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, Term, matching, presets
from privlab.attacks.gradient_inversion.objectives import cosine_distance, squared_distance
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.attacks.gradient_inversion.terms import ready
from privlab.data import Normalise
from privlab.leak import observe

COSINE = Term("gradients", 1.0, cosine_distance)
SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")


def network(seed=0, norm=False):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, 8, 3, padding=1, stride=2), *([nn.BatchNorm2d(8)] if norm else []), nn.Sigmoid()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(72, 5))
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double().eval()


def sent(model, batch=3, seed=0):
    images = torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return images, observe(model, images, torch.arange(batch))


def agree(x, *_):
    """Squared distance of each seed to the mean of all."""
    return (x - x.mean(0)).square().flatten(1).sum(1)


# -- a batch in chunks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        GradientMatching((COSINE, SMOOTH), 6),
        gradient_inversion.dlg(3),
        gradient_inversion.quasi_newton(3),
        gradient_inversion.gradinversion(6, group=2),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2])
def test_a_batch_in_chunks_gives_the_same_images(attack, chunk):
    model = network()
    _, leak = sent(model)
    leak = replace(leak, labels=None) if attack.labels == "search" else leak
    whole = list(attack.search(model, leak))
    parts = list(attack.search(model, leak, chunk=chunk))
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a.images, b.images, atol=1e-8)
        assert a.losses == pytest.approx(
            b.losses, rel=1e-5
        )  # L-BFGS divides by small differences: processors end 1e-7 apart
    assert whole[-1].evaluations == parts[-1].evaluations


def test_a_chunk_of_all_is_no_chunk():
    model = network()
    _, leak = sent(model)
    attack = GradientMatching((COSINE, SMOOTH), 3)
    whole, parts = (list(attack.search(model, leak, chunk=chunk))[-1].images for chunk in (None, 9))
    assert torch.equal(whole, parts)


def test_chunks_that_cannot_be():
    model = network(norm=True)
    _, leak = sent(model)
    with pytest.raises(ValueError, match="chunk=0 is no number of images"):
        next(GradientMatching((COSINE,), 3).search(model, leak, chunk=0))
    with pytest.raises(ValueError, match=r"chunk=1: Sequential has BatchNorm in train mode, which mixes"):
        next(GradientMatching((COSINE,), 3).search(model.train(), leak, chunk=1))
    next(GradientMatching((COSINE,), 3).search(model.eval(), leak, chunk=1))


# -- several seeds together ----------------------------------------------------------------------------------------------


def test_seeds_without_a_common_term_go_their_own_ways():
    model = network()
    _, leak = sent(model)
    alone = GradientMatching((COSINE, SMOOTH), 5)
    together = list(replace(alone, group=2).search(model, leak, seed=3))
    first = list(alone.search(model, leak, seed=3))
    second = list(alone.search(model, leak, start=together[0].members[1]))
    for state, a, b in zip(together, first, second, strict=True):
        assert torch.allclose(state.members, torch.stack([a.images, b.images]), atol=1e-9)
        best = a if a.score < b.score else b
        assert torch.allclose(state.images, best.images, atol=1e-9) and state.score == pytest.approx(best.score)
        assert state.losses == pytest.approx(best.losses)
    assert together[-1].evaluations == 2 * first[-1].evaluations


def test_a_term_of_the_group_draws_seeds_together():
    model = network()
    _, leak = sent(model)
    apart = GradientMatching((COSINE,), 20, group=3)
    held = replace(apart, terms=(COSINE, Term("agreement", 10.0, agree, of="group")))
    spread = [list(a.search(model, leak))[-1].members.std(0).mean() for a in (apart, held)]
    assert spread[1] < spread[0] / 2
    state = next(held.search(model, leak))
    values = 10 * agree(leak.normalise(state.members.flatten(0, 1)).unflatten(0, (3, 3)))
    lead = next(i for i in range(3) if torch.equal(state.members[i], state.images))
    assert state.losses["agreement"] == pytest.approx(values[lead].item())


def test_the_slope_of_a_common_term_is_that_of_its_sum():
    """One step of plain descent by hand: with the weight of the gradients at (nearly) nothing, only the common term pulls."""
    model = network()
    _, leak = sent(model)
    attack = GradientMatching(
        (replace(COSINE, weight=1e-30), Term("agreement", 1.0, agree, of="group")), 1, 0.1, group=2, boxed=False
    )
    before, after = list(attack.search(model, leak))
    x = leak.normalise(before.members.flatten(0, 1)).unflatten(0, (2, 3))  # clamped, so only where nothing was clamped
    inside = (before.members > 0) & (before.members < 1)
    (slope,) = torch.autograd.grad(agree(x.requires_grad_()).sum(), x)
    moved = leak.normalise(after.members.flatten(0, 1)).unflatten(0, (2, 3)) - x.detach()
    inside &= (after.members > 0) & (after.members < 1)
    assert inside.any() and torch.allclose(moved[inside], -0.1 * slope.sign()[inside], atol=1e-6)  # Adam's first step


def test_a_group_goes_on_bit_for_bit():
    model = network()
    _, leak = sent(model)
    attack = GradientMatching((COSINE, SMOOTH, Term("agreement", 0.1, agree, of="group")), 8, group=2)
    search = attack.search(model, leak)
    whole = []
    for state in search:
        whole.append(state)
        if state.step == 4:
            kept = {n: t.clone() for n, t in state.checkpoint().items()}
    again = list(attack.search(model, leak, resume=kept))
    assert again[0].step == 4
    for a, b in zip(whole[4:], again, strict=True):
        assert torch.equal(a.members, b.members) and a.losses == b.losses and a.evaluations == b.evaluations


def test_labels_of_a_group_are_searched_for_one_by_one():
    model = network()
    _, leak = sent(model, batch=2)
    attack = replace(gradient_inversion.dlg(2), group=2)
    state = list(attack.search(model, replace(leak, labels=None)))[-1]
    assert state.labels.shape == (2,) and state.members.shape == (2, 2, 3, 6, 6)


# -- where it looks ------------------------------------------------------------------------------------------------------


class Plane:
    """Images (batch, 3, 6, 6) in the plane origin + latent * direction."""

    origin, direction = (
        torch.full((1, 3, 6, 6), 0.5, dtype=torch.float64),
        torch.linspace(-1, 1, 108).view(1, 3, 6, 6).double(),
    )

    def begin(self, images):
        return ((images - self.origin) * self.direction).flatten(1).sum(1, keepdim=True) / self.direction.square().sum()

    def images(self, latent):
        return self.origin + latent[:, :, None, None] * self.direction


def test_a_search_in_a_space_stays_in_it_and_finds_what_lies_there():
    model, plane = network(), Plane()
    truth = model.normalise.inverse(plane.images(torch.tensor([[0.7], [-0.4]], dtype=torch.float64)))
    leak = observe(model, truth, torch.tensor([1, 3]))
    attack = GradientMatching((Term("gradients", 1.0, squared_distance),), 200, 0.05, schedule=matching.cosine)
    states = list(attack.search(model, leak, space=plane))
    for state in states[::50]:
        x = leak.normalise(state.images)
        assert torch.allclose(plane.images(plane.begin(x)), x, atol=1e-9)
    assert (states[-1].images - truth).abs().max() < 1e-2


def test_the_slope_in_a_space_is_that_of_the_composition():
    model, plane = network(), Plane()
    _, leak = sent(model, batch=2)
    attack = GradientMatching((Term("gradients", 1.0, squared_distance),), 1, 0.1)
    before, after = list(attack.search(model, leak, space=plane))
    z, moved = (plane.begin(leak.normalise(s.images)) for s in (before, after))
    z.requires_grad_()
    logits = model(plane.images(z))
    grads = torch.autograd.grad(
        nn.functional.cross_entropy(logits, leak.labels), list(model.parameters()), create_graph=True
    )
    loss = sum((a - b).square().sum() for a, b in zip(grads, leak.grads.values(), strict=True))
    assert before.losses["gradients"] == pytest.approx(loss.item())
    (slope,) = torch.autograd.grad(loss, z)
    assert torch.allclose(moved - z.detach(), -0.1 * slope.sign(), atol=1e-5)


# -- terms that know the victim, and baselines that look at no gradient -------------------------------------------------


class Prepared:
    """Notes what it was shown; gives the value to use."""

    def __init__(self, give):
        self.give, self.seen = give, []

    def prepare(self, model, leak):
        self.seen.append((model, leak))
        return self.give


def test_terms_are_made_ready_once_with_the_labels_that_were_read():
    model = network()
    _, leak = sent(model)
    value = Prepared(total_variation)
    attack = GradientMatching((COSINE, Term("prepared", 1.0, value, of="images")), 3)
    states = list(attack.search(model, replace(leak, labels=None)))
    assert len(value.seen) == 1 and sorted(value.seen[0][1].labels.tolist()) == [0, 1, 2]
    assert "prepared" in states[-1].losses
    assert [t.name for t in ready((COSINE, Term("gone", 1.0, Prepared(None))), model, leak)] == ["gradients"]
    with pytest.raises(ValueError, match="nothing is left to compare gradients by"):
        next(GradientMatching((Term("gone", 1.0, Prepared(None)),), 3).search(model, leak))


def test_april_without_the_position_embedding_says_that_it_is_dlg():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3]))
    attack = gradient_inversion.april(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(next(attack.search(model, leak)).losses) == {"gradients", "position"}
    with pytest.warns(UserWarning, match="pos_embed"):
        states = list(attack.search(model, leak.without(["pos_embed"])))
    plain = replace(attack, terms=(attack.terms[0],))
    assert set(states[0].losses) == {"gradients"}
    assert torch.equal(states[-1].images, list(plain.search(model, leak.without(["pos_embed"])))[-1].images)


def test_a_blind_search_takes_no_gradient_of_the_victim():
    model = network()
    _, leak = sent(model)

    def look(images, grads, _):
        assert not grads
        return images.square().mean()

    attack = GradientMatching((Term("grey", 1.0, look, of="images"),), 30, blind=True)
    states = list(attack.search(model, leak))
    assert states[-1].evaluations == 0 and states[-1].loss < states[0].loss / 10
    attack = gradient_inversion.deep_inversion(60)
    first, *_, last = attack.search(model, leak)
    assert last.evaluations == 0 and last.losses["class"] < first.losses["class"]
    assert (model(leak.normalise(last.images)).argmax(1) == leak.labels).all()


# -- the presets ---------------------------------------------------------------------------------------------------------


def test_gradvit_is_scheduled_as_equations_5_and_6():
    prior = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).double()
    attack = gradient_inversion.gradvit(10, prior, patch=3)
    weights = {t.name: [t.weigh(p) for p in (0, 0.49, 0.5, 1)] for t in attack.terms}
    assert weights == {
        "gradients": [4e-3, 4e-3, 2e-3, 2e-3], "statistics": [0, 0, 0.2, 0.2], "patches": [1e-4] * 4,
        "registration": [1e-2] * 4, "pixels": [1e-4] * 4, "smoothness": [1e-4] * 4,
    }  # fmt: skip
    flat = attack.unscheduled()
    assert {t.name: t.weigh(0) for t in flat.terms} == {t.name: t.weight for t in attack.terms}
    assert [t.name for t in attack.without("patches", "statistics").terms] == [
        "gradients",
        "registration",
        "pixels",
        "smoothness",
    ]
    with pytest.raises(ValueError, match="the attack has no term 'patch'; it has gradients, "):
        attack.without("patch")
    model = network()
    _, leak = sent(model)
    states = list(attack.search(model, leak))
    assert [set(s.losses) for s in (states[4], states[5])] == [set(weights) - {"statistics"}, set(weights)]
    assert [s.score == s.score for s in states] == [False] * 5 + [True] * 6


@pytest.mark.parametrize(
    "preset",
    [gradient_inversion.tag, gradient_inversion.april, gradient_inversion.gradinversion, gradient_inversion.gradvit],
)
def test_presets_print_their_settings_and_run_on_a_vit(preset):
    text = repr(preset())
    for word in ("gradients", "lr 0.1 cosine", "steps of adam", "labels by"):
        assert word in text
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = replace(observe(model, torch.rand(2, 3, 32, 32), torch.tensor([3, 5])), labels=None)
    attack = preset(4)
    states = list(attack.search(model, leak))
    distance = [
        s.losses["gradients"] / attack.terms[0].weigh(s.step / 4) for s in states
    ]  # without what the schedule takes off
    assert states[-1].reason == "steps" and distance[-1] < 0.9 * distance[0]


def test_labels_of_one_and_of_many():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    for labels in ([3], [3, 5]):
        leak = observe(model, torch.rand(len(labels), 3, 32, 32), torch.tensor(labels))
        assert sorted(presets.one_or_many(model, leak).tolist()) == labels


def test_lbfgs_takes_the_slope_of_a_batch_on_a_vit():
    """Patches leave slopes in another order of memory, which L-BFGS does not take as they are."""
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = observe(model, torch.rand(2, 3, 32, 32), torch.tensor([3, 5]))
    states = list(replace(gradient_inversion.dlg(2), labels=presets.one_or_many).search(model, leak))
    assert states[-1].evaluations > 3 and states[-1].loss < states[0].loss


# -- layers that PyTorch differentiates wrongly, once alone, or with a graph that is gone -------------------------------------


class Tokens(nn.Module):
    """A map behind a norm, read as tokens; a gate that PyTorch differentiates once; a head that is left alone."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.patches, self.norm, self.aside = nn.Conv2d(3, 8, 2, stride=2), nn.BatchNorm2d(8), nn.Linear(8, 5)
            self.head = nn.Sequential(nn.LayerNorm(8), nn.Hardsigmoid(), nn.Linear(8, 5))
            self.bias, self.cache = nn.Parameter(torch.rand(5)), {}

    def forward(self, x):
        if "bias" not in self.cache:
            self.cache["bias"] = self.bias.square()
        x = self.norm(self.patches(x)).flatten(2).transpose(1, 2)  # (batch, tokens, width)
        return self.head(x).tanh().mean(1) + self.cache["bias"]


@pytest.mark.parametrize("objective", [cosine_distance, squared_distance])
def test_the_slope_of_a_search_is_that_of_its_loss(objective):
    model = Tokens().double().eval()
    images, leak = sent(model, batch=1)
    attack = GradientMatching((Term("gradients", 1.0, objective),), 1, signed=False)

    def at(x):
        return next(attack.search(model, leak, start=x))

    slope = at(images.flip(3)).checkpoint.__self__.latent.grad
    for place in ((0, 0, 1, 1), (0, 1, 2, 3), (0, 2, 5, 0)):
        step = torch.zeros_like(images)
        step[place] = 1e-6
        by_hand = (at(images.flip(3) + step).loss - at(images.flip(3) - step).loss) / 2e-6
        assert slope[place].item() == pytest.approx(by_hand, rel=1e-5)


# -- what a search refuses -------------------------------------------------------------------------------------------------------


def test_a_search_refuses_a_victim_of_short_floats_and_one_that_is_frozen():
    model = network().float()
    _, leak = sent(model.double())
    model.bfloat16()
    with pytest.raises(ValueError, match=r"model: '0.weight' is torch.bfloat16.*model.float\(\)"):
        next(GradientMatching((COSINE,), 2).search(model, leak))
    model.float().requires_grad_(False)
    with pytest.raises(ValueError, match=r"model: '0.weight' is frozen.*requires_grad_\(True\)"):
        next(GradientMatching((COSINE,), 2).search(model, leak))


def test_a_term_without_schedule_keeps_its_weight_to_the_end():
    falling = GradientMatching((COSINE, replace(SMOOTH, end=1e-5)), 4)
    assert falling.unscheduled().terms[1] == SMOOTH
