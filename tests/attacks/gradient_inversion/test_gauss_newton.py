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


def walk(model: nn.Module, leak: Leak, start: torch.Tensor, kind: str = "exact", **settings) -> gauss_newton._Walk:
    """One restart, at its first point."""
    problem = curvature.Problem(model, dict(model.named_parameters()), leak, search_spaces.Pixels())
    bend = curvature.Curvature(problem)
    if kind != "exact":
        bend = curvature_by_differences.CurvatureByDifferences(problem, kind, model)
    made = gauss_newton._Walk(GaussNewton(**settings), bend, 0, leak.normalise(start), 0)
    bend.look(made.latent)
    return made


def flat(parts) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


def residuals(made: gauss_newton._Walk, x: torch.Tensor) -> torch.Tensor:
    return flat(part for parts in made.curvature.problem.exactly(x) for part in parts)


def jacobian(made: gauss_newton._Walk) -> torch.Tensor:
    """dr / d(images), (residuals, numbers), row by row."""
    x = made.latent.clone().requires_grad_()
    return torch.stack([torch.autograd.grad(r, x, retain_graph=True)[0].flatten() for r in residuals(made, x)])


def differences(made: gauss_newton._Walk, v: torch.Tensor, h: float = 1e-6) -> torch.Tensor:
    """J v by central differences."""
    ends = [residuals(made, (made.latent + s * h * v).requires_grad_()) for s in (1, -1)]
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
    made = walk(model, leak, photo(2, batch, side))
    v, u = torch.randn_like(made.latent), [torch.randn_like(r) for r in made.curvature.residual]
    pushed, pulled = flat(made.curvature.push(v)), made.curvature.pull(u)
    along = differences(made, v)
    torch.testing.assert_close(pushed, along, rtol=1e-5, atol=1e-6 * along.abs().max().item())
    torch.testing.assert_close(flat(u) @ pushed, (pulled * v).sum())
    if name == "smooth":
        whole = jacobian(made)
        torch.testing.assert_close(pushed, whole @ v.flatten())
        torch.testing.assert_close(pulled.flatten(), flat(u) @ whole)


@pytest.mark.parametrize("name", ["smooth", "vit", "morph", "relu"])
def test_push_and_pull_by_differences(name):
    """Against the exact ones, at two points, and back at the first."""
    model, side = NETWORKS[name](), 2 if name == "smooth" else 8
    leak = observe(model, photo(1, 1, side), LABEL)
    exact, other = (walk(model, leak, photo(2, 1, side), kind) for kind in ("exact", "difference"))
    here = exact.curvature.here(), other.curvature.here()
    for point in (None, exact.latent + 0.3, "back"):
        for made, first in zip((exact, other), here, strict=True):
            made.curvature.back(first) if point == "back" else point is None or made.curvature.look(point)
        assert other.curvature.values == pytest.approx(exact.curvature.values, rel=1e-9)
        v, u = torch.randn_like(exact.latent), [torch.randn_like(r) for r in exact.curvature.residual]
        for one, true in (
            (other.curvature.pull(u), exact.curvature.pull(u)),
            *zip(other.curvature.push(v), exact.curvature.push(v), strict=True),
        ):
            assert (one - true).norm() <= 1e-3 * true.norm() + 1e-7 * sum(r.norm() for r in exact.curvature.residual)
    assert other.curvature.points == {"exact": 0, "difference": 2} and exact.curvature.points == {
        "exact": 2,
        "difference": 0,
    }


@pytest.mark.parametrize("kind", ["difference", "auto"])
def test_a_search_by_differences_finds_the_same(kind, tmp_path):
    model = NETWORKS["morph"]()
    truth = photo(1, side=8)
    leak = observe(model, truth, LABEL)
    attack = GaussNewton(steps=6, derivative=kind)
    exact, other = (list(a.search(model, leak)) for a in (replace(attack, derivative="exact"), attack))
    assert exact[-1].score < exact[0].score / 10
    for a, b in zip(exact[:3], other[:3], strict=True):
        torch.testing.assert_close(a.images, b.images, rtol=0, atol=5e-3)
    assert other[-1].score < other[0].score / 10
    assert other[-1].derivatives == {"exact": 0, "difference": 7}
    again = list(attack.search(model, leak, resume=other[3].checkpoint()))  # made late, of the last state
    assert torch.equal(again[-1].images, other[-1].images) and again[-1].derivatives == other[-1].derivatives
    assert repr(attack).endswith(f"derivative {kind}")
    with pytest.raises(ValueError, match="derivative='both' is not known here"):
        replace(attack, derivative="both")


def test_auto_turns_differences_down_that_miss_a_pattern(monkeypatch):
    model = NETWORKS["relu"]().float()
    leak = observe(model, photo(1, side=8).float(), LABEL)
    attack = GaussNewton(steps=3)
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
    made = walk(model, leak, photo(2, side=8))
    v = torch.randn_like(made.latent)

    def differ(x):
        task = torch.func.grad(lambda p: nn.functional.cross_entropy(functional(model)(p, x), LABEL))
        return tuple(objectives.relative_differences(task({n: p.detach() for n, p in model.named_parameters()}), leak))

    theirs = torch.func.jvp(differ, (made.latent,), (v,))[1]
    torch.testing.assert_close(made.curvature.push(v)[:-2], theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_image_to_rounding(seed):
    model, truth = smooth(seed), photo(seed + 10)
    leak = observe(model, truth, LABEL)
    states = list(GaussNewton(steps=60).search(model, leak, seed=seed))
    assert states[-1].score < 1e-12
    assert metrics.psnr(states[-1].images, truth).item() > 80


def test_the_box_is_kept_and_a_truth_at_its_edge_is_found(monkeypatch):
    monkeypatch.setattr(gauss_newton, "SMOOTHNESS", 0.0)  # black and white noise is as rough as an image can be
    model, truth = smooth(), (photo(5) > 0.5).double()
    leak = observe(model, truth, LABEL)
    made = walk(model, leak, photo(6), steps=40)
    images = truth
    for state in made.states():
        inside, images = leak.normalise.inverse(made.latent), state.images
        assert inside.min() > -1e-9 and inside.max() < 1 + 1e-9
    torch.testing.assert_close(images, truth, atol=1e-5, rtol=0)


def test_it_gets_further_than_adam_on_a_vit_for_as_many_passes():
    model = april.build("b", width=64, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0).double()
    truth = photo(3, side=8)
    leak = observe(model, truth, LABEL)
    found = GaussNewton(steps=15).run(model, leak, progress=False)
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
    result = GaussNewton(steps=60).run(model, batch, progress=False)
    assert result.images.shape == (2, 3, 2, 2) and result.score < 1e-4


def test_passes_are_counted_one_by_one(monkeypatch):
    """The first step: 1 look; 1 downhill, 1 for J v's graph, 1 for the damping's unit, 2 an iteration, 1 for what is promised, 1 look."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    monkeypatch.setattr(curvature, "INNER", 5)
    monkeypatch.setattr(curvature, "TOLERANCE", 0)
    first, second, *_ = GaussNewton(steps=2).search(model, leak)
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
    attack = GaussNewton(steps=12)
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


def test_passes_are_a_limit():
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    for passes in range(gauss_newton.LEAST, 60):
        states = list(GaussNewton(steps=90, passes=passes).search(model, leak))
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


@pytest.mark.parametrize("held", [False, True])
def test_a_step_solves_the_damped_normal_equations(held, monkeypatch):
    """Among the numbers that may move, with two terms of unlike weight; a second time too, helped by what the first has seen."""
    monkeypatch.setattr(curvature, "INNER", 200)
    monkeypatch.setattr(curvature, "TOLERANCE", 1e-12)
    model = smooth()
    made, weights = walk(model, observe(model, photo(1), LABEL), photo(2)), (2.0, 0.3)
    bend, whole = made.curvature, jacobian(made)
    bend.scale = 0.7
    each = flat(torch.full_like(r, weights[k >= bend.count]) for k, r in enumerate(bend.residual))
    downhill = bend.downhill(weights)
    torch.testing.assert_close(downhill.flatten(), -(whole.T @ (each * flat(bend.residual).detach())))
    free = torch.tensor([1.0, 1.0 - held, 1] * 4).double().view_as(made.latent)
    kept = free.flatten().bool()
    normal = whole.T @ (each[:, None] * whole) + 0.1 * 0.7 * torch.eye(12).double()
    exact = torch.linalg.solve(normal[kept][:, kept], downhill.flatten()[kept])
    spent = []
    for _ in range(2):
        before = bend.passes
        step = bend.solve(free * downhill, free, weights, 0.1, None).flatten()
        torch.testing.assert_close(step[kept], exact)
        assert not step[~kept].any()
        spent.append(bend.passes - before)
    assert spent[1] < spent[0] / 2


def test_smoothness_fades_with_what_the_distance_is_worth():
    """Weight .3 on the least distance so far; the score leaves it out."""
    model = smooth()
    leak = observe(model, photo(1), LABEL)
    least = math.inf
    for state in GaussNewton(steps=8).search(model, leak, start=photo(2)):
        least = min(least, state.losses["gradients"])
        expected = 0.3 * least * priors.squared_variation(leak.normalise(state.images)).item()
        assert state.losses["smoothness"] == pytest.approx(expected) and state.score == state.losses["gradients"]


def test_settings_that_cannot_work_are_named():
    for wrong in (dict(steps=0), dict(passes=7)):
        with pytest.raises(ValueError, match="give 1 step or more, and 8 passes or more"):
            GaussNewton(**wrong)
