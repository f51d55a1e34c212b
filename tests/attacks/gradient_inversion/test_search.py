"""The search: its loop against one written by hand, chunks, groups and spaces, where it stops, that it goes on where it was left."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from small_network import network, sent
from torch import nn

from privlab import models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import (
    GaussNewton,
    GradientMatching,
    Term,
    kept_run,
    label_recovery,
    results,
    schedules,
    search_spaces,
)
from privlab.attacks.gradient_inversion.objectives import cosine_distance, squared_distance
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.compute import Run
from privlab.leak import observe

COSINE = Term("gradients", 1.0, cosine_distance)
SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")
LATE, EARLY = ((0.0, 0.0), (0.5, 1.0)), ((0.0, 1.0), (0.5, 0.0))


def members(state):
    """The images of all seeds, (group, batch, channels, height, width), of the state that a search of a `network` has just yielded."""
    pixels = network().normalise.inverse(state.checkpoint["variables"][0].detach()).clamp(0, 1)
    return pixels.unflatten(0, (-1, len(state.images)))


def test_schedules_by_hand():
    assert [schedules.staircase(p) for p in (0, 0.374, 0.375, 0.625, 0.875, 1)] == pytest.approx(
        [1, 1, 0.1, 0.01, 1e-3, 1e-3]
    )
    assert [schedules.cosine(p) for p in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0])
    assert schedules.constant(0.3) == 1


def test_a_term_counts_in_its_stages():
    late = Term("late", 1.0, total_variation, LATE)
    early = Term("early", 1.0, total_variation, EARLY)
    assert [late.factor(p) for p in (0, 0.49, 0.5, 1.0)] == [0, 0, 1, 1]
    assert [early.factor(p) for p in (0, 0.49, 0.5, 1.0)] == [1, 1, 0, 0]
    model = network()
    _, leak = sent(model)
    states = list(GradientMatching((COSINE, late, early), steps=4).search(model, leak))
    assert [set(s.losses) for s in states] == [{"gradients", "early"}] * 2 + [{"gradients", "late"}] * 3
    assert [math.isnan(s.score) for s in states] == [True, True, False, False, False]
    assert all(s.score == s.loss for s in states[2:])


def test_a_weight_that_falls():
    falling = Term("smoothness", 1.0, total_variation, end=0.01)
    assert [falling.weigh(p) for p in (0, 0.25, 0.5, 1)] == pytest.approx([1, 10**-0.5, 0.1, 0.01])
    both = Term("smoothness", 4.0, total_variation, ((0, 1), (0.5, 3)), end=1.0)
    assert [both.weigh(p) for p in (0, 0.5, 1)] == pytest.approx([4, 6, 3])


def by_hand(model, leak, steps, lr, signed, tv, seed):
    """Inverting Gradients written out: no terms, no spans, no states."""
    low, high = (leak.normalise(torch.full((1, 3, 6, 6), v, dtype=torch.float64)) for v in (0.0, 1.0))
    x = (
        torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
        .double()
        .clamp(low, high)
        .requires_grad_()
    )
    optimiser, found = torch.optim.Adam([x], lr=lr), []
    for step in range(steps + 1):
        found.append(leak.normalise.inverse(x.detach()).clone())
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
    return found


@pytest.mark.parametrize("signed", [True, False])
def test_the_loop_is_the_one_written_by_hand(signed):
    model = network()
    _, leak = sent(model)
    expected = by_hand(model, leak, 8, 0.1, signed, 1e-2, seed=3)
    states = list(GradientMatching((COSINE, SMOOTH), 8, signed=signed).search(model, leak, seed=3))
    assert [s.step for s in states] == list(range(9))
    for state, images in zip(states, expected, strict=True):
        torch.testing.assert_close(state.images, images, rtol=1e-9, atol=1e-9)


def test_lbfgs_spends_its_evaluations_inside_a_step():
    model = network()
    _, leak = sent(model)
    counts = [s.evaluations for s in gradient_inversion.idlg(3).search(model, leak)]
    assert counts[0] == 1 and all(b - a > 1 for a, b in itertools.pairwise(counts))
    adam = [s.evaluations for s in gradient_inversion.inverting_gradients(3).search(model, leak)]
    assert adam == [1, 2, 3, 4]


def test_restarts_begin_elsewhere_and_the_best_by_loss_is_kept():
    model = network()
    _, leak = sent(model)
    attack = GradientMatching((COSINE,), 12)
    states = list(attack.search(model, leak, seed=5, restarts=3))
    starts = [s.images for s in states if s.step == 0]
    assert len(starts) == 3 and not torch.equal(starts[0], starts[1]) and not torch.equal(starts[1], starts[2])
    alone = list(attack.search(model, leak, seed=5))
    assert torch.equal(alone[-1].images, states[12].images), "the first restart is the search without restarts"

    result = attack.run(model, leak, seed=5, restarts=3, snapshots=3, progress=False)
    best = min(states, key=lambda s: s.score)
    assert torch.equal(result.images, best.images) and result.score == best.score
    assert result.step == best.step and result.evaluations == 39 and result.reasons == ["steps"] * 3
    assert result.trace == [s.losses for s in states if s.restart == best.restart]
    assert [s.step for s in result.snapshots] == [0, 4, 8, 12]
    assert {s.restart for s in result.snapshots} == {best.restart}


def test_only_what_counts_at_the_end_competes():
    """A term that joins late raises the loss: what came before it must not win for that."""
    model = network()
    _, leak = sent(model)
    late = Term("late", 100.0, total_variation, LATE)
    result = GradientMatching((COSINE, late), 10).run(model, leak, progress=False)
    assert result.step >= 5


@pytest.mark.parametrize(
    "attack",
    [gradient_inversion.dlg(3), gradient_inversion.gradinversion(6, group=2)],
)
def test_a_batch_in_chunks_gives_the_same_images(attack):
    model = network()
    _, leak = sent(model, batch=3)
    leak = replace(leak, labels=None) if attack.labels == "search" else leak
    whole = list(attack.search(model, leak))
    parts = list(attack.search(model, leak, chunk=2))
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a.images, b.images, atol=1e-8)
        assert a.losses == pytest.approx(b.losses, rel=1e-5)  # L-BFGS divides by small differences
    assert whole[-1].evaluations == parts[-1].evaluations


def agree(x, *_):
    """Squared distance of each seed to the mean of all."""
    return (x - x.mean(0)).square().flatten(1).sum(1)


def test_seeds_without_a_common_term_go_their_own_ways():
    model = network()
    _, leak = sent(model, batch=3)
    alone = GradientMatching((COSINE, SMOOTH), 5)
    together = replace(alone, group=2).search(model, leak, seed=3)
    first = list(alone.search(model, leak, seed=3))
    begin = next(together)
    second = list(alone.search(model, leak, start=members(begin)[1]))
    for state, a, b in zip(together, first[1:], second[1:], strict=True):
        assert torch.allclose(members(state), torch.stack([a.images, b.images]), atol=1e-9)
        best = a if a.score < b.score else b
        assert torch.allclose(state.images, best.images, atol=1e-9) and state.score == pytest.approx(best.score)
        assert state.losses == pytest.approx(best.losses)
    assert state.evaluations == 2 * first[-1].evaluations


def test_a_term_of_the_group_draws_seeds_together():
    model = network()
    _, leak = sent(model, batch=3)
    apart = GradientMatching((COSINE,), 20, group=3)
    held = replace(apart, terms=(COSINE, Term("agreement", 10.0, agree, of="group")))
    spread = [members(list(a.search(model, leak))[-1]).std(0).mean() for a in (apart, held)]
    assert spread[1] < spread[0] / 2
    seeds = members(state := next(held.search(model, leak)))
    values = 10 * agree(leak.normalise(seeds.flatten(0, 1)).unflatten(0, (3, 3)))
    lead = next(i for i in range(3) if torch.equal(seeds[i], state.images))
    assert state.losses["agreement"] == pytest.approx(values[lead].item())


def test_the_slope_in_a_space_is_that_of_the_composition():
    model = network()
    _, leak = sent(model, batch=2)
    photographs = torch.rand(9, 3, 6, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    space = search_spaces.components(photographs, 3, model.normalise)
    attack = GradientMatching((Term("gradients", 1.0, squared_distance),), 1, 1e-3)
    before, after = list(attack.search(model, leak, space=space, start=photographs[:2]))
    z, moved = (space.begin(leak.normalise(s.images)) for s in (before, after))
    z.requires_grad_()
    loss = F.cross_entropy(model(space.images(z)), leak.labels)
    grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    distance = sum((a - b).square().sum() for a, b in zip(grads, leak.grads.values(), strict=True))
    assert before.losses["gradients"] == pytest.approx(distance.item())
    (slope,) = torch.autograd.grad(distance, z)
    assert torch.allclose(moved - z.detach(), -1e-3 * slope.sign(), atol=1e-5)


class Prepared:
    """Notes what it was shown; gives the value to use."""

    def __init__(self, give):
        self.give, self.seen = give, []

    def prepare(self, model, leak):
        self.seen.append((model, leak))
        return self.give


def test_terms_are_made_ready_once_with_the_labels_that_were_read():
    model = network()
    _, leak = sent(model, batch=3)
    value, gone = Prepared(total_variation), Term("gone", 1.0, Prepared(None))
    attack = GradientMatching((COSINE, Term("prepared", 1.0, value, of="images"), gone), 3)
    states = list(attack.search(model, replace(leak, labels=None)))
    assert len(value.seen) == 1 and sorted(value.seen[0][1].labels.tolist()) == [1, 2, 3]
    assert set(states[-1].losses) == {"gradients", "prepared"}


def test_a_search_that_looks_at_no_gradient_takes_none():
    model = network()
    _, leak = sent(model, batch=3)
    first, *_, last = gradient_inversion.deep_inversion(60).search(model, leak)
    assert last.evaluations == 0 and last.losses["class"] < first.losses["class"]
    assert (model(leak.normalise(last.images)).argmax(1) == leak.labels).all()


@pytest.mark.parametrize(
    "attack",
    [
        gradient_inversion.dlg(5),
        GradientMatching((COSINE, SMOOTH, Term("agreement", 0.1, agree, of="group")), 8, group=2),
    ],
    ids=["lbfgs", "group"],
)
def test_a_search_goes_on_bit_for_bit(attack):
    model = network()
    _, leak = sent(model)
    leak = replace(leak, labels=None)
    whole = list(attack.search(model, leak, seed=2, restarts=2))
    stopped = next(s for s in attack.search(model, leak, seed=2, restarts=2) if (s.restart, s.step) == (1, 3))
    rest = list(attack.search(model, leak, seed=2, restarts=2, resume=stopped.checkpoint))
    expected = [s for s in whole if s.restart == 1 and s.step >= 3]
    assert [s.step for s in rest] == [s.step for s in expected]
    for one, other in zip(rest, expected, strict=True):
        assert torch.equal(one.images, other.images) and one.losses == other.losses
        assert one.evaluations == other.evaluations and torch.equal(one.labels, other.labels)


def test_a_killed_run_goes_on_from_the_store(tmp_path, monkeypatch, stop_behind_save):
    model = network()
    _, leak = sent(model)
    attack = gradient_inversion.inverting_gradients(20)
    how = dict(restarts=2, snapshots=[0, 5, 20], progress=False)
    whole = attack.run(model, leak, **how)
    monkeypatch.setattr(results, "EVERY", 0.0)
    saved = stop_behind_save(34)  # in the second restart
    with pytest.raises(KeyboardInterrupt):
        attack.run(model, leak, store=Run("inversion", {"a": 1}, tmp_path), **how)
    rest = attack.run(model, leak, store=Run("inversion", {"a": 1}, tmp_path), **how)
    assert len(saved) < 34 + 15, "it began again from the start"
    assert torch.equal(rest.images, whole.images) and rest.score == whole.score and rest.trace == whole.trace
    assert rest.reasons == whole.reasons and rest.evaluations == whole.evaluations
    assert [s.step for s in rest.snapshots] == [s.step for s in whole.snapshots] == [0, 5, 20]
    assert all(torch.equal(a.images, b.images) for a, b in zip(rest.snapshots, whole.snapshots, strict=True))
    count = len(saved)
    again = attack.run(model, leak, store=Run("inversion", {"a": 1}, tmp_path), **how)
    assert len(saved) == count and torch.equal(again.images, whole.images) and again.trace == whole.trace


def test_the_name_of_a_kept_search_holds_all_that_it_depends_on():
    preset = gradient_inversion.tag(3)

    def path(attack=preset, seed=0, device="cpu", **about):
        return kept_run(attack, seed, device, **about).path

    newton = [GaussNewton(), GaussNewton(passes=90)]
    several = [dict(), dict(seed=1), dict(device="cuda"), dict(image=2), *(dict(attack=one) for one in newton)]
    paths = {path(**about) for about in several}
    assert len(paths) == len(several) and path(image=2) in paths
    nameless = replace(gradient_inversion.annealed(10), schedule=lambda progress: 1.0)
    with pytest.raises(ValueError, match="attack=.*<lambda>.*write a function with def"):
        path(nameless)


def test_train_mode_leaves_no_trace_in_the_victim():
    model = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = {n: b.clone() for n, b in model.named_buffers()}
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    leak = observe(model, images, torch.tensor([1, 2]))
    evaluated = observe(model.eval(), images, torch.tensor([1, 2]))
    assert not torch.allclose(leak["fc.weight"], evaluated["fc.weight"]), "train mode normalises by the batch"
    assert len(list(gradient_inversion.inverting_gradients(2).search(model.train(), leak))) == 3
    assert model.training and all(torch.equal(b, before[n]) for n, b in model.named_buffers())
    start = next(gradient_inversion.inverting_gradients(2).search(model, leak, start=images))
    assert start.losses["gradients"] == pytest.approx(0, abs=1e-5), "the search must run in the mode of the client"


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


def test_the_slope_of_a_search_is_that_of_its_loss():
    model = Tokens().double().eval()
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


def test_settings_that_cannot_work_are_named():
    def fails(message, **settings):
        with pytest.raises(ValueError, match=message):
            GradientMatching(**dict(terms=(COSINE,), steps=5) | settings)

    fails(r"steps=0, .*1 or more steps", steps=0)
    fails(r"the names .* repeat", terms=(COSINE, COSINE))
    fails(r"optimiser='sgd' is not known here; try 'adam' or 'lbfgs'", optimiser="sgd")
    fails(r"derivative='central' is not known here; try 'exact' or 'auto'", derivative="central")
    with pytest.raises(ValueError, match=r"stages=\(\(0.5, 1.0\),\) of term 'late' do not divide a run"):
        Term("late", 1.0, cosine_distance, ((0.5, 1.0),))


def test_leaks_that_do_not_fit_are_named():
    model = network()
    images, leak = sent(model)

    def fails(leak, message, **arguments):
        with pytest.raises(ValueError, match=message):
            next(gradient_inversion.inverting_gradients(2).search(model, leak, **arguments))

    fails(leak.only([]), r"leak holds no gradients.*withhold fewer names")
    fails(
        replace(leak, grads={"nowhere": torch.ones(3)}), r"learns no 'nowhere' of shape \(3,\); observe this very model"
    )
    fails(leak, r"restarts=0", restarts=0)
    fails(leak, r"start: shape \(1, 3, 5, 5\)", start=torch.rand(1, 3, 5, 5))
    fails(leak, r"start: pixels go from .*not normalised", start=leak.normalise(images))
    model.requires_grad_(False)
    fails(leak, r"learns no '0.weight' .*requires_grad_\(True\)")
    model.bfloat16().requires_grad_(True)
    fails(leak, r"bfloat16 is too coarse to search in; give .*model\.float\(\)")


def test_a_leak_of_zeros_ends_with_a_reason():
    model = network()
    _, leak = sent(model)
    zeros = replace(leak, grads={n: torch.zeros_like(g) for n, g in leak.grads.items()})
    for kind in ("exact", "auto"):
        attack = replace(gradient_inversion.inverting_gradients(5), derivative=kind)
        assert [s.reason for s in attack.search(model, zeros, restarts=2)] == ["not finite"] * 2
    with pytest.raises(ValueError, match=r"never had a finite loss \(ended by not finite\).*zeros"):
        attack.run(model, zeros, progress=False)
