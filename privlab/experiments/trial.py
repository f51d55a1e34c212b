"""One repeat of a gradient inversion: photographs under attack, fresh networks, searches that are done once, scores and strips."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion.results import Result, kept_run
from privlab.compute import store
from privlab.experiments.protocol import Values
from privlab.leak import Leak, observe
from privlab.ledger.evidence import EXACT_PSNR


@cache
def mean_photograph(name: str = "cifar10") -> Tensor:
    """The mean of a set's train split, which is public: (1, channels, height, width) in [0, 1]."""
    public = data.load(name).pixels.numpy()  # bytes; as floats, or summed by torch, they would take a gigabyte
    return torch.from_numpy(public.mean(0, keepdims=True) / 255).float()


def relative_residual(result: Result, model: nn.Module) -> float:
    """Root mean square over the tensors of what Gauss-Newton left unmet of a gradient: 0 is all of it met, 1 is no idea."""
    return (result.score / len(list(model.parameters()))) ** 0.5


def tiled(rows: Iterable[Tensor | Sequence[Tensor]]) -> Tensor:
    """Images in [0, 1] as evidence keeps them, one row below the other: uint8 (height, width[, 3]).

    rows: each a batch (n, channels, height, width), or so many images (1, channels, height, width) beside one another.
    """
    batches = [row if isinstance(row, Tensor) else torch.cat([image.detach().cpu() for image in row]) for row in rows]
    whole = torch.cat([torch.cat([*batch.cpu()], -1) for batch in batches], -2)  # (channels, height, width)
    pixels = (whole.clamp(0, 1) * 255).round().to(torch.uint8)
    return pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous()


@dataclass(frozen=True)
class Trial:
    """What is compared within a repeat: it all has these photographs, and weights and noise of this number.

    images: (batch, channels, height, width) in [0, 1], on the CPU.  labels: (batch,).  number: the seed of weights and of noise.
    name: the named set of the images.  device: where networks are built, and searches run.
    """

    images: Tensor
    labels: Tensor
    number: int
    name: str = "cifar10"
    device: str = "cpu"

    @classmethod
    def of(
        cls, number: int, name: str = "cifar10", places: Sequence[int] | None = None, side: int | None = None,
        device: str = "cpu", size: int = 1,
    ) -> Self:  # fmt: skip
        """places: of the photographs in their set (its test split where there is one), counted round; its `number` if not given.

        side: pixels to resize them to.  size: of a batch of different classes, which repeats 1,000 apart share.
        """
        source = data.load(name, "test" if "test" in data.sources.splits(name) else "train")
        if size > 1:
            first: dict[int, int] = {}  # class -> where the first of it lies, from a place of this number's own on
            for at in range(10 * number, 10 * number + 1_000):
                first.setdefault(int(source.labels[at % len(source)]), at)
            places = [*first.values()][:size]
        batch = [source.one(i % len(source), size=side) for i in ([number] if places is None else places)]
        images, labels = zip(*batch, strict=True)
        return cls(torch.cat(images), torch.cat(labels), number, name, device)

    @classmethod
    def unseen(cls, repeat: int, *which: Any, **how: Any) -> Self:
        """A repeat's photograph, behind those that were looked at when claims were chosen.  which, how: see `of`."""
        return cls.of(2_000 + repeat, *which, **how)

    def network(self, name: str, train: bool = False, **changes: Any) -> Any:
        """A fresh network of the zoo.  train: in train mode.  changes: see `models.build`."""
        return models.build(name, seed=self.number, **changes).to(self.device).train(train)

    def leak(self, model: nn.Module, names: Sequence[str] | None = None) -> Leak:
        """What the client sends: the gradients of all parameters, or of those with these names."""
        return observe(model, self.images, self.labels, names=names)

    def search(
        self, attack: Any, model: nn.Module, leak: Leak | None = None, seed: int | None = None,
        space: Any = None, start: Tensor | None = None, **how: Any,
    ) -> Result:  # fmt: skip
        """What a search finds, kept in the store under all that it is given: done once, and gone on with where it stopped.

        attack: what runs, such as a preset.  leak: all gradients if not given.  seed: of the noise; `number` if not given.
        space, start, how: see the attack's `run`; snapshots are none if not given.
        """
        leak, seed = leak or self.leak(model), self.number if seed is None else seed
        how.setdefault("snapshots", ())
        given = [leak.labels, start, *([] if space is None else [space.origin, space.basis])]
        run = kept_run(
            attack, seed, self.device, how=how, names=[*leak.grads], mode=model.training,
            weights=store.digest(*model.state_dict().values()), sent=store.digest(*leak.grads.values()),
            given=[None if tensor is None else store.digest(tensor) for tensor in given],
        )  # fmt: skip
        return attack.run(model, leak, seed=seed, space=space, start=start, store=run, progress=False, **how)

    def scores(self, keys: str, images: Tensor, which: str = "psnr") -> Values:
        """Scores of images, each the mean over the batch, under these keys.  which: some of psnr, ssim, lpips, fft2d, mse.

        mse is that of normalised images: Zhang et al. 2024 and Lu et al. 2022 print values that no images in [0, 1] have.
        """
        images, normalise = images.cpu(), data.NORMALISE[self.name]
        for metric in which.split():
            if metric == "mse":
                score = F.mse_loss(normalise(images), normalise(self.images))
            else:
                score = getattr(metrics, metric)(images, self.images).clamp(max=EXACT_PSNR).mean()
            yield f"{metric}[{keys}]", score.item()

    def guesses(self, keys: str = "", which: str = "psnr") -> Values:
        """Scores of two pictures that look at no gradient, grey and mean_photograph.  keys: what stands before their names."""
        mean = F.interpolate(mean_photograph(self.name), self.images.shape[-2:], mode="bilinear", antialias=True)
        for guess, image in (("grey", torch.full_like(mean, 0.5)), ("mean_photograph", mean)):
            yield from self.scores(keys + guess, image.expand_as(self.images), which)
