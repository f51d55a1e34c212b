"""Gauss-Newton against explicit Jacobians, its box, its bookkeeping, and what it refuses."""

import copy
import math

import pytest
import torch
from awkward_networks import Sine
from torch import nn

from privlab import metrics
from privlab.attacks.gradient_inversion import GaussNewton, gauss_newton, priors, search_spaces
from privlab.data import Normalise
from privlab.leak import Leak, observe
from privlab.models import april, morph

LABEL = torch.tensor([1])


def smooth(between: nn.Module | None = None) -> nn.Module:
    """A small network without kinks, in double precision."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), between or nn.Tanh(), nn.Linear(16, 3)).double()
    model.normalise = Normalise((0.5, 0.4, 0.6), (0.2, 0.3, 0.25))
    return model


def photo(seed: int = 1, batch: int = 1, side: int = 2) -> torch.Tensor:
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(seed)).double()


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return smooth()


@pytest.fixture(scope="module")
def leak(model: nn.Module) -> Leak:
    return observe(model, photo(1), LABEL)


def trajectory(model: nn.Module, leak: Leak, at: torch.Tensor) -> gauss_newton._Trajectory:
    """One that stands at some images."""
    parameters, x = dict(model.named_parameters()), leak.normalise(at)
    made = gauss_newton._Trajectory(10_000, model, parameters, leak, None, 0, 0)
    made.point = gauss_newton.Point(made, x)
    made.point.rough = 0.3
    return made


def flat(parts) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


def weighed(here: gauss_newton.Point, parts) -> torch.Tensor:
    return flat((0.3 if k >= here.count else 1.0) * part for k, part in enumerate(parts))


def jacobian(here: gauss_newton.Point) -> torch.Tensor:
    """dr / d(images), (residuals, numbers), row by row."""
    rows = flat(here.residuals)
    return torch.stack([torch.autograd.grad(r, here.at, retain_graph=True)[0].flatten() for r in rows])


NETWORKS = {
    "smooth": smooth,
    "vit": lambda: april.build("b", width=24, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0).double(),
    "morph": lambda: morph.build(10, width=0.03, depths=(1, 1, 1, 1)).double(),
    "train": lambda: morph.build(8, width=0.03, depths=(1, 1, 1, 1)).double().train(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_those_of_the_jacobian_and_its_transpose(name):
    """Against central differences, against each other (u^T J v), and on the small one against J itself."""
    model, side, batch = NETWORKS[name](), 2 if name == "smooth" else 8, 2 if name == "train" else 1
    leak = observe(model, photo(1, batch, side), torch.arange(batch))
    made = trajectory(model, leak, photo(2, batch, side))
    here, h = made.point, 1e-6
    v, u = torch.randn_like(here.at), [torch.randn_like(r) for r in here.residuals]
    moved, product = flat(here.jvp(v)), here.vjp(u)
    ends = [flat(gauss_newton.Point(made, here.at + s * h * v).residuals).detach() for s in (1, -1)]
    along = (ends[0] - ends[1]) / (2 * h)
    torch.testing.assert_close(moved, along, rtol=1e-5, atol=1e-6 * along.abs().max().item())
    torch.testing.assert_close(weighed(here, u) @ moved, (product * v).sum())
    if name == "smooth":
        torch.testing.assert_close(moved, jacobian(here) @ v.flatten())


@pytest.mark.parametrize("held", [False, True])
def test_a_step_solves_the_damped_normal_equations(model, leak, held, monkeypatch):
    """Among the numbers that may move, with two terms of unlike weight; a second time too, helped by what the first has seen."""
    monkeypatch.setattr(gauss_newton, "INNER", 200)
    monkeypatch.setattr(gauss_newton, "TOLERANCE", 1e-12)
    made = trajectory(model, leak, photo(2))
    here = made.point
    whole, each = jacobian(here), weighed(here, [torch.ones_like(r) for r in here.residuals])
    downhill = -here.vjp([r.detach() for r in here.residuals])
    torch.testing.assert_close(downhill.flatten(), -(whole.T @ (each * flat(here.residuals).detach())))
    free = torch.tensor([1.0, 1.0 - held, 1] * 4).double().view_as(here.at)
    kept = free.flatten().bool()
    normal = whole.T @ (each[:, None] * whole) + 0.07 * torch.eye(12).double()
    exact = torch.linalg.solve(normal[kept][:, kept], downhill.flatten()[kept])
    spent = []
    for _ in range(2):
        before = made.passes
        step = made._solve(free * downhill, free, 0.07).flatten()
        torch.testing.assert_close(step[kept], exact)
        assert not step[~kept].any()
        spent.append(made.passes - before)
    assert spent[1] < spent[0] / 2


def test_it_finds_images_to_rounding_and_at_the_edge_of_the_box(model, monkeypatch):
    truth = photo(10)
    *_, last = GaussNewton(1500).search(model, observe(model, truth, LABEL))
    assert last.score < 1e-12 and metrics.psnr(last.images, truth).item() > 80
    monkeypatch.setattr(gauss_newton, "SMOOTHNESS", 0.0)  # black and white noise is as rough as an image can be
    truth = (photo(5) > 0.5).double()
    leak = observe(model, truth, LABEL)
    for state in GaussNewton(1000).search(model, leak, start=photo(6)):
        inside = leak.normalise.inverse(state.checkpoint["latent"])
        assert inside.min() > -1e-9 and inside.max() < 1 + 1e-9
    torch.testing.assert_close(state.images, truth, atol=1e-5, rtol=0)


def test_passes_are_counted_one_by_one_and_are_a_limit(model, leak, monkeypatch):
    """The first step: 1 look; 1 downhill, 1 for J v's graph, 1 for the damping's unit, 2 an iteration, 1 for what is promised, 1 look."""
    for passes in (gauss_newton.LEAST, 20, 59):
        *_, last = GaussNewton(passes).search(model, leak)
        assert last.reason == "passes" and last.evaluations <= passes and last.step >= 1
    monkeypatch.setattr(gauss_newton, "INNER", 5)
    monkeypatch.setattr(gauss_newton, "TOLERANCE", 0)
    first, second, *_ = GaussNewton(60).search(model, leak)
    assert (first.evaluations, second.evaluations) == (1, 1 + 1 + 1 + 1 + 2 * 5 + 1 + 1)


def test_at_the_truth_it_is_stuck(model, leak):
    states = list(GaussNewton(1500).search(model, leak, start=photo(1)))
    assert states[-1].reason == "stuck" and len(states) < 40


def test_a_search_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(model, leak):
    whole = list(GaussNewton(200).search(model, leak))
    rest = list(GaussNewton(200).search(model, leak, resume=copy.deepcopy(whole[5].checkpoint)))
    assert rest[0].step == 5 and rest[0].evaluations == whole[5].evaluations
    assert torch.equal(rest[-1].images, whole[-1].images) and rest[-1].evaluations == whole[-1].evaluations


def test_inside_a_space(model):
    """Along the few components of public images it finds the image that lies there."""
    space = search_spaces.components(photo(8, batch=6), 4, model.normalise)
    latent = 0.3 * torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(0)).double()
    truth = model.normalise.inverse(space.images(latent)).clamp(0, 1)
    *_, last = GaussNewton(500).search(model, observe(model, truth, LABEL), space=space)
    assert metrics.psnr(last.images, truth).item() > 60


def test_smoothness_fades_with_what_the_distance_is_worth(model, leak):
    """Weight .3 on the least distance so far; the score leaves it out."""
    least = math.inf
    for state in GaussNewton(100).search(model, leak, start=photo(2)):
        least = min(least, state.losses["gradients"])
        expected = 0.3 * least * priors.squared_variation(leak.normalise(state.images)).item()
        assert state.losses["smoothness"] == pytest.approx(expected) and state.score == state.losses["gradients"]


def test_what_cannot_work_is_named(leak):
    with pytest.raises(RuntimeError, match=r"@once_differentiable.*put another in its place"):
        next(GaussNewton().search(smooth(between=Sine()), leak))
