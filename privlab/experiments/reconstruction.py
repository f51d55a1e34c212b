"""What experiments of gradient inversion share: baselines that look at no gradient, searches that are kept, and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from privlab import data, metrics
from privlab.attacks.gradient_inversion.gauss_newton import GaussNewton
from privlab.attacks.gradient_inversion.results import Result, kept_run
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.compute import store
from privlab.leak import Leak


def number(repeat: int) -> int:
    """Seed of all that a repeat draws, and place of its photograph: behind those that were looked at when claims were chosen."""
    return 2_000 + repeat


def photograph(repeat: int) -> tuple[Tensor, Tensor]:
    """The photograph of a repeat, (1, 3, 32, 32) in [0, 1], and its label: from CIFAR-10's test split."""
    return data.load("cifar10", "test").one(number(repeat))


@cache
def baselines(name: str = "cifar10") -> dict[str, Tensor]:
    """Pictures that look at no gradient, (1, channels, height, width) in [0, 1]: grey, and the mean of the public photographs.

    name: a set; its train split is public. Photographs under attack come from its test split.
    """
    public = data.load(name).pixels.numpy()  # bytes; as floats, or summed by torch, they would take a gigabyte
    mean = torch.from_numpy(public.mean(0, keepdims=True) / 255).float()
    return {"grey": torch.full_like(mean, 0.5), "mean_photograph": mean}


def psnr_of_baselines(keys: str, photograph: Tensor, name: str = "cifar10") -> Iterator[tuple[str, float]]:
    """PSNR of the baselines for one photograph or a batch of them.

    keys: what stands before the baseline's name: "cifar10, " makes psnr[cifar10, grey] and psnr[cifar10, mean_photograph].
    """
    for which, picture in baselines(name).items():
        yield f"psnr[{keys}{which}]", psnr(picture.expand_as(photograph), photograph)


def psnr(images: Tensor, truth: Tensor) -> float:
    """PSNR in dB, the mean over a batch."""
    return metrics.psnr(images.cpu(), truth).mean().item()


def relative_residual(result: Result, model: nn.Module) -> float:
    """Root mean square over the tensors of what Gauss-Newton left unmet of a gradient: 0 is all of it met, 1 is no idea."""
    return (result.score / len(list(model.parameters()))) ** 0.5


def search(
    attack: GradientMatching | GaussNewton,
    model: nn.Module,
    leak: Leak,
    seed: int,
    snapshots: Sequence[int] = (),
    restarts: int = 1,
) -> Result:
    """One search, kept in the store under the contents of model and leak: done once, and gone on with where it was interrupted.

    snapshots: steps at which pictures are kept on the way.
    """
    weights = store.digest(*model.state_dict().values())
    sent = store.digest(*leak.grads.values(), *([] if leak.labels is None else [leak.labels]))
    names = store.key({"names": sorted(leak.grads)})
    device = str(next(iter(leak.grads.values())).device)
    about = dict(weights=weights, sent=sent, names=names, snapshots=list(snapshots), restarts=restarts)
    run = kept_run(attack, seed, device, **about)
    return attack.run(model, leak, seed=seed, restarts=restarts, snapshots=snapshots, store=run, progress=False)
