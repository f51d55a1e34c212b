"""Strangers' models and slips: what gives its image away is never called clear, and what cannot be audited is told in one line."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Observed
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import privlab
from privlab import models
from privlab.auditing.forms import IMAGE, PART, UP_TO

DRAW = torch.Generator().manual_seed(0)
IMAGES = F.interpolate(torch.rand(1, 3, 5, 5, generator=DRAW), 16, mode="bicubic").clamp(0, 1)
LARGE = F.interpolate(IMAGES, 32, mode="bicubic").clamp(0, 1)


class Plain(nn.Module):
    """A classifier of which the first layer gives away what `before` makes of the image."""

    def __init__(self, before: Callable = lambda x: x, bias: bool = True, classes: int = 5) -> None:
        super().__init__()
        self.before, self.act, self.last = before, nn.GELU(), nn.Linear(16, classes)
        self.first = nn.Linear(768, 16, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(self.before(x).flatten(1))))


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module, before: Callable = lambda x: x, after: Callable = lambda y: y) -> None:
        super().__init__()
        self.model, self.before, self.after = model, before, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.model(self.before(x)))


class Weights(nn.Module):
    """Its first weights enter by any function, and are of any shape."""

    def __init__(self, by: Callable, *shape: int) -> None:
        super().__init__()
        self.by, self.w, self.last = by, nn.Parameter(torch.randn(shape) * 0.03), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.by(x.flatten(1), self.w)))


class Adapter(nn.Module):
    """A low-rank layer that learns, beside a frozen one of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.randint(-9, 9, (16, 768)).to(torch.int8), requires_grad=False)
        self.down, self.up = nn.Parameter(torch.randn(4, 768) * 0.03), nn.Parameter(torch.randn(16, 4))
        self.last = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.last(F.gelu(x @ self.base.float().T * 0.01 + x @ self.down.T @ self.up.T))


class Quarters(nn.Module):
    """Four layers, each of which takes a quarter of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.last = nn.ModuleList(nn.Linear(192, 8) for _ in range(4)), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        squares = zip(self.parts, F.unfold(x, 8, stride=8).unbind(2), strict=True)
        return self.last(F.gelu(torch.cat([part(square) for part, square in squares], 1)))


def vit(**settings) -> nn.Module:
    return models.build("vit_cifar", **{"embed_dim": 192, "depth": 1, **settings})


def audit(model, images=IMAGES, labels=(1,), **settings):
    return privlab.audit(model, images, labels, steps=1, progress=False, **settings)


mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
LEAKING: dict[str, tuple[Callable[[], nn.Module], Tensor, float]] = {  # build, images, dB at the best brightness, at least
    "rounding": (lambda: Plain(lambda x: (x * 255).round() / 255), IMAGES, 55),
    "adapters on an int8 base": (Adapter, IMAGES, 60),
    "its own order of pixels": (lambda: Plain(lambda x: x.permute(0, 2, 3, 1).flip(1)), IMAGES, 60),
    "a ViT behind a flip": (lambda: Wrapped(vit(), lambda x: x.flip(3).flip(1)), LARGE, 60),
    "weights turned, behind a negative": (lambda: Wrapped(Weights(torch.matmul, 768, 8), lambda x: 1 - x), IMAGES, 20),
    "quarters": (Quarters, IMAGES, 60),
    "weight norm": (lambda: nn.Sequential(nn.Flatten(), weight_norm(nn.Linear(768, 16)), nn.GELU(), nn.Linear(16, 5)), IMAGES, 20),
    "a normalisation of its own, no bias": (lambda: Plain(lambda x: (x - mean) / std, bias=False), IMAGES, 60),
    # from here on in `make check`
    "flat weights": (lambda: Weights(lambda x, w: F.linear(x, w.view(8, 768)), 6144), IMAGES, 20),
    "all in bfloat16": (lambda: Wrapped(Plain().bfloat16(), lambda x: x.bfloat16(), lambda y: y.float()), IMAGES, 35),
    "bent by tanh": (lambda: Plain(torch.tanh), IMAGES, 25),
    "another size": (lambda: Plain(lambda x: F.interpolate(x, 16, mode="bilinear")), F.interpolate(IMAGES, 14), 60),
    "a frozen embedding": (lambda: Wrapped(vit(embed_dim=384, depth=2, position="random"), lambda x: x.flip(3)), LARGE, 60),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.check] * (k > 7)) for k, n in enumerate(LEAKING)])
def test_a_model_that_gives_its_image_away_is_not_all_clear(name):
    build, images, least = LEAKING[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        leaks = audit(build().eval(), images).leaks
    assert {solve["shows"] for solve in leaks} & ({PART} if name == "quarters" else {IMAGE, UP_TO})
    assert max(solve["fitted"] for solve in leaks) > least


def test_the_cure_for_another_number_of_channels_can_be_followed():
    model = Plain()
    model.first, model.normalise = nn.Linear(256, 16), privlab.data.Normalise((0.5,) * 3, (0.5,) * 3)
    with pytest.raises(ValueError, match=r"set model.normalise = privlab.data.Normalise\(\(0.5,\), \(0.5,\)\)"):
        audit(model.eval(), IMAGES[:, :1])
    model.normalise = privlab.data.Normalise((0.5,), (0.5,))
    assert audit(model, IMAGES[:, :1]).leaks


CLEAR = {
    "a ResNet": lambda: models.build("resnet_cifar", channels=(8, 16, 32, 64)),
    "maps as large as squares": lambda: nn.Sequential(
        nn.Conv2d(3, 12, 7, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, 5)
    ),
}


@pytest.mark.parametrize("name", CLEAR)
def test_convolutions_whose_gradients_mix_places_are_not_called_leaking(name):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = CLEAR[name]().eval()
    report = audit(model, LARGE)
    assert not report.leaks and not report.defences and "no proof that it is safe" in " ".join(report.text().split())


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel])
def test_a_wrapped_model_is_audited_as_the_plain_one(wrap):
    model = Plain().eval()
    assert audit(wrap(model)).solves == audit(model).solves


class Outside(Plain):
    """It draws, whatever its mode, from a generator that nobody can hold still."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.05 * torch.from_numpy(np.random.rand(*x.shape)).to(x))


def answering(answer: Callable[[Tensor], object]) -> nn.Module:
    return Wrapped(Plain(), after=answer).eval()


def raising(x: Tensor) -> Tensor:
    raise KeyError("a\nb")


SLIPS = {
    "model: got RecursiveScriptModule": dict(model=torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)).eval())),
    "model: 'the model' of Plain is in train mode; call model.eval": dict(model=Plain().train()),
    "model: Outside draws at random: two gradients of image 0 differ by .*%": dict(model=Outside().eval()),
    "model: Wrapped does not return .batch, classes.*a module around it": dict(model=answering(lambda y: (y, y))),
    "model: the gradient of Wrapped is zero": dict(model=answering(lambda y: y * 0)),
    r"model: a step of Wrapped on an image of \(3, 16, 16\) raised KeyError": dict(model=answering(raising)),
    "images: image 0 is of one colour": dict(images=torch.full_like(IMAGES, 0.3)),
    r"images: pixels go from .* give values in \[0, 1\]": dict(images=IMAGES * 255),
    r"public: got \(1, 3, 32, 32\); give \(3, 16, 16\)": dict(public=LARGE),
}  # fmt: skip


@pytest.mark.parametrize("message", SLIPS)
def test_a_slip_is_told_in_one_line(message):
    with pytest.raises(ValueError, match=message) as told:
        audit(**{"model": Plain().eval(), **SLIPS[message]})
    assert "\n" not in str(told.value)


def test_the_model_and_the_draws_are_as_they_were_whatever_the_caller_is_in(monkeypatch):
    """And no card is touched for a model on the CPU: who asked these two for their state would get an error."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    model, before = Observed().eval(), torch.get_rng_state()
    model.fc.weight.grad = torch.ones_like(model.fc.weight)
    with torch.inference_mode():
        assert audit(model, LARGE.numpy(), 1, public=LARGE.double()).solves
    assert model.largest == 0 and model.mean is None and model.fc.weight.grad.eq(1).all()
    assert torch.equal(torch.get_rng_state(), before) and all(p.requires_grad for p in model.parameters())
