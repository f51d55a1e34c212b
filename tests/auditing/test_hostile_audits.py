"""A table of strangers' models and slips: every audit of it answers, in one line where it cannot, and never with a false all-clear."""

from __future__ import annotations

import random
import re
from collections import namedtuple
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import privlab
from privlab import __main__ as cli
from privlab import models
from privlab.attacks.gradient_inversion import GradientMatching
from privlab.auditing import exposure, likeness, validation
from privlab.data import downloads, sources

DRAW = torch.Generator().manual_seed(0)
IMAGES = F.interpolate(torch.rand(1, 3, 5, 5, generator=DRAW), 16, mode="bicubic").clamp(0, 1)
LARGE = F.interpolate(IMAGES, 32, mode="bicubic").clamp(0, 1)


class Plain(nn.Module):
    """A classifier of which the first layer gives the image away."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.first, self.act, self.last = nn.Linear(768, 16), nn.GELU(), nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x.flatten(1))))


class By(Plain):
    """The same with a forward of its own."""

    def __init__(self, forward: Callable) -> None:
        super().__init__()
        self.by = forward

    def forward(self, x: Tensor):
        return self.by(self, x)


def plain(self: Plain, x: Tensor) -> Tensor:
    return Plain.forward(self, x)


def vit() -> nn.Module:
    return models.build("vit_cifar", embed_dim=192, depth=1)


def audit(model, images=IMAGES, labels=(1,), **settings):
    return privlab.audit(model, images, labels, steps=1, progress=False, **settings)


# -- usual slips -----------------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> nn.Module:
    def forward(self, x):
        raise error

    return By(forward).eval()


def without_gradient(context: Callable) -> nn.Module:
    def forward(self, x):
        with context():
            return plain(self, x)

    return By(forward).eval()


def made_in(context: Callable) -> nn.Module:
    with context():
        return Plain().eval()


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise KeyError("in backward")


Answer = namedtuple("Answer", "logits aux")

SLIPS: dict[str, dict] = {
    **{f"labels as {d}": dict(labels=torch.tensor([1]).to(d)) for d in (torch.bool, torch.float64, torch.complex64)},
    **{
        f"labels: {v!r:.40}".split(" at 0x")[0]: dict(labels=v)
        for v in (
            None,
            "cat",
            ["cat"],
            [None],
            [1.0],
            [True],
            [],
            [[0], [1, 2]],
            [2**70],
            [float("nan")],
            {0},
            {"a": 0},
            object(),
            [5],
            [-1],
        )
    },
    "labels of a generator": dict(labels=(i for i in [1])),
    "labels, one-hot": dict(labels=torch.eye(5)[1:2].long()),
    "labels, a column": dict(labels=torch.tensor([[1]])),
    "labels, words in an array": dict(labels=np.array(["a"])),
    "labels on meta": dict(labels=torch.zeros(1, dtype=torch.long, device="meta")),
    "labels, sparse": dict(labels=torch.tensor([1]).to_sparse()),
    **{
        f"images: {v!r:.40}": dict(images=v)
        for v in (None, "a.png", 3, {"x": IMAGES}, [IMAGES], (IMAGES,), IMAGES.tolist())
    },
    **{
        f"images, {name}": dict(images=v)
        for name, v in {
            "bytes": (IMAGES * 255).byte(),
            "bytes in an array": (IMAGES * 255).byte().numpy(),
            "bool": IMAGES > 0.5,
            "int64": IMAGES.long(),
            "complex": IMAGES.to(torch.complex64),
            "sparse": IMAGES.to_sparse(),
            "meta": IMAGES.to("meta"),
            "quantised": torch.quantize_per_tensor(IMAGES, 0.1, 0, torch.quint8),
            "nested": torch.nested.nested_tensor([IMAGES[0]]),
            "none": IMAGES[:0],
            "no pixel": IMAGES[..., :0],
            "five axes": IMAGES[None],
            "three axes": IMAGES[0],
            "NaN": IMAGES * float("nan"),
            "infinite": IMAGES / 0,
            "of 255": IMAGES * 255,
            "normalised": IMAGES - 0.5,
            "of another size": LARGE,
            "grey": IMAGES[:, :1],
            "black, which no gradient has to tell": torch.zeros_like(IMAGES),
        }.items()
    },
    **{
        f"public, {name}": dict(public=v)
        for name, v in {
            "a list": [IMAGES[0]],
            "a word": "x",
            "bytes": (IMAGES * 255).byte(),
            "complex": IMAGES.to(torch.complex64),
            "meta": IMAGES.to("meta"),
            "sparse": IMAGES.to_sparse(),
            "none": IMAGES[:0],
            "NaN": IMAGES * float("nan"),
            "large": LARGE,
        }.items()
    },
    **{
        f"seed={v!r:.20}": dict(seed=v)
        for v in (1.5, 1.0, "0", None, True, -1, 2**70, float("nan"), torch.tensor(3), [1])
    },
    **{
        f"minutes={v!r:.20}": dict(minutes=v)
        for v in ("5", None, True, -1, float("nan"), float("inf"), 1j, [1], torch.tensor(0.0))
    },
    **{f"target={v!r:.20}": dict(target=v) for v in ("15", None, True, float("nan"), 1j, [1])},
    **{
        f"groups={v!r:.30}": dict(groups=v)
        for v in (["first"], "first", {"a": None}, {"a": 5}, {"a": ["x"]}, {"a": [None]}, {5: ["first.weight"]})
    },
    "model: a class": dict(model=Plain),
    "model: a function": dict(model=lambda x: x),
    "model: scripted": dict(model=torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)).eval())),
    "model: traced": dict(model=torch.jit.trace(Plain().eval(), IMAGES)),
    "model: under no_grad": dict(model=without_gradient(torch.no_grad)),
    "model: under inference_mode": dict(model=without_gradient(torch.inference_mode)),
    "model: detached": dict(model=By(lambda self, x: plain(self, x).detach()).eval()),
    "model: constant": dict(model=By(lambda self, x: torch.zeros(len(x), 5)).eval()),
    "model: made under inference_mode": dict(model=made_in(torch.inference_mode)),
    "model: lazy": dict(model=nn.Sequential(nn.Flatten(), nn.LazyLinear(5))),
    "model: on meta": dict(model=Plain().eval().to("meta")),
    "model: complex": dict(model=nn.Sequential(nn.Flatten(), nn.Linear(768, 5).to(torch.complex64))),
    "model: two float formats": dict(model=nn.Sequential(nn.Flatten(), nn.Linear(768, 8).double(), nn.Linear(8, 3))),
    "model: broken backward": dict(model=By(lambda self, x: Backward.apply(plain(self, x))).eval()),
    **{
        f"model: raises {type(error).__name__}": dict(model=raising(error))
        for error in (
            KeyError("foo"),
            IndexError("i"),
            RuntimeError("a\nb"),
            AssertionError(),
            AttributeError("x"),
            NotImplementedError(),
            StopIteration(),
            ZeroDivisionError("z"),
            ValueError("odd\nmore"),
            OSError("disk"),
            MemoryError(),
            Exception("custom"),
            TypeError("t\nu"),
        )
    },
    **{
        f"model: returns {name}": dict(model=By(lambda self, x, f=f: f(plain(self, x))).eval())
        for name, f in {
            "a tuple": lambda y: (y, y),
            "a dict": lambda y: {"logits": y},
            "a named tuple": lambda y: Answer(y, None),
            "a list": lambda y: [y],
            "nothing": lambda y: None,
            "a number": lambda y: 3.0,
            "an array": lambda y: y.detach().numpy(),
            "complex": lambda y: y.to(torch.complex64),
            "integers": lambda y: y.long(),
            "the class": lambda y: y.argmax(1),
            "bool": lambda y: y > 0,
            "a row": lambda y: y[0],
            "two rows": lambda y: y.repeat(2, 1),
            "NaN": lambda y: y * float("nan"),
            "zero times": lambda y: y * 0,
            "sparse": lambda y: y.to_sparse(),
        }.items()
    },
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_usual_slip_is_told_in_one_line(slip):
    with pytest.raises(ValueError) as told:
        audit(**{"model": Plain().eval(), **SLIPS[slip]})
    assert len(str(told.value)) > 20 and "\n" not in str(told.value)
    assert re.match(r"(model|images|labels|public|groups|seed|minutes|target)\b", str(told.value))


def test_the_table_of_slips_is_long_enough():
    assert len(SLIPS) >= 100


@pytest.mark.parametrize("kind", [torch.int32, torch.uint16, list, np.int32, int])
def test_labels_whose_meaning_is_clear_are_taken(kind):
    labels = {list: [1], int: 1, np.int32: np.array([1], np.int32)}.get(kind)
    taken = audit(Plain().eval(), labels=torch.tensor([1]).to(kind) if labels is None else labels)
    assert taken.leaks and taken.settings["labels"] == [1]


def test_arrays_numpy_numbers_and_a_caller_without_gradients_are_taken():
    model = Plain().eval()
    with torch.inference_mode():
        taken = audit(model, IMAGES.numpy(), seed=np.int64(2), minutes=np.float32(0), public=IMAGES.numpy())
    assert taken.leaks and taken.json()["settings"]["seed"] == 2
    with torch.no_grad():
        assert audit(Plain().eval(), IMAGES.double().requires_grad_()).leaks


# -- false all-clears ------------------------------------------------------------------------------------------------------


def dropped(where: str, by: Callable = F.dropout, p: float = 0.3) -> Callable:
    def forward(self: Plain, x: Tensor) -> Tensor:
        x = (by(x, p, self.training) if where == "image" else x).flatten(1)
        h = self.act(self.first(x))
        return self.last(by(h, p, self.training) if where == "features" else h)

    return forward


class Sequence(nn.Module):
    """A network whose middle, by itself in eval mode, draws nothing."""

    def __init__(self, middle: nn.Module) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(768, 32), middle, nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x.flatten(1)).view(len(x), 4, 8)
        h = self.middle(h, h, h) if isinstance(self.middle, nn.MultiheadAttention) else self.middle(h)
        return self.last((h[0] if isinstance(h, tuple) else h).flatten(1))


class Functional(nn.Module):
    """Its weights are nobody's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b, self.last = (
            nn.Parameter(torch.randn(8, 768) * 0.03),
            nn.Parameter(torch.zeros(8)),
            nn.Linear(8, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.linear(x.flatten(1), self.w, self.b).relu())


class Branches(nn.Module):
    """The layer that takes the image is not the first that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.raw, self.conv = nn.Linear(8, 5), nn.Linear(768, 8), nn.Conv2d(3, 2, 9)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.raw(x.flatten(1)).relu() + self.conv(x).mean((2, 3)).repeat(1, 4))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.last = nn.LSTM(768, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.rnn(x.flatten(1)[:, None])[0][:, 0])


class Weights(nn.Module):
    """Its first weights enter by any function, and are of any shape."""

    def __init__(self, by: Callable, *shape: int, bias: bool = False) -> None:
        super().__init__()
        self.by, self.last = by, nn.Linear(8, 5)
        self.w = nn.Parameter(torch.randn(*shape) * 0.03)
        self.b = nn.Parameter(torch.randn(8) * 0.1) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.by(x, self.w, self.b).flatten(1)))


class Coarse(nn.Module):
    """What it takes first is a small picture, and what it takes last the image."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.w, self.last = nn.Linear(12, 8), nn.Parameter(torch.randn(768, 8) * 0.03), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.small(F.avg_pool2d(x, 8).flatten(1)) + x.flatten(1).flip(1) @ self.w))


class Named(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x.flip(3))


class Adapter(Functional):
    """A frozen layer with a low-rank one beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.up = nn.Parameter(torch.randn(4, 768) * 0.03), nn.Parameter(torch.randn(8, 4))
        self.w.requires_grad_(False), self.b.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.last((F.linear(x, self.w, self.b) + x @ self.a.T @ self.up.T).relu())


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module, before: Callable = lambda x: x) -> None:
        super().__init__()
        self.model, self.before = model, before

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.model(self.before(pixel_values))


class Skips(nn.Module):
    """Stochastic depth of nobody's library."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(not self.training or torch.rand(()) > 0.5)


class Noisy(Plain):
    def __init__(self, draw: Callable) -> None:
        super().__init__()
        self.own, self.numbers, self.draw = torch.Generator().manual_seed(0), np.random.default_rng(0), draw

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.05 * self.draw(self, x))


def hooked(where: str, hook: Callable) -> nn.Module:
    model = Plain()
    target = (
        model.first.weight if where == "register_hook" else model if where == "register_forward_pre_hook" else model.act
    )
    getattr(target, where)(hook)
    return model


def deep() -> nn.Module:
    model = vit()
    for block in model.blocks:
        block.drop_path1 = block.drop_path2 = Skips()
    return model


class Dropped(nn.Module):
    """It has a word to say in train mode only, and weights that say nothing yet."""

    def __init__(self, by: Callable) -> None:
        super().__init__()
        self.by, self.scale = by, nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.by(x, 0.5, self.training) * self.scale


def between(*places: str, frozen: bool = False) -> nn.Module:
    model = models.build("vit_cifar", embed_dim=384, depth=2)
    for place in places:
        model.get_submodule(place.rpartition(".")[0]).add_module(place.rpartition(".")[2], Dropped(F.dropout))
    model.pos_embed.requires_grad_(not frozen)
    return model


def normed(how: Callable) -> nn.Module:
    model = Plain()
    how(model.first)
    return model


def without_bias() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 8, bias=False), nn.GELU(), nn.Linear(8, 5))


class TrainsOtherwise(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(
            F.avg_pool2d(x, 8).repeat_interleave(8, 2).repeat_interleave(8, 3) if self.training else x
        )


numbers = torch.nn.utils.parametrizations
mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
LEAKING: dict[str, tuple[Callable[[], nn.Module], bool, Tensor]] = {  # build, in train mode, images
    "dropout of the image": (lambda: By(dropped("image")), True, IMAGES),
    "dropout of features": (lambda: By(dropped("features")), True, IMAGES),
    "rare dropout": (lambda: By(dropped("features", p=0.01)), True, IMAGES),
    "alpha dropout": (lambda: By(dropped("image", F.alpha_dropout)), True, IMAGES),
    "channel dropout": (lambda: By(dropped("image", F.dropout2d)), True, IMAGES),
    "random ReLU": (lambda: By(lambda s, x: s.last(F.rrelu(s.first(x.flatten(1)), training=s.training))), True, IMAGES),
    "LSTM with dropout": (lambda: Sequence(nn.LSTM(8, 8, 2, dropout=0.5, batch_first=True)), True, IMAGES),
    "GRU with dropout": (lambda: Sequence(nn.GRU(8, 8, 2, dropout=0.5, batch_first=True)), True, IMAGES),
    "attention with dropout": (
        lambda: Sequence(nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)),
        True,
        IMAGES,
    ),
    "stochastic depth": (deep, True, LARGE),
    "noise": (lambda: Noisy(lambda s, x: torch.randn_like(x)), False, IMAGES),
    "NumPy's noise": (lambda: Noisy(lambda s, x: torch.from_numpy(np.random.randn(*x.shape)).to(x)), False, IMAGES),
    "Python's noise": (lambda: Noisy(lambda s, x: random.random()), False, IMAGES),
    "noise of its own": (lambda: Noisy(lambda s, x: torch.randn(x.shape, generator=s.own)), False, IMAGES),
    "NumPy's noise of its own": (
        lambda: Noisy(lambda s, x: torch.from_numpy(s.numbers.standard_normal(x.shape)).to(x)),
        False,
        IMAGES,
    ),
    "a mask": (lambda: By(lambda s, x: plain(s, x * torch.bernoulli(torch.full_like(x, 0.9)))), False, IMAGES),
    "noise on the weights": (
        lambda: By(
            lambda s, x: s.last(F.linear(x.flatten(1), s.first.weight + 0.01 * torch.randn(16, 1), s.first.bias))
        ),
        False,
        IMAGES,
    ),
    "a noisy gradient hook": (
        lambda: hooked("register_hook", lambda g: g * (1 + 0.1 * torch.rand(len(g), 1))),
        False,
        IMAGES,
    ),
    "a noisy forward hook": (lambda: hooked("register_forward_hook", lambda m, i, o: F.dropout(o, 0.3)), False, IMAGES),
    "a noisy hook before": (
        lambda: hooked("register_forward_pre_hook", lambda m, i: (i[0] + 0.1 * torch.rand_like(i[0]),)),
        False,
        IMAGES,
    ),
    "a noisy backward hook": (
        lambda: hooked("register_full_backward_hook", lambda m, i, o: (i[0] * torch.rand_like(i[0]),)),
        False,
        IMAGES,
    ),
    "another image in train mode": (TrainsOtherwise, True, IMAGES),
    "batch statistics, a function": (
        lambda: By(lambda s, x: plain(s, F.batch_norm(x, torch.zeros(3), torch.ones(3), training=s.training))),
        True,
        IMAGES,
    ),
    "InstanceNorm with statistics": (
        lambda: nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True), Plain()),
        True,
        IMAGES,
    ),
    "BatchNorm before": (lambda: nn.Sequential(nn.BatchNorm2d(3), Plain()), False, IMAGES),
    "a normalisation of its own": (lambda: Wrapped(Plain(), lambda x: (x - mean) / std), False, IMAGES),
    "negatives": (lambda: Wrapped(Plain(), lambda x: 1 - x), False, IMAGES),
    "its own order of pixels": (lambda: Wrapped(Plain(), lambda x: x.permute(0, 2, 3, 1).flip(1)), False, IMAGES),
    "another size": (
        lambda: Wrapped(Plain(), lambda x: F.interpolate(x, 16, mode="bilinear")),
        False,
        F.interpolate(IMAGES, 14),
    ),
    "a wrapped ViT": (lambda: Wrapped(vit()), False, LARGE),
    "a ViT wrapped twice": (lambda: nn.Sequential(Wrapped(vit())), False, LARGE),
    "a ViT behind a normalisation": (lambda: Wrapped(vit(), lambda x: (x - mean) / std), False, LARGE),
    "a ViT behind a flip": (lambda: Wrapped(vit(), lambda x: x.flip(3).flip(1)), False, LARGE),
    **{
        f"nothing done at {' and '.join(places)} in eval mode{', a frozen embedding' * frozen}{', in train mode' * train}": (
            lambda places=places, frozen=frozen: between(*places, frozen=frozen),
            train,
            LARGE,
        )
        for places in (["patch_embed.norm"], ["norm_pre"], ["patch_embed.norm", "norm_pre", "pos_drop"])
        for frozen, train in ((False, False), (True, False), (True, True))
    },
    "parallel modules": (lambda: nn.DataParallel(vit()), False, LARGE),
    "weights that no layer holds": (Functional, False, IMAGES),
    "a layer without a bias": (without_bias, False, IMAGES),
    "a frozen bias": (lambda: normed(lambda layer: layer.bias.requires_grad_(False)), False, IMAGES),
    "weight norm": (lambda: normed(numbers.weight_norm), False, IMAGES),
    "spectral norm": (lambda: normed(numbers.spectral_norm), False, IMAGES),
    "branches": (Branches, False, IMAGES),
    "an LSTM that takes the image": (Recurrent, False, IMAGES),
    "an adapter": (Adapter, False, IMAGES),
    "an adapter behind a normalisation": (
        lambda: Wrapped(Adapter(), lambda x: (x.flip(2) - mean) / std),
        False,
        IMAGES,
    ),
    "weights that no layer holds, behind a flip": (lambda: Wrapped(Functional(), lambda x: x.flip(2)), False, IMAGES),
    "an LSTM behind a scale and a flip": (lambda: Wrapped(Recurrent(), lambda x: 2 * x.flip(3) - 1), False, IMAGES),
    "a coarse picture first": (Coarse, False, IMAGES),
    "a wrapper that calls by name": (lambda: Named(Wrapped(vit())), False, LARGE),
    **{
        f"{name}, behind a negative": (
            lambda a=arguments: Wrapped(Weights(*a[:-1], bias=a[-1]), lambda x: 1 - x),
            False,
            IMAGES,
        )
        for name, arguments in {
            "@": (lambda x, w, b: x.flatten(1) @ w, 768, 8, False),
            "@ and a bias": (lambda x, w, b: x.flatten(1) @ w + b, 768, 8, True),
            "a sum of products": (lambda x, w, b: (x[:, None] * w).sum((2, 3, 4)), 8, 3, 16, 16, False),
            "einsum": (lambda x, w, b: torch.einsum("bchw,chwo->bo", x, w), 3, 16, 16, 8, False),
            "baddbmm": (lambda x, w, b: torch.baddbmm(b.view(1, 1, 8), x.flatten(1)[None], w[None]), 768, 8, True),
            "a function's convolution": (lambda x, w, b: F.conv2d(x, w, b), 8, 3, 16, 16, True),
            "a function's convolution without a bias": (lambda x, w, b: F.conv2d(x, w), 8, 3, 16, 16, False),
            "flat weights": (lambda x, w, b: F.linear(x.flatten(1), w.view(8, 768)), 6144, False),
            "flat weights and a bias": (lambda x, w, b: F.linear(x.flatten(1), w.view(8, 768), b), 6144, True),
            "weights made of weights": (lambda x, w, b: F.linear(x.flatten(1), w.tanh() * 2, b), 8, 768, True),
            "a slice of weights": (lambda x, w, b: F.linear(x.flatten(1), w[:8], b), 9, 768, True),
            "a bilinear form": (lambda x, w, b: F.bilinear(x.flatten(1), torch.ones(1, 1), w), 8, 768, 1, False),
        }.items()
    },
}
FEW = (
    "dropout of the image",
    "attention with dropout",
    "noise",
    "another image in train mode",
    "a wrapped ViT",
    "weight norm",
)


def built(name: str) -> tuple[nn.Module, Tensor]:
    build, training, images = LEAKING[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = build()
    return model.train(training), images


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FEW else pytest.mark.check) for n in LEAKING])
def test_a_model_that_gives_its_image_away_is_not_all_clear(name):
    model, images = built(name)
    report = audit(model, images)
    assert report.leaks, report.why
    assert max(s.psnr for s in report.leaks) > 20 and "read 1 of 1 images" in report.text()


def test_a_coarse_picture_comes_back_as_it_entered_and_no_rounding_grows():
    model = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 5)).eval()
    (solve,) = [s for s in audit(model).solves if s.form == "first_layer" and s.how == "float32"]
    entered = F.interpolate(F.avg_pool2d(IMAGES, 8), scale_factor=8)
    assert solve.psnr == pytest.approx(privlab.metrics.psnr(entered, IMAGES).item(), abs=0.01)


def test_a_random_gradient_is_told_and_the_worse_of_both_modes_is_reported():
    model, images = built("dropout of the image")
    report = audit(model, images)
    as_given, evaluated = report.asked
    assert as_given.way.random and as_given.way.still and as_given.way.apart > 0.1
    assert not evaluated.way.random and evaluated.reported and evaluated.psnr > as_given.psnr + 50
    text = " ".join(report.text().split())
    assert "two gradients of image 0 differ by" in text and "The report is of the worse: eval mode." in text
    assert report.solves == audit(model.eval(), images).solves  # eval mode, as if it had been given


def test_a_gradient_that_cannot_be_held_still_gets_no_verdict():
    outside = torch.Generator().manual_seed(0)
    model = By(
        lambda s, x: s.last(s.first(x.flatten(1)).sin() * 0 + torch.randn(16, generator=outside) * s.last.bias.sum())
    ).eval()
    report = audit(model)
    assert not report.leaks and not report.asked[0].way.still
    text = " ".join(report.text().split())
    assert "No verdict: what was asked of this model is random" in text and "not to be held still" in text


def test_a_model_that_draws_nothing_is_said_nothing_of():
    report = audit(Plain().train())
    assert len(report.asked) == 1 and not report.asked[0].way.random and "As it was given" not in report.text()


BEFORE = {
    "nothing": lambda x: x,
    "normalised": lambda x: (x - mean) / std,
    "flipped": lambda x: x.flip(2),
    "dropped": lambda x: F.dropout(x, 0.1),
    "noise": lambda x: x + 0.02 * torch.rand_like(x),
    "NumPy": lambda x: x + float(np.random.rand()),
    "255": lambda x: x * 255,
    "mirrored negative": lambda x: 1 - x.permute(0, 1, 3, 2),
    "larger": lambda x: F.interpolate(F.interpolate(x, 32, mode="bilinear"), 16, mode="area"),
}
AFTER = {
    "nothing": lambda y: y,
    "dropped": lambda y: F.dropout(y, 0.2),
    "scaled": lambda y: y * torch.rand(()).add(0.5),
    "softmax": lambda y: y.softmax(1),
}
LAYER = {
    "linear": Plain,
    "functional": Functional,
    "branches": Branches,
    "weight norm": lambda: normed(numbers.weight_norm),
    "recurrent": Recurrent,
    "adapter": Adapter,
    "no bias": without_bias,
    "coarse": Coarse,
}


class Between(Wrapped):
    def __init__(self, model: nn.Module, before: Callable, after: Callable) -> None:
        super().__init__(model, before)
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(super().forward(x))


@pytest.mark.check
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    before=st.sampled_from(sorted(BEFORE)),
    layer=st.sampled_from(sorted(LAYER)),
    after=st.sampled_from(sorted(AFTER)),
    wraps=st.integers(0, 2),
    train=st.booleans(),
    kind=st.sampled_from([torch.int8, torch.uint8, torch.int32, torch.int64]),
    half=st.booleans(),
)
def test_combinations_of_what_a_stranger_does_are_read_or_get_no_verdict(
    before, layer, after, wraps, train, kind, half
):
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model: nn.Module = Between(LAYER[layer](), BEFORE[before], AFTER[after])
    for _ in range(wraps):
        model = nn.Sequential(model)
    report = audit(model.train(train), IMAGES.half() if half else IMAGES, torch.tensor([1]).to(kind))
    assert report.leaks
    drawing = {"dropped", "noise", "NumPy", "scaled"} & {before, after}
    assert any(each.way.random for each in report.asked) == bool(drawing)
    assert report.leaks or not drawing or "No verdict" in report.text()


# -- a defence that only PSNR believes in ----------------------------------------------------------------------------------


def test_a_picture_that_shows_holds_no_defence_though_its_psnr_is_low():
    """A picture in other colours: the eye reads it, and PSNR does not."""
    flat = torch.full_like(LARGE, 0.5)
    level = likeness.level(15.0, LARGE, [flat], flat)
    darker = likeness.likeness((LARGE * 0.4), LARGE)
    assert darker.psnr < level.psnr and darker.ssim > level.ssim + likeness.NEARER
    assert level.nearer(darker) and not level.nearer(likeness.likeness(flat, LARGE))
    solve = exposure.Solve("subspace", 0, "float32", darker.psnr, 1.0, 1, 1, "", darker.ssim, darker.lpips, True)
    assert exposure.leaking([solve], "float32", [level.psnr]) == [solve]


def test_the_line_of_defences_has_ssim_lpips_and_what_no_gradient_shows():
    report = audit(vit().eval(), LARGE)
    text = " ".join(report.text().split())
    for words in ("highest SSIM", "lowest LPIPS", "no gradient at all", "Look at the pictures"):
        assert words in text
    noisy = {d.name: d for d in report.defences if not d.withheld}
    assert noisy["bfloat16"].ssim > noisy["gaussian 1"].ssim
    if sources.complete("lpips"):
        assert noisy["bfloat16"].lpips < noisy["gaussian 1"].lpips and report.without_lpips is None


def test_without_the_weights_of_lpips_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path))
    report = audit(vit().eval(), LARGE)
    assert report.blind[0].lpips is None and "LPIPS is left out: its weights are not here" in " ".join(
        report.text().split()
    )
    assert not any(tmp_path.iterdir())  # nothing was fetched unasked


def test_without_data_and_network_the_command_says_so_in_one_line(monkeypatch, tmp_path, capsys):
    def out_of_reach(*_):
        raise ConnectionError("registry.invalid: did not answer\nnor later")

    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path))
    monkeypatch.setattr(downloads, "get", out_of_reach)
    assert cli.main(["audit", "vit_cifar", "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "could not be fetched" in told and "--images FOLDER" in told


# -- as if nobody had asked ------------------------------------------------------------------------------------------------


class Counting(Plain):
    """It counts, keeps what it saw, and moves a buffer and a parameter, in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))
        self.calls, self.cache = 0, {}

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        self.calls += 1
        self.cache[self.calls] = x
        with torch.no_grad():
            self.last.bias.mul_(1)
            self.first.bias.add_(1e-9)
        np.random.rand(), random.random(), torch.rand(1)
        return super().forward(x)


def state(model: nn.Module) -> tuple:
    values = {n: v.clone() for n, v in model.state_dict().items()}
    hooks = [(list(m._forward_hooks), list(m._forward_pre_hooks), list(m._backward_hooks)) for m in model.modules()]
    rest = [(p.requires_grad, id(p.grad)) for p in model.parameters()], [m.training for m in model.modules()]
    drawn = (
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
        np.random.get_state()[2],
        random.getstate(),
    )
    return values, hooks, rest, drawn, getattr(model, "calls", 0), len(getattr(model, "cache", ()))


def same(one: tuple, other: tuple) -> bool:
    return all(torch.equal(v, other[0][n]) for n, v in one[0].items()) and one[1:] == other[1:]


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", ["done", "exception", "Ctrl-C at first", "Ctrl-C in the search"])
@pytest.mark.parametrize("name", ["counting", "dropout of the image", "InstanceNorm with statistics", "spectral norm"])
def test_whatever_ends_an_audit_the_model_is_as_it_was(name, end, monkeypatch):
    model = Counting() if name == "counting" else built(name)[0]
    model.train(name != "counting")
    model.register_forward_hook(lambda m, i, o: None)
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    before = state(model)
    if end == "exception":
        monkeypatch.setattr("privlab.auditing.stages._parts", lambda *_: 1 / 0)
    elif end == "Ctrl-C at first":
        observe, calls = validation.observe, iter(range(9))
        monkeypatch.setattr(validation, "observe", lambda *a: observe(*a) if next(calls) < 3 else interrupted())
    elif end == "Ctrl-C in the search":
        monkeypatch.setattr(GradientMatching, "search", interrupted)
    if end == "done":
        audit(model)
    else:
        with pytest.raises(ZeroDivisionError if end == "exception" else KeyboardInterrupt):
            audit(model)
    assert same(before, state(model))
