"""Model inversion: what the people look like that a classifier was trained to tell apart, out of the classifier alone.

An attack is put together from a prior over images (`generators`), a first choice among random latents, a loss of the target's answer, one
view of the picture a step, and a last choice; `presets` has the papers'. The attacker has the target's weights and public images alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.model_inversion.generators import Generator
from privlab.attacks.model_inversion.losses import LOSSES, random_window
from privlab.compute import store
from privlab.models import representations
from privlab.models.forward import RightGradients, preprocessing
from privlab.training import epoch_loop

Classes = Sequence[int] | Tensor
Models = Sequence[nn.Module]
FORMAT = 1  # raise it when the same settings begin to give other images


@dataclass(frozen=True)
class Result:
    """What an attack brings back, `kept` pictures for each target class, the best first."""

    images: Tensor  # (n, channels, height, width) in [0, 1]
    targets: Tensor  # (n,), the class each was made for
    latents: Tensor  # (n, width)
    likelihood: Tensor  # (n,), the target model's probability for the target, of the picture as it is
    score: Tensor  # (n,), the mean of it over the views of the last choice
    first: Tensor  # (n, ...), the pictures that the search began with

    def __repr__(self) -> str:
        people, n = len(self.targets.unique()), len(self.targets)
        return f"Found {n} pictures of {people} classes; the target model gives them {self.likelihood.mean():.3f}"

    def best(self, n: int) -> "Result":
        """The n pictures of each class that the last choice puts first: what an attacker would show."""
        rows = torch.cat([(self.targets == target).nonzero()[:n, 0] for target in self.targets.unique()])
        return Result(**{name: part[rows] for name, part in vars(self).items()})

    def places(self, n: int) -> Tensor:
        """Where the best picture of each of the first n target classes stands, (n,)."""
        return torch.stack([(self.targets == target).nonzero()[0, 0] for target in self.targets.unique()[:n]])


def joined(parts: Sequence[Result]) -> Result:
    """What several attacks on the same model found, for other targets each, as one."""
    return Result(**{name: torch.cat([vars(part)[name] for part in parts]) for name in vars(parts[0])})


@dataclass(frozen=True)
class ModelInversion:
    """An attack, as a composition; `presets.ppa` is one.

    pool: random latents among which the first choice is made.  candidates: latents that are searched from for each class.
    kept: how many of them the last choice keeps.
    at_once: pictures in one pass; it changes memory and not the result.
    loss: a name in LOSSES.  steps, lr, betas: Adam's.  drops: the rate falls to a tenth after these shares of the steps.
    share: of a picture that each step looks at, see `losses.random_window`.
    views, view_share: how many views of each candidate the last choice takes the mean over; 0 takes the picture as it is.
    realism: weight of -log D, D being how real the generator's own discriminator finds the picture.
    fitted: search for a Gaussian around each candidate, its mean and its log-variance, from a fresh draw each step; a picture is one draw.
    anchor: weight of LOMMA's regulariser: the mean squared distance of the target's features, over the width as in the authors' code, from
        a fresh draw each step of the Gaussian of those of 500 pictures of the generator, which stand for the public ones.
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
            sizes = f"kept={self.kept}, candidates={self.candidates}, pool={self.pool}"
            raise ValueError(f"{sizes}: give 1 or more, each at most the next")

    def run(
        self, model: nn.Module, generator: Generator, targets: Classes, seed: int = 0, ensemble: Models = ()
    ) -> Result:
        """The attack on these classes. Each is searched for as if it were alone: draws depend on the seed and the step alone.

        model: the target, in eval mode from here on; its weights are not touched.  generator: see `generators`.
        ensemble: models in eval mode that have learnt the target's answers, see `gans.distil`; the loss is the mean over all.
        Raises ValueError for a class that the model does not have, and for a generator whose images do not fit it.
        """
        classes = _checked(model, generator, targets)
        began = self.select(model, generator, classes, seed)
        labels = classes.repeat_interleave(self.candidates).to(began.device)
        latents = self._descend((model, *ensemble), generator, began, labels, seed)
        with torch.no_grad():
            images = _pictures(generator, latents, labels)
            score = self._view_confidence(model, images, labels, seed)
            places = score.view(-1, self.candidates).topk(self.kept, dim=1).indices  # (targets, kept)
            best = (places + torch.arange(len(places), device=places.device)[:, None] * self.candidates).flatten()
            likelihood = _likelihood(model, images[best], labels[best])
            first = _pictures(generator, began[best], labels[best])
        found = (images[best], labels[best], latents[best], likelihood, score[best], first)
        return Result(*(part.cpu() for part in found))

    def run_once(
        self, model: nn.Module, generator: Generator, targets: Classes, seed: int = 0, ensemble: Models = ()
    ) -> Result:
        """As `run`, once: the result is kept in the store under the contents of all that it depends on, and read from there afterwards."""
        settings = {
            "model": epoch_loop.fingerprint(model), "beside": [epoch_loop.fingerprint(each) for each in ensemble], "attack": vars(self),
            "generator": epoch_loop.fingerprint(generator), "targets": list(map(int, targets)), "seed": seed,
            **store.environment(FORMAT, next(model.parameters()).device),
        }  # fmt: skip
        run = store.Run("model_inversion", settings)
        if not run.complete:
            run.save("found", vars(self.run(model, generator, targets, seed, ensemble)))
            run.finish()
        return Result(**run.load("found"))

    @torch.no_grad()
    def select(self, model: nn.Module, generator: Generator, targets: Tensor, seed: int) -> Tensor:
        """The first choice, (targets x candidates, width): of `pool` random latents, by the mean over picture and mirror image."""

        def probabilities(w: Tensor, names: Tensor) -> Tensor:
            images = generator.draw(w, names)
            return (_softmax(model, images) + _softmax(model, images.flip(-1))) / 2

        pool = generator.map(generator.sample(self.pool, seed))
        names = targets.to(pool.device)[:, None].expand(-1, len(pool))  # (targets, pool)
        if generator.classes:  # shows each latent under each class
            likely = torch.stack([_chunked(probabilities, pool, as_one)[:, as_one[0]] for as_one in names], dim=1)
        else:
            likely = _chunked(probabilities, pool, names[0])[:, targets]
        best = likely.topk(self.candidates, dim=0).indices  # (candidates, targets)
        return pool[best.T.flatten()].clone()

    @torch.enable_grad()
    def _descend(self, models: Models, generator: Generator, began: Tensor, labels: Tensor, seed: int) -> Tensor:
        """The latents (n, width) that the search ends with; where Gaussians are fitted, a draw from each."""
        w = began.clone().requires_grad_()
        spread = torch.zeros_like(w, requires_grad=self.fitted)  # log-variances, at first as of the generator's latents
        optimiser = torch.optim.Adam([w, spread] if self.fitted else [w], self.lr, self.betas)
        rate = torch.optim.lr_scheduler.MultiStepLR(optimiser, [round(self.steps * part) for part in self.drops])
        views, draws, last = (torch.Generator().manual_seed(seed + more) for more in (0, 2, 3))
        prior = self._feature_stats(models[0], generator, seed) if self.anchor else None
        whole = max(self.at_once // self.candidates * self.candidates, min(self.at_once, self.candidates))
        for _ in range(self.steps):
            view = views.get_state()
            z = self.sample(w, spread, draws)
            point = None if prior is None else prior[0] + prior[1] * torch.randn(len(prior[0]), generator=draws).to(w)
            gradients = []
            for part, names in zip(z.detach().split(whole), labels.split(whole), strict=True):
                views.set_state(view)  # all candidates are looked at through the same view
                part.requires_grad_()
                with RightGradients():
                    images = generator.draw(part, names)
                    loss = self.objective(models, random_window(images, self.share, views), names, point)
                    if self.realism:
                        loss = loss + self.realism * F.softplus(-generator.realism(images))
                gradients.append(torch.autograd.grad(loss.sum(), part)[0])
            optimiser.zero_grad()
            z.backward(torch.cat(gradients))
            optimiser.step()
            rate.step()
        return self.sample(w, spread, last).detach()

    def sample(self, mean: Tensor, spread: Tensor, draw: torch.Generator) -> Tensor:
        """Latents from Gaussians of these means and log-variances, (n, width) both, the same noise for each class; else the means."""
        if not self.fitted:
            return mean
        noise = torch.randn(self.candidates, mean.shape[1], generator=draw).to(mean)  # from the CPU, so devices agree
        return mean + (spread / 2).exp() * noise.repeat(len(mean) // self.candidates, 1)

    def objective(self, models: Models, images: Tensor, targets: Tensor, point: Tensor | None) -> Tensor:
        """The mean loss over the target, which stands first, and those beside it, (n,).  point: features to hold on to, see `anchor`."""
        features: list[Tensor] = []
        head = models[0] if point is None else models[0].get_submodule(representations.last_linear(models[0]))
        with head.register_forward_pre_hook(lambda _, inputs: features.append(inputs[0])):
            logits = [each(preprocessing(each)(images)) for each in models]
        loss = torch.stack([LOSSES[self.loss](each, targets) for each in logits]).mean(0)
        return loss if point is None else loss + self.anchor * (features[0] - point).square().mean(1)

    @torch.no_grad()
    def _feature_stats(self, model: nn.Module, generator: Generator, seed: int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (width,) of the target's features over 500 pictures of the generator, of all classes in turn."""
        pool = generator.map(generator.sample(500, seed + 4))
        labels = torch.arange(len(pool), device=pool.device) % max(generator.classes, 1)
        features = representations.read(model, _pictures(generator, pool, labels))[representations.LAST]
        return features.mean(0).to(pool), features.std(0).to(pool)

    def _view_confidence(self, model: nn.Module, images: Tensor, labels: Tensor, seed: int) -> Tensor:
        """Mean probability of the target over `views` of each picture, the same views for all of them: (n,)."""
        draw, total = torch.Generator().manual_seed(seed + 1), torch.zeros(len(images), device=images.device)
        for _ in range(self.views):
            total += _likelihood(model, random_window(images, self.view_share, draw, (0.8, 1.2), mirror=True), labels)
        return total / self.views if self.views else _likelihood(model, images, labels)


def _checked(model: nn.Module, generator: Generator, targets: Classes) -> Tensor:
    """The targets as a tensor, if they and the generator's images fit the model, which is in eval mode from here on."""
    shape, latent = tuple(generator.shape), generator.map(generator.sample(1, 0))
    if shape != (trained_on := tuple(getattr(model, "image_shape", shape))):
        raise ValueError(f"generator: its images are {shape}, and the target was trained on {trained_on}")
    image = generator.draw(latent, torch.zeros(1, dtype=torch.long, device=latent.device)).detach()
    try:
        classes = _softmax(model.eval(), image).shape[1]
    except (RuntimeError, ValueError, AssertionError) as error:
        raise ValueError(f"generator: its images are {shape}, which this model does not take ({error})") from None
    labels = torch.as_tensor(targets).long()
    if not len(labels) or len(labels.unique()) < len(labels) or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"targets={targets!r}: give one or more different classes of the target's, 0 to {classes - 1}")
    return labels


def _softmax(model: nn.Module, images: Tensor) -> Tensor:
    return model(preprocessing(model)(images)).softmax(1)


def _chunked(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """What a function without gradients makes of these rows, 256 in one pass."""
    return torch.cat([function(*some) for some in zip(*(each.split(256) for each in rows), strict=True)])


def _likelihood(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The model's probability for each picture's target, (n,)."""
    return _chunked(lambda x, y: _softmax(model, x)[torch.arange(len(x)), y], images, labels)


def _pictures(generator: Generator, latents: Tensor, labels: Tensor) -> Tensor:
    """As a file would hold them: a generator whose pixels leave [0, 1], as StyleGAN2's may in the search, is cut off here."""
    return _chunked(generator.draw, latents, labels).clamp(0, 1)
