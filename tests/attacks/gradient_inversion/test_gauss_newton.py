"""Gauss-Newton against explicit Jacobians, its box, its bookkeeping, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torchvision
from awkward_networks import Sine
from torch import nn

from privlab import compute, metrics
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import (
    GaussNewton,
    Term,
    curvature,
    curvature_by_differences,
    gauss_newton,
    objectives,
    priors,
    search_spaces,
)
from privlab.data import Normalise
from privlab.leak import Leak, observe
from privlab.models import april, morph
from privlab.models.forward import functional

LABEL = torch.tensor([1])


def smooth(seed: int = 0) -> nn.Module:
    """A small network without kinks, in double precision."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    model.normalise = Normalise((0.5, 0.4, 0.6), (0.2, 0.3, 0.25))
    return model


def photo(seed: int = 1, batch: int = 1, side: int = 2) -> torch.Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(seed)).double()


PLAIN = (Term("gradients", 1.0, objectives.relative_distance),)


def walk(attack: GaussNewton, model: nn.Module, leak: Leak, start: torch.Tensor, kind="exact") -> gauss_newton._Walk:
    parameters, space = dict(model.named_parameters()), search_spaces.Pixels()
    values = [gauss_newton.SQUARES[t.value] for t in attack.terms]

    def problem(x):
        return curvature.residuals(model, parameters, leak, leak.labels, space, values, x)

    bend = curvature.Curvature(problem, attack.recycle, curvature.metric(attack.precondition, model, space))
    if kind != "exact":
        args = (problem, attack.recycle, bend.metric, kind, model, parameters, leak, leak.labels, space, values)
        bend = curvature_by_differences.CurvatureByDifferences(*args)
    made = gauss_newton._Walk(attack, bend, leak, leak.labels, space, 0, leak.normalise(start), 0)
    made.bend.look(made.latent)
    return made


def jacobian(made: gauss_newton._Walk) -> torch.Tensor:
    """dr / d(images), (residuals, numbers), row by row."""
    x = made.latent.clone().requires_grad_()
    flat = torch.cat([r.flatten() for part in made.bend.problem(x) for r in part])
    return torch.stack([torch.autograd.grad(r, x, retain_graph=True)[0].flatten() for r in flat])


def differences(made: gauss_newton._Walk, v: torch.Tensor, h: float = 1e-6) -> torch.Tensor:
    """J v by central differences."""
    ends = [
        torch.cat([r.flatten() for part in made.bend.problem(made.latent + s * h * v) for r in part]) for s in (1, -1)
    ]
    return ((ends[0] - ends[1]) / (2 * h)).detach()


NETWORKS = {
    "smooth": smooth,
    "vit": lambda: april.build("b", width=24, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0).double(),
    "morph": lambda: morph.build(10, width=0.03, depths=(1, 1, 1, 1)).double(),
    "relu": lambda: morph.build(8, width=0.03, depths=(1, 1, 1, 1)).double(),
    "train": lambda: morph.build(8, width=0.03, depths=(1, 1, 1, 1)).double().train(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_push_and_pull_are_the_jacobian_and_its_transpose(name):
    """Against finite differences, against each other (u^T J v), and on the small ones against J itself."""
    model, side, batch = NETWORKS[name](), 2 if name == "smooth" else 8, 2 if name == "train" else 1
    leak = observe(model, photo(1, batch, side), torch.arange(batch))
    made = walk(GaussNewton(), model, leak, photo(2, batch, side))
    v, u = torch.randn_like(made.latent), [torch.randn_like(r) for r in made.bend.residual]
    pushed, pulled = torch.cat([p.flatten() for p in made.bend.push(v)]), made.bend.pull(u)
    along = differences(made, v)
    torch.testing.assert_close(pushed, along, rtol=1e-5, atol=1e-6 * along.abs().max().item())
    flat = torch.cat([p.flatten() for p in u])
    torch.testing.assert_close(flat @ pushed, (pulled * v).sum())
    if name == "smooth":
        whole = jacobian(made)
        torch.testing.assert_close(pushed, whole @ v.flatten())
        torch.testing.assert_close(pulled.flatten(), flat @ whole)


@pytest.mark.parametrize("name", ["smooth", "vit", "morph", "relu"])
def test_push_and_pull_by_differences(name):
    """Against the exact ones, at two points, and back at the first."""
    model, side = NETWORKS[name](), 2 if name == "smooth" else 8
    leak = observe(model, photo(1, 1, side), LABEL)
    exact, other = (walk(GaussNewton(), model, leak, photo(2, 1, side), kind) for kind in ("exact", "difference"))
    here = exact.bend.here(), other.bend.here()
    for point in (None, exact.latent + 0.3, "back"):
        for made, first in zip((exact, other), here, strict=True):
            made.bend.back(first) if point == "back" else point is None or made.bend.look(point)
        assert other.bend.values == pytest.approx(exact.bend.values, rel=1e-9)
        v, u = torch.randn_like(exact.latent), [torch.randn_like(r) for r in exact.bend.residual]
        for one, true in (
            (other.bend.pull(u), exact.bend.pull(u)),
            *zip(other.bend.push(v), exact.bend.push(v), strict=True),
        ):
            assert (one - true).norm() <= 1e-3 * true.norm() + 1e-7 * sum(r.norm() for r in exact.bend.residual)
    assert other.bend.points == {"exact": 0, "difference": 2} and exact.bend.points == {"exact": 2, "difference": 0}


@pytest.mark.parametrize("kind", ["difference", "auto"])
def test_a_search_by_differences_finds_the_same(kind, tmp_path):
    model = NETWORKS["morph"]()
    truth = photo(1, side=8)
    leak = observe(model, truth, LABEL)
    attack = GaussNewton(steps=6, inner=15, derivative=kind)
    exact, other = (list(a.search(model, leak)) for a in (replace(attack, derivative="exact"), attack))
    assert exact[-1].score < exact[0].score / 10
    for a, b in zip(exact[:3], other[:3], strict=True):
        torch.testing.assert_close(a.images, b.images, rtol=0, atol=5e-3)
    assert other[-1].score < other[0].score / 10
    assert other[-1].derivatives == {"exact": 0, "difference": 7}
    again = list(attack.search(model, leak, resume=other[3].checkpoint()))  # made late, of the last state
    assert torch.equal(again[-1].images, other[-1].images) and again[-1].derivatives == other[-1].derivatives
    assert "derivative" not in repr(replace(attack, derivative="exact")) and repr(attack).endswith(f"derivative {kind}")
    with pytest.raises(ValueError, match="derivative='both' is not known here"):
        replace(attack, derivative="both")


def test_auto_turns_differences_down_that_miss_a_pattern(monkeypatch):
    model = NETWORKS["relu"]().float()
    leak = observe(model, photo(1, side=8).float(), LABEL)
    attack = GaussNewton(steps=3, inner=5)
    monkeypatch.setattr(curvature_by_differences, "_near", lambda *_: False)
    exact, auto = (list(replace(attack, derivative=kind).search(model, leak)) for kind in ("exact", "auto"))
    assert auto[-1].derivatives == {"exact": 4, "difference": 0}
    assert all(
        torch.equal(a.images, b.images) and a.evaluations == b.evaluations for a, b in zip(exact, auto, strict=True)
    )


def test_by_differences_what_cannot_be_differentiated_twice():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), Sine(), nn.Linear(16, 3)).double()
    leak = observe(model, photo(1), LABEL)
    with pytest.raises(
        ValueError, match="cannot be differentiated as often as Gauss-Newton needs .*give derivative='auto'"
    ):
        list(GaussNewton(steps=3).search(model, leak))
    *_, last = GaussNewton(steps=8, derivative="auto").search(model, leak)
    assert last.derivatives == {"exact": 0, "difference": 9}


def test_push_is_forward_mode():
    model = NETWORKS["morph"]()
    leak = observe(model, photo(1, side=8), LABEL)
    made = walk(GaussNewton(PLAIN), model, leak, photo(2, side=8))
    v = torch.randn_like(made.latent)

    def residuals(x):
        task = torch.func.grad(lambda p: nn.functional.cross_entropy(functional(model)(p, x), LABEL))
        return tuple(objectives.relative_differences(task({n: p.detach() for n, p in model.named_parameters()}), leak))

    theirs = torch.func.jvp(residuals, (made.latent,), (v,))[1]
    torch.testing.assert_close(made.bend.push(v), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("recycle", [0, 20])
@pytest.mark.parametrize("precondition", ["none", "diagonal"])
def test_a_step_solves_the_damped_normal_equations(precondition, recycle):
    """With two terms of unlike weight; a second time too, helped by what the first has seen."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    attack = GaussNewton(boxed=False, precondition=precondition, recycle=recycle)
    made, weights = walk(attack, model, leak, photo(2)), [2.0, 0.3]
    whole = jacobian(made)
    each = torch.cat(
        [
            torch.full((r.numel(),), w)
            for w, n in zip(weights, made.bend.counts, strict=True)
            for r in made.bend.residual[:n]
        ]
    )
    each = each[: len(whole)].double()
    gradients = sum(r.numel() for r in made.bend.residual[: made.bend.counts[0]])
    each[gradients:] = weights[1]
    made.bend.scale, made.bend.units = (
        0.7,
        torch.rand_like(made.latent) + 0.5 if precondition == "diagonal" else torch.ones(()),
    )
    residual = torch.cat([r.detach().flatten() for r in made.bend.residual])
    downhill = made.bend.downhill(weights)
    torch.testing.assert_close(downhill.flatten(), -(whole.T @ (each * residual)))
    free = torch.ones_like(downhill)
    damped = 0.1 * 0.7 * torch.diag((made.bend.units * free).flatten())
    exact = torch.linalg.solve(whole.T @ (each[:, None] * whole) + damped, downhill.flatten())
    for _ in range(2):
        step = made.bend.solve(downhill, free, weights, 0.1, 200, 1e-12, None)
        torch.testing.assert_close(step.flatten(), exact)


def test_recycled_pairs_spare_iterations():
    """The same system again: what the pairs span is solved at once. Without them it takes as long as before."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    spent = {}
    for recycle in (0, 20):
        made = walk(GaussNewton(recycle=recycle), model, leak, photo(2))
        made.bend.scale, downhill = 1.0, made.bend.downhill([1.0, 1.0])
        counts = []
        for _ in range(2):
            before = made.bend.passes
            made.bend.solve(downhill, torch.ones_like(downhill), [1.0, 1.0], 1e-3, 50, 1e-8, None)
            counts.append(made.bend.passes - before)
        spent[recycle] = counts
    assert abs(spent[0][1] - spent[0][0]) <= 1 and spent[20][1] < spent[20][0] / 3


def test_the_metric_of_patches_by_hand():
    """Each patch is multiplied by the Gram matrix of the embedding, drawn a hundredth towards the identity, of mean diagonal 1."""
    model = april.build("b", width=24, depth=1, heads=2, image_size=8, patch_size=4).double()
    found = curvature.metric("patches", model, search_spaces.Pixels())
    rows = model.patch_embed.proj.weight.flatten(1)
    gram = rows.T @ rows / (rows.square().sum() / 48)
    v = photo(3, side=8)
    patch = v[0, :, 4:, :4].flatten()
    torch.testing.assert_close(found(v)[0, :, 4:, :4].flatten(), 0.99 * gram @ patch + 0.01 * patch)
    torch.testing.assert_close(found.inverse(found(v)), v)
    torch.testing.assert_close(found.matrix.diagonal().mean().item(), 1.0)


def test_held_numbers_do_not_move_and_the_rest_is_solved_for():
    model = smooth()
    made = walk(GaussNewton(PLAIN, boxed=False), model, observe(model, photo(1), LABEL), photo(2))
    whole, free = jacobian(made), torch.tensor([1.0, 0, 1] * 4).double().view_as(made.latent)
    downhill, made.bend.scale = torch.randn_like(made.latent) * free, 1.0
    step = made.bend.solve(downhill, free, [1.0], 0.01, 200, 1e-12, None)
    kept = free.flatten().bool()
    exact = torch.linalg.solve(
        (whole.T @ whole)[kept][:, kept] + 0.01 * torch.eye(8).double(), downhill.flatten()[kept]
    )
    assert not step.flatten()[~kept].any()
    torch.testing.assert_close(step.flatten()[kept], exact)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("boxed", [True, False])
def test_it_finds_the_image_to_rounding_and_never_goes_up(seed, boxed):
    model, truth = smooth(seed), photo(seed + 10)
    leak = observe(model, truth, LABEL)
    states = list(GaussNewton(PLAIN, steps=40, inner=30, boxed=boxed).search(model, leak, seed=seed))
    scores = [state.score for state in states]
    assert scores == sorted(scores, reverse=True) and scores[-1] < 1e-12
    assert metrics.psnr(states[-1].images, truth).item() > 80


def test_the_box_is_kept_and_a_truth_at_its_edge_is_found():
    model, truth = smooth(), (photo(5) > 0.5).double()
    leak = observe(model, truth, LABEL)
    made = walk(GaussNewton(PLAIN, steps=40), model, leak, photo(6))
    images = truth
    for state in made.states():
        inside, images = leak.normalise.inverse(made.latent), state.images
        assert inside.min() > -1e-9 and inside.max() < 1 + 1e-9
    torch.testing.assert_close(images, truth, atol=1e-5, rtol=0)


def test_it_gets_further_than_adam_on_a_vit_for_as_many_passes():
    model = april.build("b", width=64, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0).double()
    truth = photo(3, side=8)
    leak = observe(model, truth, LABEL)
    found = GaussNewton(PLAIN, steps=15).run(model, leak, progress=False)
    first = gradient_inversion.annealed(found.evaluations // 2).run(model, leak, progress=False)
    one, other = (metrics.psnr(r.images, truth).item() for r in (found, first))
    assert one > other + 5


def test_a_batch_restarts_and_labels_by_rule():
    model = smooth()
    leak = replace(observe(model, photo(1), LABEL), labels=None)
    states = list(GaussNewton(steps=3).search(model, leak, restarts=2))
    assert [s.restart for s in states] == [0] * 4 + [1] * 4 and all(s.labels.tolist() == [1] for s in states)
    assert not torch.equal(states[0].images, states[4].images)
    batch = observe(model, photo(4, batch=2), torch.tensor([0, 2]))
    result = GaussNewton(PLAIN, steps=60, inner=60).run(model, batch, progress=False)
    assert result.images.shape == (2, 3, 2, 2) and result.score < 1e-4


def test_passes_are_counted_one_by_one():
    """The first step: 1 look; 1 downhill, 1 for J v's graph, 1 for the damping's unit, 2 an iteration, 1 for what is promised, 1 look."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    first, second, *_ = GaussNewton(steps=2, inner=5, tolerance=0, damping=1e-6).search(model, leak)
    assert (first.evaluations, second.evaluations) == (1, 1 + 1 + 1 + 1 + 2 * 5 + 1 + 1)


def test_a_warm_start_begins_where_it_is_told():
    model, truth = smooth(), photo(1)
    leak = observe(model, truth, LABEL)
    state = next(GaussNewton().search(model, leak, start=photo(2)))
    torch.testing.assert_close(state.images, photo(2))
    assert next(GaussNewton().search(model, leak, start=truth)).score < 1e-20


def test_at_the_truth_it_is_stuck():
    model, truth = smooth(), photo(1)
    states = list(GaussNewton(steps=60).search(model, observe(model, truth, LABEL), start=truth))
    assert states[-1].reason == "stuck" and len(states) < 40


def test_a_search_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path):
    model, leak = smooth(), observe(smooth(), photo(1), LABEL)
    attack = GaussNewton(steps=12, precondition="diagonal")
    whole = list(attack.search(model, leak))
    checkpoint = whole[0].checkpoint
    states = []
    for state in attack.search(model, leak):
        states.append(state)
        if state.step == 5:
            checkpoint = state.checkpoint()
            break
    rest = list(attack.search(model, leak, resume=checkpoint))
    assert rest[0].step == 5 and rest[0].evaluations == whole[5].evaluations
    assert torch.equal(rest[-1].images, whole[-1].images) and rest[-1].evaluations == whole[-1].evaluations
    run = compute.Run("inversion", {"a": 1}, tmp_path)
    result = attack.run(model, leak, store=run, progress=False)
    assert attack.run(model, leak, store=run, progress=False).seconds == result.seconds
    assert torch.equal(result.images, whole[-1].images)


def test_inside_a_space():
    """Along the few components of public images it finds the image that lies there."""
    public = photo(8, batch=6)
    model = smooth()
    space = search_spaces.components(public, 4, model.normalise)
    truth = model.normalise.inverse(
        space.images(0.3 * torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(0)).double())
    )
    truth = truth.clamp(0, 1)
    leak = observe(model, truth, LABEL)
    states = list(GaussNewton(steps=20).search(model, leak, space=space))
    assert metrics.psnr(states[-1].images, truth).item() > 60


def test_terms_are_weighed_and_scheduled():
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    terms = (
        Term("gradients", 2.0, objectives.squared_distance),
        Term("smoothness", 0.1, priors.squared_variation, stages=((0, 1), (0.5, 0)), of="images"),
    )
    states = list(GaussNewton(terms, steps=30, fading=False).search(model, leak, start=photo(2)))
    x = leak.normalise(photo(2))
    sent = observe(model, photo(2), LABEL).grads
    assert states[0].losses["gradients"] == pytest.approx(2 * objectives.squared_distance(x, sent, leak).item())
    assert states[0].losses["smoothness"] == pytest.approx(0.1 * priors.squared_variation(x).item())
    assert states[16].losses["smoothness"] == 0 and states[-1].score < 1e-12


def test_terms_of_the_images_fade_with_what_the_gradients_are_worth():
    """Weight 2 on the first value of the gradients' term, and later on the least that it has had; the score leaves them out."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    terms = (PLAIN[0], Term("smoothness", 2.0, priors.squared_variation, of="images"))
    states = list(GaussNewton(terms, steps=8).search(model, leak, start=photo(2)))
    least = math.inf
    for state in states:
        least = min(least, state.losses["gradients"])
        expected = 2 * least * priors.squared_variation(leak.normalise(state.images)).item()
        assert state.losses["smoothness"] == pytest.approx(expected)
        assert state.score == state.losses["gradients"]
    assert states[-1].losses["smoothness"] < states[0].losses["smoothness"] / 2


def test_passes_are_a_limit():
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    for passes in range(GaussNewton().least, 60):
        states = list(GaussNewton(PLAIN, steps=90, passes=passes).search(model, leak))
        assert states[-1].reason == "passes" and states[-1].evaluations <= passes
        assert states[-1].step >= 1


def test_relative_distance_by_hand():
    """(3, 4) against (0, 4) of norm 4: 9 / 16; (1) against (2): 1 / 4."""
    leak = Leak({"a": torch.tensor([0.0, 4.0]), "b": torch.tensor([2.0])}, 1, (3, 2, 2), LABEL)
    value = objectives.relative_distance(
        torch.empty(0), {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([1.0])}, leak
    )
    assert value.item() == pytest.approx(9 / 16 + 1 / 4)
    tiny = Leak({"a": torch.tensor([1.0]), "b": torch.tensor([0.0])}, 1, (3, 2, 2), LABEL)
    value = objectives.relative_distance(torch.empty(0), {"a": torch.tensor([1.0]), "b": torch.tensor([1e-6])}, tiny)
    assert value.item() == pytest.approx(1)


def test_squared_variation_by_hand():
    """One row of 0, 1, 3 twice: across 1 and 4, mean 2.5; down nothing."""
    images = torch.tensor([[0.0, 1, 3], [0, 1, 3]]).view(1, 1, 2, 3)
    assert priors.squared_variation(images).item() == pytest.approx(2.5)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(terms=(Term("gradients", 1.0, objectives.cosine_distance),)),
            r"is no sum of squares, which Gauss-Newton needs; there are squared_distance",
        ),
        (
            dict(terms=(Term("smoothness", 1.0, priors.total_variation, of="images"),)),
            r"total_variation\) is no sum of squares",
        ),
        (
            dict(terms=(Term("smoothness", 1.0, priors.squared_variation, of="images"),)),
            r"none of them looks at the client's gradients",
        ),
        (dict(steps=0), r"steps=0 searches nothing"),
        (dict(inner=0), r"inner=0 searches nothing"),
        (dict(damping=0.0), r"damping=0.0 damps nothing"),
        (dict(damping=math.nan), r"damping=nan"),
        (dict(precondition="patch"), r"precondition='patch' is not known; try 'none', 'diagonal', 'patches'"),
        (dict(tolerance=1.0), r"tolerance=1.0 is no share"),
        (dict(recycle=-1), r"recycle=-1 is no number of pairs"),
        (dict(passes=7), r"passes=7 are not enough for a single step; give 8 or more"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        GaussNewton(**changes)


def test_a_leak_without_gradients_is_refused():
    leak = replace(observe(smooth(), photo(1), LABEL), grads={})
    with pytest.raises(ValueError, match="leak holds no gradients"):
        next(GaussNewton().search(smooth(), leak))


def test_a_leak_of_another_model_and_a_start_of_another_batch_are_refused():
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    with pytest.raises(ValueError, match=r"Linear has no such parameter; observe this very model"):
        next(GaussNewton().search(nn.Linear(2, 2), leak))
    with pytest.raises(ValueError, match=r"start: shape \(2, "):
        next(GaussNewton().search(model, leak, start=torch.zeros(2, *leak.image_shape)))
    with pytest.raises(ValueError, match=r"restarts=0 searches nothing"):
        next(GaussNewton().search(model, leak, restarts=0))


def test_patches_are_refused_where_there_are_none():
    model = smooth()
    with pytest.raises(ValueError, match=r"precondition='patches': Sequential does not begin by cutting patches"):
        next(GaussNewton(precondition="patches").search(model, observe(model, photo(1), LABEL)))


def test_a_layer_that_cannot_be_differentiated_so_often_is_named():
    class Deformed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolve, self.classify = torchvision.ops.DeformConv2d(3, 2, 1), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classify(self.convolve(x, x.new_zeros(len(x), 2, 2, 2)).flatten(1))

    model = Deformed().double()
    with pytest.raises(
        ValueError,
        match=r"cannot be differentiated .* \(double backwards on deform_conv2d not supported\); put another",
    ):
        list(GaussNewton().search(model, observe(model, photo(1), LABEL)))


def test_memory_is_estimated_and_refused_in_time(monkeypatch):
    """More for more images, as much as the graphs really keep, and nothing is computed where it would not fit."""
    model = april.build("b", width=64, depth=2, heads=2, image_size=16, patch_size=4)
    leaks = [observe(model, photo(1, n, 16), torch.arange(n) % 3) for n in (1, 4)]
    one, four = (curvature.memory(model, leak) for leak in leaks)
    assert one < four < 4 * one
    monkeypatch.setattr(curvature.machine, "memory", lambda: (1.0, one / 2e9))
    with pytest.raises(
        MemoryError,
        match=r"leak: its batch of 1 would take about .* GB, and .* GB are free; give fewer images",
    ):
        next(GaussNewton().search(model, leaks[0]))


def test_probes_count_among_the_passes_of_the_shortest_step():
    with pytest.raises(ValueError, match="passes=12 are not enough for a single step; give 16 or more"):
        GaussNewton(PLAIN, passes=12, precondition="diagonal")
    model = smooth()
    states = list(GaussNewton(PLAIN, passes=16, precondition="diagonal").search(model, observe(model, photo(1), LABEL)))
    assert states[-1].reason == "passes" and states[-1].evaluations <= 16 and states[-1].step >= 1


def test_a_value_that_cannot_be_hashed_is_named_as_no_sum_of_squares():
    weighted = objectives.weighted(objectives.squared_distance, {"0.weight": 1.0})
    with pytest.raises(ValueError, match="is no sum of squares"):
        GaussNewton((Term("gradients", 1.0, weighted),))


def test_memory_that_torch_keeps_on_a_card_and_does_not_use_is_free(monkeypatch):
    for name, value in dict(mem_get_info=(2, 16), memory_reserved=10, memory_allocated=3).items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert curvature.available(torch.device("cuda", 1)) == 2 + 10 - 3
