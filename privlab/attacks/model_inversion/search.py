"""Model inversion: what the people look like that a classifier was trained to tell apart, out of the classifier alone.

An attack is put together from a prior over images (`generators`), a first choice among random latents, a loss that the target model's
answer is to lower, small changes of the picture on the way (so that it convinces from more than one view), and a last choice.
`ppa`, `gmi`, `kedmi`, `plg_mi` and `lomma` are such compositions. The attacker has the target model's weights and public images; of the
private ones they see none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.model_inversion.generators import Generator, shown
from privlab.attacks.model_inversion.losses import LOSSES, answer, feature_distance
from privlab.attacks.model_inversion.random_window import random_window
from privlab.attacks.model_inversion.results import PARTS, Result, State
from privlab.compute import store
from privlab.models import representations
from privlab.models.forward import RightGradients, preprocessing
from privlab.training import epoch_loop

Classes = Sequence[int] | Tensor

FORMAT = 1  # raise it when the same settings begin to give other images
_AT_ONCE = 256  # pictures in one pass where no gradient is taken
_USUAL = 500  # pictures that say what the target's features usually are


@dataclass(frozen=True)
class ModelInversion:
    """An attack, as a composition; `ppa` is one.

    pool: random latents among which the first choice is made.  candidates: latents that are searched from for each class.
    kept: how many of them the last choice keeps.
    at_once: pictures in one pass; a class's candidates stay together as long as they are not more. It changes memory and not the result.
    loss: a name in LOSSES.  steps, lr, betas: Adam's.  drops: the rate falls to a tenth after these shares of the steps.
    share: of a picture that each step looks at, see `random_window`.
    views, view_share: how many views of each candidate the last choice takes the mean over; 0 takes the picture as it is.
    realism: weight of -log D, D being how real the generator's own discriminator finds the picture.
    fitted: search for a Gaussian around each candidate, its mean and its log-variance, from a fresh draw each step; a picture is one draw.
    anchor: weight of `losses.feature_distance`, against a fresh draw each step from the Gaussian of the features of 500 pictures of the
        generator, which stand for the public ones.
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
    realism: float = 0.0
    fitted: bool = False
    anchor: float = 0.0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is not known; there are {', '.join(map(repr, LOSSES))}")
        if not 1 <= self.kept <= self.candidates <= self.pool:
            raise ValueError(
                f"kept={self.kept}, candidates={self.candidates}, pool={self.pool}: the candidates come from the pool, and some are kept"
            )
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} is out of range; give 1 or more")

    @torch.enable_grad()
    def search(
        self, model: nn.Module, generator: Generator, targets: Classes, seed: int = 0, beside: Sequence[nn.Module] = ()
    ) -> Iterator[State]:
        """Step by step: the latents of all candidates of all targets, (targets x candidates, width), class after class.

        Each class is searched for as if it were alone: draws depend on the seed and the step and not on the other classes.
        """
        classes = _checked(model, generator, targets, beside)
        w = self.select(model, generator, classes, seed).requires_grad_()
        labels = classes.repeat_interleave(self.candidates).to(w.device)
        stats = self.feature_stats(model, generator, seed) if self.anchor else None
        # Log-variances, at first as large as those of the generator's own latents.
        spread = torch.zeros_like(w, requires_grad=True) if self.fitted else None
        optimiser = torch.optim.Adam([w] if spread is None else [w, spread], self.lr, self.betas)
        rate = torch.optim.lr_scheduler.MultiStepLR(optimiser, [round(self.steps * part) for part in self.drops])
        draw, own = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 2)
        whole = max(self.at_once // self.candidates * self.candidates, min(self.at_once, self.candidates))
        for step in range(self.steps):
            losses, gradients = [], []
            rng_state = draw.get_state()
            z = self.sample(w, spread, own)
            prior_features = None if stats is None else stats[0] + stats[1] * _noise(stats[0].shape, own, w)
            for part, names in zip(z.detach().split(whole), labels.split(whole), strict=True):
                draw.set_state(rng_state)  # all candidates are looked at through the same view
                part.requires_grad_()
                with RightGradients():
                    images = shown(generator, part, names)
                    view = random_window(images, self.share, draw)
                    loss = self.objective(model, beside, view, names, prior_features)  # (part,)
                    if self.realism:
                        loss = loss + self.realism * F.softplus(-generator.realism(images))  # type: ignore[attr-defined]
                gradients.append(torch.autograd.grad(loss.sum(), part)[0])
                losses.append(loss.detach())
            if step == 0:
                yield _state(0, w, losses, spread)
            optimiser.zero_grad()
            z.backward(torch.cat(gradients))
            optimiser.step()
            rate.step()
            yield _state(step + 1, w, losses, spread)

    def run(
        self, model: nn.Module, generator: Generator, targets: Classes, seed: int = 0, beside: Sequence[nn.Module] = ()
    ) -> Result:
        """The whole attack on these classes; see `search`.

        model: the target, in eval mode from here on; its weights are not touched.  generator: see `generators`.
        beside: models that have learnt the target's answers, see `distillation`; the loss is the mean over the target and them.
        Raises ValueError for a class that the model does not have, and for a generator whose images do not fit it.
        """
        trace = []
        for state in self.search(model, generator, targets, seed, beside):
            if state.step == 0:
                began = state.latents
            trace.append(state.loss.mean().item())
        labels = torch.as_tensor(targets).long().repeat_interleave(self.candidates).to(began.device)
        with torch.no_grad():
            latents = self.sample(state.latents, state.spread, torch.Generator().manual_seed(seed + 3))
            images = _pictures(generator, latents, labels)
            score = self.view_confidence(model, images, labels, seed)
            places = score.view(-1, self.candidates).topk(self.kept, dim=1).indices  # (targets, kept)
            best = (places + torch.arange(len(places), device=places.device)[:, None] * self.candidates).flatten()
            likelihood = _likelihood(model, images[best], labels[best])
            first = _pictures(generator, began[best], labels[best])
        rows = (images[best], labels[best], latents[best], likelihood, score[best], first)
        whole: dict[str, Any] = {name: part.cpu() for name, part in zip(PARTS, rows, strict=True)}
        return Result(**whole, trace=trace)

    def run_once(
        self, model: nn.Module, generator: Generator, targets: Classes, seed: int = 0, beside: Sequence[nn.Module] = ()
    ) -> Result:
        """As `run`, once: the result is kept in the store under the contents of all that it depends on, and read from there afterwards."""
        settings = {
            "model": epoch_loop.fingerprint(model),
            "generator": epoch_loop.fingerprint(generator),
            "beside": [epoch_loop.fingerprint(each) for each in beside],
            "targets": list(map(int, targets)),
            "attack": self.settings(),
            "seed": seed,
        }
        device = next(model.parameters()).device
        run = store.keyed("model_inversion", settings, format=FORMAT, device=device)
        if not run.complete:
            found = self.run(model, generator, targets, seed, beside)
            run.save("found", {name: getattr(found, name) for name in PARTS})
            run.note("trace", found.trace)
            run.finish()
        return Result(**run.load("found"), trace=run.read("trace"))

    @torch.no_grad()
    def select(self, model: nn.Module, generator: Generator, targets: Tensor, seed: int) -> Tensor:
        """The first choice: of `pool` random latents those that the model takes for each class, by the mean over picture and mirror image.

        Returns (targets x candidates, width), class after class, the best first.
        """
        pool = generator.map(generator.sample(self.pool, seed))
        targets = targets.to(pool.device)

        def probabilities(shown_as: Tensor) -> Tensor:
            rows = []
            for w in pool.split(_AT_ONCE):
                images = shown(generator, w, shown_as.expand(len(w)))
                rows.append((_softmax(model, images) + _softmax(model, images.flip(-1))) / 2)
            return torch.cat(rows)  # (pool, classes)

        if getattr(generator, "conditional", False):  # shows each latent under each class
            likely = torch.stack([probabilities(target)[:, target] for target in targets], dim=1)
        else:
            likely = probabilities(targets[0])[:, targets]
        best = likely.topk(self.candidates, dim=0).indices  # (candidates, targets)
        return pool[best.T.flatten()].clone()

    def objective(
        self,
        model: nn.Module,
        beside: Sequence[nn.Module],
        view: Tensor,
        targets: Tensor,
        prior_features: Tensor | None,
    ) -> Tensor:
        """The loss of a view, the mean over the target and the models beside it, (n,); and how far the target's features stray.

        prior_features: the features (width,) that they are held against; None where they are free.
        """
        if prior_features is None:
            own, away = model(preprocessing(model)(view)), None
        else:
            own, features = answer(model, view)
            away = self.anchor * feature_distance(features, prior_features)
        logits = [own, *(each(preprocessing(each)(view)) for each in beside)]
        loss: Tensor = torch.stack([LOSSES[self.loss](each, targets) for each in logits]).mean(0)
        return loss if away is None else loss + away

    def sample(self, mean: Tensor, spread: Tensor | None, draw: torch.Generator) -> Tensor:
        """Latents from Gaussians of these means and log-variances, (n, width) both, the same noise for each class; the means without."""
        if spread is None:
            return mean
        noise = _noise((self.candidates, mean.shape[1]), draw, mean)
        return mean + (spread / 2).exp() * noise.repeat(len(mean) // self.candidates, 1)

    @torch.no_grad()
    def feature_stats(self, model: nn.Module, generator: Generator, seed: int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (width,) of the target's features over pictures of the generator, of all classes in turn."""
        pool = generator.map(generator.sample(_USUAL, seed + 4))
        labels = torch.arange(len(pool), device=pool.device) % getattr(generator, "classes", 1)
        features = representations.read(model, _pictures(generator, pool, labels))[representations.LAST]
        return features.mean(0).to(pool), features.std(0).to(pool)

    @torch.no_grad()
    def view_confidence(self, model: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
        """Mean probability of the target over `views` of each picture, the same views for all of them: (n,)."""
        if self.views == 0:
            return _likelihood(model, images, labels)
        draw = torch.Generator().manual_seed(seed + 1)
        total = torch.zeros(len(images), device=images.device)
        for _ in range(self.views):
            total += _likelihood(model, random_window(images, self.view_share, draw, (0.8, 1.2), mirror=True), labels)
        return total / self.views

    def but(self, **changes: Any) -> ModelInversion:
        """The same attack with some settings changed."""
        return replace(self, **changes)

    def settings(self) -> dict[str, Any]:
        """The fields, as plain JSON.  `ModelInversion(**settings)` undoes it."""
        return asdict(self)


def _checked(model: nn.Module, generator: Generator, targets: Classes, beside: Sequence[nn.Module]) -> Tensor:
    """The targets as a tensor, if the models, which are in eval mode from here on, and the generator fit together."""
    labels = torch.as_tensor(targets)
    if labels.ndim != 1 or len(labels) == 0 or labels.is_floating_point() or len(labels.unique()) < len(labels):
        raise ValueError(f"targets={targets!r}: give one or more different classes, as whole numbers")
    w = generator.map(generator.sample(1, 0))
    with torch.no_grad():
        image = shown(generator, w, torch.zeros(1, dtype=torch.long, device=w.device))  # (1, *shape)
        try:
            answers = [_softmax(each.eval(), image) for each in (model, *beside)]  # (1, classes) each
        except (RuntimeError, ValueError, AssertionError) as error:
            raise ValueError(
                f"generator: its images are {tuple(generator.shape)}, which this {type(model).__name__} does not take ({error}); "
                "the two have to agree in size, in channels, in float type and in their device"
            ) from None
    trained_on = tuple(getattr(model, "image_shape", None) or generator.shape)
    if trained_on != tuple(generator.shape):
        raise ValueError(
            f"generator: its images are {tuple(generator.shape)}, and the target was trained on {trained_on}; fit one for that size"
        )
    classes = answers[0].shape[1]
    if not answers[0].isfinite().all() or {each.shape[1] for each in answers} | {
        getattr(generator, "classes", classes)
    } != {classes}:
        raise ValueError(
            f"model: its {classes} classes are to be finite, and those of the generator and of the models beside it"
        )
    if (out := labels[(labels < 0) | (labels >= classes)]).numel():
        raise ValueError(f"targets: class {int(out[0])} is none of the target's; it has 0 to {classes - 1}")
    return labels.long()


def _noise(shape: Sequence[int], draw: torch.Generator, like: Tensor) -> Tensor:
    """Standard normal numbers, drawn on the CPU so that devices agree."""
    return torch.randn(tuple(shape), generator=draw).to(like)


def _state(step: int, w: Tensor, losses: list[Tensor], spread: Tensor | None) -> State:
    return State(step, w.detach().clone(), torch.cat(losses), None if spread is None else spread.detach().clone())


def _softmax(model: nn.Module, images: Tensor) -> Tensor:
    return model(preprocessing(model)(images)).softmax(1)


def _likelihood(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The model's probability for each picture's target, (n,)."""
    parts = zip(images.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True)
    return torch.cat([_softmax(model, some)[torch.arange(len(some)), classes] for some, classes in parts])


def _pictures(generator: Generator, latents: Tensor, labels: Tensor) -> Tensor:
    """As a file would hold them: a generator whose pixels leave [0, 1], as StyleGAN2's may in the search, is cut off here."""
    parts = zip(latents.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True)
    return torch.cat([shown(generator, w, names) for w, names in parts]).clamp(0, 1)
