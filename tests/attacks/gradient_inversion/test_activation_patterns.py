"""A second pass in the first one's pattern: its difference is the derivative that autograd takes, whatever units switch between the two."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from privlab.attacks.gradient_inversion import activation_patterns
from privlab.attacks.gradient_inversion.activation_patterns import CHOICES, OtherPattern, Recorded, Replayed

MODULES = [
    nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.ReLU6(inplace=True), nn.Hardtanh(-0.5, 0.7), nn.Hardsigmoid(),
    nn.Hardsigmoid(inplace=True), nn.Hardswish(), nn.Hardswish(inplace=True), nn.LeakyReLU(0.1), nn.LeakyReLU(0.1, inplace=True),
    nn.PReLU(),
    nn.RReLU().eval(), nn.ELU(2.0), nn.ELU(2.0, inplace=True), nn.SELU(), nn.CELU(0.5), nn.Threshold(0.1, 0.3), nn.Hardshrink(0.2),
    nn.Softshrink(0.2), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True), nn.AdaptiveMaxPool2d(2), nn.GELU(),
    nn.SiLU(),
]  # fmt: skip
FUNCTIONS = {
    "abs": lambda x: x.abs(),
    "torch.abs": torch.abs,
    "clamp": lambda x: x.clamp(-0.3, 0.4),
    "clamp(min)": lambda x: x.clamp(min=0.1),
    "torch.clamp(max)": lambda x: torch.clamp(x, max=0.2),
    "torch.relu": torch.relu,
    "Tensor.relu": lambda x: x.relu(),
    "relu_ of a copy": lambda x: (x * 1).relu_(),
    "F.relu(input=)": lambda x: F.relu(input=x),
    "in place, the result left": lambda x: (lambda y: (F.relu_(y), y)[1])(x * 1),
    "where": lambda x: torch.where(x > 0, x, 0.2 * x),
    "a mask": lambda x: x * (x > 0),
    "sign": lambda x: x * x.sign(),
    "amax": lambda x: x.amax((2, 3), keepdim=True) + x,
    "amax(dim)": lambda x: x.amax(dim=1)[:, None],
    "max(dim)": lambda x: x.max(1)[0][:, None],
    "torch.max(dim, keepdim)": lambda x: torch.max(x, dim=2, keepdim=True).values,
    "max of all": lambda x: x * x.max(),
    "min of all": lambda x: x * x.min(),
    "maximum": lambda x: torch.maximum(x, 0.1 * x),
    "max of two": lambda x: torch.max(x, 0.3 * x),
    "minimum": lambda x: torch.minimum(x, x.flip(1)),
    "topk": lambda x: x.flatten(2).topk(4).values,
    "topk(dim)": lambda x: x.topk(2, 1)[0],
    "sort": lambda x: x.sort(1)[0],
    "torch.sort(descending)": lambda x: torch.sort(x, descending=True)[0],
    "median": lambda x: x.median(2).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "argmax": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "straight through": lambda x: x + (x.round() - x).detach(),
    "detach": lambda x: x / x.abs().mean().detach(),
    "F.max_pool1d": lambda x: F.max_pool1d(x.flatten(2), 3),
    "F.max_pool2d(return_indices)": lambda x: F.max_pool2d(input=x, kernel_size=2, return_indices=True)[0],
    "torch.max_pool2d": lambda x: torch.max_pool2d(x, 2),
    "F.relu6": lambda x: F.relu6(3 * x + 3),
    "F.hardswish": lambda x: F.hardswish(5 * x),
    "F.hardsigmoid": lambda x: F.hardsigmoid(4 * x),
}
CASES = [pytest.param(m, id=str(m)) for m in MODULES] + [pytest.param(f, id=n) for n, f in FUNCTIONS.items()]


class Between(nn.Module):
    """A function between two layers that can be moved."""

    def __init__(self, function):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)
        self.function, self.last = function, nn.LazyLinear(5)

    def forward(self, x):
        return self.last(self.function(self.norm(self.first(x))).flatten(1))


def directions(function, step, seed=0):
    """J^T u three ways: by a difference in one pattern, by one without, and by autograd; None where that has no second derivative."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Between(function).double()
        x = torch.randn(2, 3, 8, 8, dtype=torch.float64).requires_grad_()
        model(x)
        model.eval()
        weights, labels = dict(model.named_parameters()), torch.tensor([1, 2])
        u = {n: torch.randn_like(p) for n, p in weights.items()}

    def loss(shift=0.0, mode=None):
        moved = {n: p + shift * u[n] for n, p in weights.items()}
        with mode or contextlib.nullcontext():
            logits = functional_call(model, moved, (x,))
        return F.cross_entropy(logits, labels)

    def slope(*args):
        return torch.autograd.grad(loss(*args), x)[0]

    true = None
    with contextlib.suppress(RuntimeError):
        update = torch.autograd.grad(loss(), list(weights.values()), create_graph=True)
        (true,) = torch.autograd.grad(sum((g * u[n]).sum() for n, g in zip(weights, update, strict=True)), x)
    pattern = Recorded()
    here = slope(0.0, pattern)
    return (slope(step, Replayed(pattern)) - here) / step, (slope(step) - here) / step, true


def error(one, true):
    return ((one - true).norm() / true.norm()).item()


@pytest.mark.parametrize("function", CASES)
def test_the_difference_in_one_pattern_is_the_derivative(function):
    """At a shift by which units switch, the error falls with the shift; what has no second derivative is held to a tiny shift."""
    far, near = (directions(function, step) for step in (1e-2, 1e-6))
    true = directions(function, 1e-9)[1] if far[2] is None else far[2]
    assert error(near[0], true) < 1e-4
    assert error(far[0], true) < 0.5


@pytest.mark.parametrize(
    "function",
    [nn.ReLU(), nn.LeakyReLU(0.1), nn.ReLU6(), nn.MaxPool2d(3, 2, 1), nn.SELU(), torch.abs],
    ids=lambda function: str(function).split(" at 0x")[0],
)
def test_without_the_pattern_it_is_not(function):
    errors = [
        (error(kept, true), error(plain, true))
        for kept, plain, true in (directions(function, 1e-3, s) for s in range(6))
    ]
    assert max(kept for kept, _ in errors) < 0.05
    assert max(plain for _, plain in errors) > 0.2


def test_every_choice_is_of_a_function_that_torch_has():
    assert len(CHOICES) > 100 and all(map(callable, CHOICES))


def test_passes_that_are_not_alike():
    pattern = Recorded()
    with pattern:
        F.relu(torch.randn(2, 3))
    with (
        pytest.raises(OtherPattern, match=r"abs of \(2, 3\), where the first pass had .*relu of \(2, 3\)"),
        Replayed(pattern),
    ):
        torch.abs(torch.randn(2, 3))
    with (
        pytest.raises(OtherPattern, match=r"relu of \(4, 3\), where the first pass had .*relu of \(2, 3\)"),
        Replayed(pattern),
    ):
        F.relu(torch.randn(4, 3))
    with pytest.raises(OtherPattern, match="where the first pass had nothing more"), Replayed(pattern):
        F.relu(torch.randn(2, 3))
        F.relu(torch.randn(2, 3))


@pytest.mark.parametrize("function", [torch.amax, torch.amin])
@pytest.mark.parametrize("how", [{"dim": 0}, {"dim": 1}, {"dim": ()}, {"dim": (0, 1)}, {}, {"dim": 0, "keepdim": True}])
def test_an_extreme_along_the_first_axis_is_replayed_along_it(function, how):
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    value, replay = activation_patterns._extreme(function, x, **how)
    torch.testing.assert_close(replay(x, **how), value)
