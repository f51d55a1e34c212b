"""Model inversion: what the people look like that a classifier was trained to tell apart, out of the classifier alone.

An attack is put together from a prior over images (`generators`), a first choice among random latents, a loss that the target model's
answer is to lower, small changes of the picture on the way (so that it convinces from more than one view), and a last choice.
`ppa` is such a composition. The attacker has the target model's weights and public images; of the private ones he sees none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.generators import Generator
from privlab.leak import preprocessing

FORMAT = 1  # raise it when the same settings begin to give other images
PARTS = ("images", "targets", "latents", "likelihood", "score", "first")  # of what was found, a row a picture each
_AT_ONCE = 256  # pictures in one pass where no gradient is taken


# -- losses: (n, classes) logits and (n,) targets give (n,) numbers to lower -------------------------------------------


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The negative log-likelihood of the target class (Koh et al. 2024, eq. 1; GMI, Zhang et al. 2020)."""
    return F.cross_entropy(logits, targets, reduction="none")


def poincare(logits: Tensor, targets: Tensor) -> Tensor:
    """The Poincaré distance between the logits, scaled to a sum of absolutes of 1, and the one-hot target (Struppek et al. 2022, PPA).

    Its gradient does not fade as the target becomes certain, as that of the cross-entropy does. Both points have to lie inside the
    unit ball: the target's 1 is drawn in by 1e-4, as the authors have it. Ours alone are the guards against a point on the rim (all
    logits but one are 0: infinite) and against logits that are all 0 (not a number). Computed in float64.
    """
    z = logits.double()
    u = z / z.abs().sum(1, keepdim=True).clamp_min(1e-12)
    v = (F.one_hot(targets, z.shape[1]).double() - 1e-4).clamp(0, 1)
    inside = [(1 - x.square().sum(1)).clamp_min(1e-6) for x in (u, v)]
    return torch.arccosh(1 + 2 * (u - v).square().sum(1) / (inside[0] * inside[1])).to(logits.dtype)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"poincare": poincare, "cross_entropy": cross_entropy}


# -- views: a square of the picture, at its own size again -------------------------------------------------------------


def view(
    images: Tensor,
    share: tuple[float, float],
    draw: torch.Generator,
    ratio: tuple[float, float] = (1.0, 1.0),
    mirror: bool = False,
) -> Tensor:
    """One random window of these images, the same of each, enlarged to their size: what a shaky camera does.

    images: (n, channels, height, width).  share: of the area, drawn evenly from this range; (1, 1) leaves them as they are.
    ratio: of the window's width to its height, against the image's own.  mirror: flip every other view.
    """
    area, shape, down, right, flip = torch.rand(5, generator=draw).tolist()
    size, stretch = (low + (high - low) * x for (low, high), x in ((share, area), (ratio, shape)))
    height, width = images.shape[-2:]
    h = min(max(round(height * (size / stretch) ** 0.5), 1), height)
    w = min(max(round(width * (size * stretch) ** 0.5), 1), width)
    if (h, w) != (height, width):
        top, left = round(down * (height - h)), round(right * (width - w))
        some = images[..., top : top + h, left : left + w]
        images = F.interpolate(some, (height, width), mode="bilinear", align_corners=False, antialias=True)
    return images.flip(-1) if mirror and flip < 0.5 else images


# -- the attack --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A moment of the search: the step just done (0 for the first choice), latents (n, width), the loss of each (n,)."""

    step: int
    latents: Tensor = field(repr=False)
    loss: Tensor = field(repr=False)


@dataclass(frozen=True)
class Found:
    """What an attack brings back, `kept` pictures for each target class, the best first.

    images: (n, channels, height, width) in [0, 1].  targets: (n,), the class each was made for.  latents: (n, width).
    likelihood: (n,) the target model's probability for the target, of the picture as it is.
    score: (n,) the mean of it over the views of the last choice.  first: (n, ...) the pictures that the search began with.
    trace: the mean loss that each step saw; the first stands there twice, for the first choice and the first step.
    """

    images: Tensor = field(repr=False)
    targets: Tensor = field(repr=False)
    latents: Tensor = field(repr=False)
    likelihood: Tensor = field(repr=False)
    score: Tensor = field(repr=False)
    first: Tensor = field(repr=False)
    trace: list[float] = field(repr=False)

    def __repr__(self) -> str:
        people, n = len(self.targets.unique()), len(self.targets)
        return f"Found {n} pictures of {people} classes; the target model gives them {self.likelihood.mean():.3f}"

    def best(self, n: int) -> Found:
        """The n pictures of each class that the last choice puts first: what an attacker would show."""
        each = [(self.targets == target).nonzero()[:n, 0] for target in self.targets.unique()]
        rows = torch.cat(each)
        some: dict[str, Any] = {name: getattr(self, name)[rows] for name in PARTS}
        return Found(**some, trace=self.trace)

    def places(self, n: int) -> Tensor:
        """Where the best picture of each of the first n target classes stands, (n,)."""
        return torch.stack([(self.targets == target).nonzero()[0, 0] for target in self.targets.unique()[:n]])


def joined(parts: Sequence[Found]) -> Found:
    """What several attacks on the same model found, for other targets each, as one; the trace is the mean of theirs."""
    traces = torch.tensor([part.trace for part in parts]).mean(0).tolist()
    whole: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in PARTS}
    return Found(**whole, trace=traces)


@dataclass(frozen=True)
class ModelInversion:
    """An attack, as a composition; `ppa` is one.

    pool: random latents among which the first choice is made.  candidates: latents that are searched from for each class.
    kept: how many of them the last choice keeps.
    at_once: pictures in one pass; a class's candidates stay together as long as they are not more. It changes memory and not the result.
    loss: a name in LOSSES.  steps, lr, betas: Adam's.  drops: the rate falls to a tenth after these shares of the steps.
    share: of a picture that each step looks at, see `view`.
    views, view_share: how many views of each candidate the last choice takes the mean over; 0 takes the picture as it is.
    """

    loss: str = "poincare"
    pool: int = 2000
    candidates: int = 8
    kept: int = 4
    steps: int = 50
    lr: float = 0.005
    betas: tuple[float, float] = (0.1, 0.1)
    drops: tuple[float, ...] = (0.6, 0.8)
    share: tuple[float, float] = (0.9, 1.0)
    views: int = 100
    view_share: tuple[float, float] = (0.5, 0.9)
    at_once: int = 256

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is not known; there are {', '.join(map(repr, LOSSES))}")
        if not 1 <= self.kept <= self.candidates <= self.pool:
            raise ValueError(
                f"kept={self.kept}, candidates={self.candidates}, pool={self.pool}: the candidates come from the pool, and some are kept"
            )
        if self.at_once < 1 or self.steps < 1:
            raise ValueError(f"at_once={self.at_once}, steps={self.steps}: give 1 or more of each")
        if self.views < 0:
            raise ValueError(f"views={self.views} is out of range; give 1 or more, or 0 for the picture as it is")
        for name in ("share", "view_share"):
            low, high = getattr(self, name)
            if not 0 < low <= high <= 1:
                raise ValueError(f"{name}={(low, high)} are no shares of a picture; try (0.9, 1.0)")

    def search(
        self, model: nn.Module, generator: Generator, targets: Sequence[int] | Tensor, seed: int = 0
    ) -> Iterator[State]:
        """Step by step: the latents of all candidates of all targets, (targets x candidates, width), class after class.

        Each class is searched for as if it were alone: draws depend on the seed and the step and not on the other classes.
        """
        wanted = _checked(model, generator, targets)
        w = self.select(model, generator, wanted, seed)
        labels = wanted.repeat_interleave(self.candidates).to(w.device)
        score, normalise = LOSSES[self.loss], preprocessing(model)
        optimiser = torch.optim.Adam([w], self.lr, self.betas)
        drops = [round(self.steps * part) for part in self.drops]
        rate = torch.optim.lr_scheduler.MultiStepLR(optimiser, drops)
        draw = torch.Generator().manual_seed(seed)
        whole = max(self.at_once // self.candidates * self.candidates, min(self.at_once, self.candidates))
        for step in range(self.steps):
            losses, gradients = [], []
            seen = draw.get_state()
            for part, names in zip(w.split(whole), labels.split(whole), strict=True):
                draw.set_state(seen)  # all candidates are looked at through the same view
                part = part.detach().requires_grad_()
                loss = score(model(normalise(view(generator.synthesise(part), self.share, draw))), names)  # (part,)
                gradients.append(torch.autograd.grad(loss.sum(), part)[0])
                losses.append(loss.detach())
            if step == 0:
                yield State(0, w.clone(), torch.cat(losses))
            w.grad = torch.cat(gradients)
            optimiser.step()
            rate.step()
            yield State(step + 1, w.clone(), torch.cat(losses))

    def run(self, model: nn.Module, generator: Generator, targets: Sequence[int] | Tensor, seed: int = 0) -> Found:
        """The whole attack on these classes; see `search`.

        model: the target, in eval mode from here on; its weights are not touched.  generator: see `generators`.
        Raises ValueError for a class that the model does not have, or a generator whose images do not fit it.
        """
        trace = []
        for state in self.search(model, generator, targets, seed):
            if state.step == 0:
                began = state.latents
            trace.append(state.loss.mean().item())
        labels = torch.as_tensor(targets).long().repeat_interleave(self.candidates).to(began.device)
        with torch.no_grad():
            images = _pictures(generator, state.latents)
            score = self.convincing(model, images, labels, seed)
            best = self.choose(score)  # (n,) places
            likelihood = _likelihood(model, images[best], labels[best])
            first = _pictures(generator, began[best])
        rows = (images[best], labels[best], state.latents[best], likelihood, score[best], first)
        return Found(*(part.cpu() for part in rows), trace)

    @torch.no_grad()
    def select(self, model: nn.Module, generator: Generator, targets: Tensor, seed: int) -> Tensor:
        """The first choice: of `pool` random latents those that the model takes for each class, by the mean over picture and mirror image.

        Returns (targets x candidates, width), class after class, the best first.
        """
        pool = generator.map(generator.sample(self.pool, seed))
        said = []
        for w in pool.split(_AT_ONCE):
            images = generator.synthesise(w)
            said.append((_softmax(model, images) + _softmax(model, images.flip(-1))) / 2)
        best = torch.cat(said)[:, targets.to(pool.device)].topk(self.candidates, dim=0).indices  # (candidates, targets)
        return pool[best.T.flatten()].clone()

    def choose(self, score: Tensor) -> Tensor:
        """The last choice: of each class's candidates the `kept` with the highest score; their places (targets x kept,)."""
        best = score.view(-1, self.candidates).topk(self.kept, dim=1).indices  # (targets, kept)
        return (best + torch.arange(len(best), device=best.device)[:, None] * self.candidates).flatten()

    @torch.no_grad()
    def convincing(self, model: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
        """Mean probability of the target over `views` of each picture, the same views for all of them: (n,)."""
        if self.views == 0:
            return _likelihood(model, images, labels)
        draw = torch.Generator().manual_seed(seed + 1)
        total = torch.zeros(len(images), device=images.device)
        for _ in range(self.views):
            total += _likelihood(model, view(images, self.view_share, draw, (0.8, 1.2), mirror=True), labels)
        return total / self.views

    def but(self, **changes: Any) -> ModelInversion:
        """The same attack with some settings changed."""
        return replace(self, **changes)


def ppa(**changes: Any) -> ModelInversion:
    """Plug & Play Attacks (Struppek et al. 2022), the attack of most of Koh et al. 2024: Poincaré loss, Adam .005 with betas (.1, .1),
    50 steps with drops at 30 and 40, one crop of 90 to 100% of the area a step, the last choice over 100 crops of 50 to 90%.

    Their step length belongs to StyleGAN's w; latents of eigenfaces or of a DCGAN are standard normal and need a longer one (`lr`).
    They search from 200 latents and keep 50; the numbers here are smaller (`candidates`, `kept`).
    """
    return ModelInversion(**changes)


def _checked(model: nn.Module, generator: Generator, targets: Sequence[int] | Tensor) -> Tensor:
    """The targets as a tensor, if model and generator fit together."""
    wanted = torch.as_tensor(targets)
    if wanted.ndim != 1 or len(wanted) == 0 or wanted.is_floating_point() or len(wanted.unique()) < len(wanted):
        raise ValueError(f"targets={targets!r}: give one or more different classes, as whole numbers")
    model.eval()
    with torch.no_grad():
        image = generator.synthesise(generator.map(generator.sample(1, 0)))
        try:
            logits = model(preprocessing(model)(image))
        except (RuntimeError, ValueError, AssertionError) as error:
            raise ValueError(
                f"generator: its images are {tuple(generator.shape)}, which this {type(model).__name__} does not take ({error}); "
                "give a generator of the target's own input size"
            ) from None
    known = getattr(model, "image_shape", None)
    if known and tuple(known) != tuple(generator.shape):
        raise ValueError(
            f"generator: its images are {tuple(generator.shape)}, and the target was trained on {tuple(known)}; fit one for that size"
        )
    if (out := wanted[(wanted < 0) | (wanted >= logits.shape[1])]).numel():
        raise ValueError(f"targets: class {int(out[0])} is none of the target's; it has 0 to {logits.shape[1] - 1}")
    return wanted.long()


def _softmax(model: nn.Module, images: Tensor) -> Tensor:
    return model(preprocessing(model)(images)).softmax(1)


def _likelihood(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The model's probability for each picture's target, (n,)."""
    parts = zip(images.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True)
    return torch.cat([_softmax(model, some)[torch.arange(len(some)), wanted] for some, wanted in parts])


def _pictures(generator: Generator, latents: Tensor) -> Tensor:
    """As a file would hold them: a generator whose pixels leave [0, 1], as StyleGAN2's may in the search, is cut off here."""
    return torch.cat([generator.synthesise(w) for w in latents.split(_AT_ONCE)]).clamp(0, 1)
