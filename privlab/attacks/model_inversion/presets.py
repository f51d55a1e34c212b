"""The attacks of the papers. The candidates of all but PPA begin anywhere, and no picture is chosen in the end but by likelihood."""

from dataclasses import replace
from typing import Any

from privlab.attacks.model_inversion.search import ModelInversion


def ppa(**changes: Any) -> ModelInversion:
    """Plug & Play Attacks (Struppek et al. 2022), the attack of most of Koh et al. 2024: Poincaré loss, Adam 0.005 with betas (0.1, 0.1),
    50 steps with drops at 30 and 40, one crop of 90 to 100% of the area a step, the last choice over 100 crops of 50 to 90%.

    Their step length belongs to StyleGAN's w; latents of eigenfaces or of a DCGAN are standard normal and need a longer one (`lr`).
    They search from 200 latents and keep 50 (`candidates`, `kept`).
    """
    return ModelInversion(**changes)


def gmi(**changes: Any) -> ModelInversion:
    """Generative model inversion (Zhang et al. 2020): realism + 100 x cross-entropy, 1,500 steps of 0.02 from each of 5 random latents.

    For the generator of `gans.gmi`. Adam takes the place of their momentum, and latents are not held inside [-1, 1].
    """
    return _bare(dict(loss="cross_entropy", realism=0.01, steps=1500) | changes)


def kedmi(**changes: Any) -> ModelInversion:
    """Knowledge-enriched distributional inversion (Chen et al. 2021): GMI's losses, 2,400 steps, for the mean and variance of a Gaussian.

    For the generator of `gans.kedmi`. They fit one Gaussian a class, from mean 0, and draw 5 pictures; here it is one a candidate.
    """
    return gmi(**(dict(fitted=True, steps=2400) | changes))


def plg_mi(**changes: Any) -> ModelInversion:
    """Pseudo-label guided inversion (Yuan et al. 2023): the margin alone, 600 steps of 0.1 in the latents of the class, changed pictures.

    For the generator of `gans.plg_mi`. Of their changes (crops of 80 to 100%, colours, flips, turns, two a step) here is a crop.
    """
    return _bare(dict(loss="max_margin", lr=0.1, steps=600, share=(0.8, 1.0)) | changes)


def lomma(on: ModelInversion, **changes: Any) -> ModelInversion:
    """LOMMA (Nguyen et al. 2023) on top of GMI's or KEDMI's search: the target's logit, held by its features.

    Its other half, models distilled from the target, is what `run` takes as `ensemble`; see `gans.distil`.
    """
    return replace(on, **(dict[str, Any](loss="logit", anchor=1.0) | changes))


def _bare(settings: dict[str, Any]) -> ModelInversion:
    """Without PPA's choices and crops: every candidate is kept, and there are no more latents to begin from than candidates."""
    settings = dict[str, Any](candidates=5) | settings
    n = settings["candidates"]
    plain = dict[str, Any](kept=n, pool=n, lr=0.02, betas=(0.9, 0.999), drops=(), share=(1.0, 1.0), views=0)
    return ModelInversion(**(plain | settings))
