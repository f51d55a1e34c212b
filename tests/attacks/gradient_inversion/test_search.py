"""The search: its loop against one written by hand, chunks, groups and spaces, where it stops, that it goes on where it was left."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Tokens
from small_network import network, sent
from torch import nn

from privlab import models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, Term, label_recovery, results, schedules
from privlab.attacks.gradient_inversion.objectives import cosine_distance, squared_distance
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.compute import Run
from privlab.leak import observe

COSINE = Term("gradients", 1.0, cosine_distance)
SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")


@pytest.fixture(scope="module")
def model():
    return network()


@pytest.fixture(scope="module")
def leak():
    return sent(network())[1]


@pytest.fixture(scope="module")
def three():
    """What a client sends of three images."""
    return sent(network(), batch=3)[1]


def members(state):
    """The images of all seeds, (group, batch, channels, height, width), of the state that a search of a `network` has just yielded."""
    pixels = network().normalise.inverse(state.checkpoint["variables"][0].detach()).clamp(0, 1)
    return pixels.unflatten(0, (-1, len(state.images)))


def test_schedules_and_weights_by_hand():
    places = (0, 0.374, 0.375, 0.625, 0.875, 1)
    assert [*map(schedules.staircase, places)] == pytest.approx([1, 1, 0.1, 0.01, 1e-3, 1e-3])
    assert [*map(schedules.cosine, (0, 0.5, 1))] == pytest.approx([1, 0.5, 0]) and schedules.constant(0.3) == 1
    falling = Term("smoothness", 4.0, total_variation, ((0, 1), (0.5, 3)), end=1.0)
    assert [*map(falling.weigh, (0, 0.49, 0.5, 1))] == pytest.approx([4, 4**0.51, 6, 3])


def by_hand(model, leak, steps, lr, signed, tv, seed):
    """Inverting Gradients written out: no terms, no spans, no states."""
    low, high = (leak.normalise(torch.full((1, 3, 6, 6), v, dtype=torch.float64)) for v in (0.0, 1.0))
    noise = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed)).double()
    x = noise.clamp(low, high).requires_grad_()
    optimiser = torch.optim.Adam([x], lr=lr)
    for step in range(steps + 1):
        yield leak.normalise.inverse(x.detach()).clone()
        loss = F.cross_entropy(model(x), leak.labels)
        mine = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), create_graph=True)])
        theirs = torch.cat([g.flatten() for g in leak.grads.values()])
        total = 1 - F.cosine_similarity(mine, theirs, dim=0) + tv * total_variation(x)
        (slope,) = torch.autograd.grad(total, x)
        x.grad = slope.sign() if signed else slope
        optimiser.param_groups[0]["lr"] = lr * schedules.staircase(step / steps)
        optimiser.step()
        with torch.no_grad():
            x.clamp_(low, high)


@pytest.mark.parametrize("signed", [True, False])
def test_the_loop_is_the_one_written_by_hand(model, leak, signed):
    expected = by_hand(model, leak, 8, 0.1, signed, 1e-2, seed=3)
    states = list(GradientMatching((COSINE, SMOOTH), 8, signed=signed).search(model, leak, seed=3))
    assert [s.step for s in states] == list(range(9))
    for state, images in zip(states, expected, strict=True):
        torch.testing.assert_close(state.images, images, rtol=1e-9, atol=1e-9)


def test_restarts_begin_elsewhere_and_the_best_by_loss_is_kept(model, leak):
    attack = GradientMatching((COSINE,), 12)
    states = list(attack.search(model, leak, seed=5, restarts=3))
    starts = [s.images for s in states if s.step == 0]
    assert len(starts) == 3 and not torch.equal(starts[0], starts[1]) and not torch.equal(starts[1], starts[2])
    *_, alone = attack.search(model, leak, seed=5)
    assert torch.equal(alone.images, states[12].images), "the first restart is the search without restarts"
    result = attack.run(model, leak, seed=5, restarts=3, snapshots=3, progress=False)
    best = min(states, key=lambda s: s.score)
    assert torch.equal(result.images, best.images) and (result.score, result.step) == (best.score, best.step)
    assert result.evaluations == 39 and result.reasons == ["steps"] * 3
    assert result.trace == [s.losses for s in states if s.restart == best.restart]
    assert [(s.restart, s.step) for s in result.snapshots] == [(best.restart, step) for step in (0, 4, 8, 12)]


@pytest.mark.parametrize("attack", [gradient_inversion.dlg(2), gradient_inversion.gradinversion(6, group=2)])
def test_a_batch_in_chunks_gives_the_same_images(model, three, attack):
    three = replace(three, labels=None) if attack.labels == "search" else three
    whole = list(attack.search(model, three))
    parts = list(attack.search(model, three, chunk=2))
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a.images, b.images, atol=1e-8)
        assert a.losses == pytest.approx(b.losses, rel=1e-5)  # L-BFGS divides by small differences
    assert whole[-1].evaluations == parts[-1].evaluations


def test_a_late_term_is_lost_neither_in_the_loss_nor_in_the_score(model, leak):
    """From half of the run on, at a weight that falls from .1 to .01: the loss has the weight of the moment, the score that of the end."""
    late = Term("smoothness", 0.1, total_variation, ((0, 0), (0.5, 1)), end=0.01, of="images")
    alone, both = (list(GradientMatching(terms, 8).search(model, leak)) for terms in ((COSINE,), (COSINE, late)))
    assert [torch.equal(a.images, b.images) for a, b in zip(alone, both, strict=True)] == [True] * 5 + [False] * 4
    for state in both[:4]:
        assert math.isnan(state.score) and state.loss == state.losses["gradients"]
    for state in both[4:]:
        distance, rough = state.losses["gradients"], total_variation(leak.normalise(state.images)).item()
        assert state.loss == pytest.approx(distance + 0.1 ** (1 + state.step / 8) * rough)
        assert state.score == pytest.approx(distance + 0.01 * rough)


def agree(x, *_):
    """Squared distance of each seed to the mean of all."""
    return (x - x.mean(0)).square().flatten(1).sum(1)


def test_seeds_without_a_common_term_go_their_own_ways(model, three):
    alone = GradientMatching((COSINE, SMOOTH), 5)
    together = replace(alone, group=2).search(model, three, seed=3)
    first = list(alone.search(model, three, seed=3))
    begin = next(together)
    second = list(alone.search(model, three, start=members(begin)[1]))
    for state, a, b in zip(together, first[1:], second[1:], strict=True):
        assert torch.allclose(members(state), torch.stack([a.images, b.images]), atol=1e-9)
        best = a if a.score < b.score else b
        assert torch.allclose(state.images, best.images, atol=1e-9) and state.score == pytest.approx(best.score)
        assert state.losses == pytest.approx(best.losses)
    assert state.evaluations == 2 * first[-1].evaluations


def test_a_term_of_the_group_draws_seeds_together(model, three):
    apart = GradientMatching((COSINE,), 20, group=3)
    held = replace(apart, terms=(COSINE, Term("agreement", 10.0, agree, of="group")))
    spread = [members(list(a.search(model, three))[-1]).std(0).mean() for a in (apart, held)]
    assert spread[1] < spread[0] / 2
    seeds = members(state := next(held.search(model, three)))
    values = 10 * agree(three.normalise(seeds.flatten(0, 1)).unflatten(0, (3, 3)))
    lead = next(i for i in range(3) if torch.equal(seeds[i], state.images))
    assert state.losses["agreement"] == pytest.approx(values[lead].item())


def test_the_slope_in_a_space_is_that_of_the_composition(model, three):
    photographs = 0.3 + 0.4 * torch.rand(9, 3, 6, 6, generator=torch.Generator().manual_seed(5)).double()
    space = gradient_inversion.search_spaces.components(photographs, 3, model.normalise)
    attack = GradientMatching((Term("gradients", 1.0, squared_distance),), 1, 1e-3)
    before, after = list(attack.search(model, three, space=space, start=photographs[:3]))
    z, moved = (space.begin(three.normalise(s.images)) for s in (before, after))
    z.requires_grad_()
    loss = F.cross_entropy(model(space.images(z)), three.labels)
    grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    distance = sum((a - b).square().sum() for a, b in zip(grads, three.grads.values(), strict=True))
    assert before.losses["gradients"] == pytest.approx(distance.item())
    (slope,) = torch.autograd.grad(distance, z)
    assert torch.allclose(moved - z.detach(), -1e-3 * slope.sign(), atol=1e-5)


def test_a_search_that_looks_at_no_gradient_takes_none(model, three):
    """It looks for the labels that a rule reads from the leak first."""
    first, *_, last = gradient_inversion.deep_inversion(60).search(model, replace(three, labels=None))
    assert last.evaluations == 0 and last.losses["class"] < first.losses["class"]
    assert sorted(last.labels.tolist()) == [1, 2, 3]
    assert (model(three.normalise(last.images)).argmax(1) == last.labels).all()


AGREEING = GradientMatching((COSINE, SMOOTH, Term("agreement", 0.1, agree, of="group")), 8, group=2, derivative="auto")


@pytest.mark.parametrize(
    ("attack", "last"),
    [(gradient_inversion.inverting_gradients(20), 34), (gradient_inversion.dlg(5), 9), (AGREEING, 14)],
    ids=["signed", "lbfgs", "group"],
)
def test_a_killed_run_goes_on_bit_for_bit(model, leak, attack, last, tmp_path, monkeypatch, stop_behind_save):
    leak = replace(leak, labels=None) if attack.labels == "search" else leak

    def run(**store):
        return attack.run(model, leak, seed=2, restarts=2, snapshots=[0, 5], progress=False, **store)

    whole, kept = run(), dict(store=Run("inversion", {"a": 1}, tmp_path))
    monkeypatch.setattr(results, "EVERY", 0.0)
    saved = stop_behind_save(last)  # in the second restart
    with pytest.raises(KeyboardInterrupt):
        run(**kept)
    rest = run(**kept)
    count = len(saved)
    assert count <= last + attack.steps, "it began again from the start"
    for found in (rest, run(**kept)):
        for name in ("images", "labels"):
            assert torch.equal(getattr(found, name), getattr(whole, name))
        for name in ("score", "trace", "reasons", "evaluations", "differences"):
            assert getattr(found, name) == getattr(whole, name), name
        for one, other in zip(found.snapshots, whole.snapshots, strict=True):
            assert torch.equal(one.images, other.images) and one.step == other.step
    assert len(saved) == count


def test_the_name_of_a_kept_search_holds_all_that_it_depends_on():
    preset = gradient_inversion.tag(3)

    def path(attack=preset, seed=0, device="cpu", **about):
        return results.kept_run(attack, seed, device, **about).path

    def cosine(progress):  # another function under the name of the preset's
        return 0.5

    attacks = [replace(preset, schedule=cosine), *(gradient_inversion.GaussNewton(passes=n) for n in (240, 90))]
    several = [dict(), dict(seed=1), dict(device="cuda"), dict(image=2), *(dict(attack=each) for each in attacks)]
    assert len({path(**about) for about in several}) == len(several)
    nameless = replace(gradient_inversion.annealed(10), schedule=lambda progress: 1.0)
    with pytest.raises(ValueError, match="attack=.*<lambda>.*write a function with def"):
        path(nameless)


def test_train_mode_leaves_no_trace_in_the_victim():
    model = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = {n: b.clone() for n, b in model.named_buffers()}
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    leak = observe(model, images, torch.tensor([1, 2]))
    start, *_ = gradient_inversion.inverting_gradients(2).search(model, leak, start=images)
    assert start.losses["gradients"] == pytest.approx(0, abs=1e-5), "the search must run in the mode of the client"
    assert model.training and all(torch.equal(b, before[n]) for n, b in model.named_buffers())


class Gated(Tokens):
    """Behind its norm a gate that PyTorch differentiates once; a bias that the first pass keeps; a layer that is left alone."""

    def __init__(self):
        super().__init__(3, 2, nn.BatchNorm2d(8), 5)
        self.head.insert(1, nn.Hardsigmoid())
        self.aside, self.bias, self.cache = nn.Linear(8, 5), nn.Parameter(torch.linspace(0, 1, 5)), {}

    def forward(self, x):
        if "bias" not in self.cache:
            self.cache["bias"] = self.bias.square()
        return super().forward(x) + self.cache["bias"]


def test_the_slope_of_a_search_is_that_of_its_loss():
    model = Gated().double().eval()
    images, leak = sent(model, batch=1)
    attack = GradientMatching((COSINE,), 1)

    def at(x):
        return next(attack.search(model, leak, start=x))

    slope = at(images.flip(3)).checkpoint["variables"][0].grad
    for place in ((0, 0, 1, 1), (0, 1, 2, 3), (0, 2, 5, 0)):
        step = torch.zeros_like(images)
        step[place] = 1e-6
        by_hand = (at(images.flip(3) + step).loss - at(images.flip(3) - step).loss) / 2e-6
        assert slope[place].item() == pytest.approx(by_hand, rel=1e-5)


def test_lbfgs_takes_the_slope_of_a_batch_on_a_vit():
    """Patches leave slopes in another order of memory, which L-BFGS does not take as they are."""
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = observe(model, torch.rand(2, 3, 32, 32), torch.tensor([3, 5]))
    states = list(replace(gradient_inversion.dlg(2), labels=label_recovery.row_minimum).search(model, leak))
    assert states[-1].evaluations > 3 and states[-1].loss < states[0].loss


def test_leaks_that_do_not_fit_are_named(model, leak):
    def fails(message, leak=leak, model=model, **arguments):
        with pytest.raises(ValueError, match=message):
            next(gradient_inversion.inverting_gradients(2).search(model, leak, **arguments))

    fails(r"leak holds no gradients.*withhold fewer names", leak.only([]))
    fails(r"learns no 'a' of shape \(3,\); observe this very model", replace(leak, grads={"a": torch.ones(3)}))
    fails(r"start: pixels go from .*not normalised", start=leak.normalise(torch.rand(1, 3, 6, 6).double()))
    fails(r"learns no '0.weight' .*requires_grad_\(True\)", model=network().requires_grad_(False))
    fails(r"bfloat16 is too coarse to search in; give .*model\.float\(\)", model=network().bfloat16())


@pytest.mark.parametrize("kind", ["exact", "auto"])
def test_a_leak_of_zeros_ends_with_a_reason(model, leak, kind):
    zeros = replace(leak, grads={n: torch.zeros_like(g) for n, g in leak.grads.items()})
    attack = replace(gradient_inversion.inverting_gradients(5), derivative=kind)
    assert [s.reason for s in attack.search(model, zeros, restarts=2)] == ["not finite"] * 2
    with pytest.raises(ValueError, match="no finite loss in any step: look for zeros"):
        attack.run(model, zeros, progress=False)
