"""Gradient inversion as the papers do it: each a few lines over one loop, so what differs between them is what you read here."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from privlab.attacks.gradient_inversion import label_recovery, objectives, priors
from privlab.attacks.gradient_inversion.objectives import Objective, cosine_distance, layer_norms, squared_distance
from privlab.attacks.gradient_inversion.priors import pixel_norm, total_variation, total_variation_norm
from privlab.attacks.gradient_inversion.schedules import constant, cosine
from privlab.attacks.gradient_inversion.search import ALWAYS, GradientMatching, Stages, Term
from privlab.leak import Leak

SMOOTH = Term("smoothness", 1e-4, total_variation_norm, of="images")


def dlg(steps: int = 300) -> GradientMatching:
    """Deep Leakage from Gradients (Zhu et al. 2019): squared distance, L-BFGS, labels searched for along with the images."""
    terms = (Term("gradients", 1.0, squared_distance),)
    return GradientMatching(terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant, boxed=False, labels="search")


def idlg(steps: int = 300) -> GradientMatching:
    """Improved DLG (Zhao et al. 2020): the same search, with the label read from the last layer first.

    One image, features that are not negative: see `label_recovery.row_sum`; elsewhere give
    `replace(idlg(), labels=label_recovery.row_products)`.
    """
    return replace(dlg(steps), labels=label_recovery.row_sum)


def inverting_gradients(steps: int = 3000, tv: float = 1e-4) -> GradientMatching:
    """Inverting Gradients (Geiping et al. 2020), with the settings of Zhang et al. 2024, Table 1.

    The table names Adam, 0.1, 3,000 iterations, similarity and a total variation of 1e-4; sign and staircase are Geiping's.
    """
    terms = (Term("gradients", 1.0, cosine_distance), Term("smoothness", tv, total_variation, of="images"))
    return GradientMatching(terms, steps, signed=True)


def annealed(steps: int = 200, tv: tuple[float, float] = (0.02, 1e-5)) -> GradientMatching:
    """Ours, for few steps: inverting_gradients with a smoothness that fades from tv[0] to tv[1] and steps that shrink to nothing.

    Strong smoothness finds the coarse picture within tens of steps, and then hides the fine one.
    """
    smooth = Term("smoothness", tv[0], total_variation, end=tv[1], of="images")
    terms = (Term("gradients", 1.0, cosine_distance), smooth)
    return GradientMatching(terms, steps, lr=min(30 / steps, 0.4), signed=True, schedule=cosine)


def quasi_newton(steps: int = 8, smoothness: tuple[float, float] = (0.3, 1e-2)) -> GradientMatching:
    """Ours, for networks without ReLU: L-BFGS on the relative distance, which weighs every tensor alike, with a smoothness that fades.

    steps: of up to 20 evaluations each. On a small ViT eight of them find 18 to 30 dB where eighty steps of `annealed`, at half the time,
    find 13 to 16. For updates with noise see `adaptive.tempered`.
    """
    smooth = Term("smoothness", smoothness[0], priors.squared_variation, end=smoothness[1], of="images")
    terms = (Term("gradients", 1.0, objectives.relative_distance), smooth)
    return GradientMatching(terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant)


def tag(steps: int = 1500, scale: float = 0.1) -> GradientMatching:
    """TAG (Deng et al. 2021): squared distance and, for layers near the input above all, the sum of absolute differences.

    With Adam, as Lu et al. 2022 run every attack of their Figure 2 (1,500 steps for CIFAR-10); they do not name the step length.
    """
    terms = (Term("gradients", 1.0, objectives.tag(scale)),)
    return GradientMatching(terms, steps, schedule=cosine, labels=one_or_many)


def april(steps: int = 1500, alpha: float = 1.0, distance: Objective = squared_distance) -> GradientMatching:
    """APRIL by optimisation (Lu et al. 2022, eq. 12, Algorithm 2): squared distance, and the position gradient's direction.

    Line 3 is `label_recovery.row_products`, line 5 `search.starts`, lines 7 to 11 `Descent.evaluate`, line 12 `Descent._advance`.
    alpha: weight of the direction; the paper gives none.  distance: another than the paper's.  The box around [0, 1] and the step that
    falls along a cosine are ours.
    Where the leak misses the position's gradient, a warning says so, and DLG is left, as in the paper (section 4.2).
    """
    terms = (Term("gradients", 1.0, distance), Term("position", alpha, objectives.position_direction))
    return GradientMatching(terms, steps, schedule=cosine, labels=one_or_many)


def april_balanced(
    steps: int, model: nn.Module, leak: Leak, seed: int = 0, distance: Objective = squared_distance
) -> GradientMatching:
    """APRIL with an alpha by rule: what the distance has to fall over what the cosine has to rise, where a search of this seed begins."""
    begin = next(april(steps, distance=distance).search(model, leak, seed)).losses
    alpha = begin["gradients"] / max(1 + begin["position"], 1e-6) if "position" in begin else 1.0  # see the warning
    return april(steps, alpha, distance)


def lu2022(steps: int = 1500) -> dict[str, GradientMatching]:
    """The four attacks of Lu et al. 2022, Table 1, with Adam, a step length of 0.1 and the label read off: dlg, ig, tag, april.

    The paper names Adam and the steps, no step length and no alpha. DLG, TAG and APRIL share all but the loss; IG keeps the sign and the
    falling step of Inverting Gradients.
    """
    inverting = replace(inverting_gradients(steps), labels=one_or_many)
    plain = april(steps)
    return {"dlg": plain.without("position"), "ig": inverting, "tag": tag(steps), "april": plain}


def gradinversion(steps: int = 20_000, prior: nn.Module | None = None, group: int = 2) -> GradientMatching:
    """GradInversion (Yin et al. 2021): distance layer by layer, BatchNorm statistics of the victim, and seeds that agree with one another.

    prior: the victim itself, if it has such statistics; without it, that term is left out (on a ViT, Hatamizadeh et al. 2022, Table 1).
    The noise that the authors add in each step is left out.
    """
    distance, pixels = Term("gradients", 1e-3, layer_norms), Term("pixels", 1e-6, pixel_norm, of="images")
    terms = (distance, *_statistics(0.1, prior), *_registration(group), pixels, SMOOTH)
    return GradientMatching(terms, steps, schedule=cosine, group=group)


def gradvit(
    steps: int = 120_000, prior: nn.Module | None = None, group: int = 2, patch: int | None = None, size: int | None = None,
    image: float = 0.2, relative: bool = False,
) -> GradientMatching:  # fmt: skip
    """GradViT (Hatamizadeh et al. 2022, eqs. 1-11, with the weights of section 4.3).

    First half: gradients alone, with the auxiliary terms (eq. 7: patches, agreement, pixels and smoothness, under its alphas 1 to 3).
    Second half: gradients at half the weight (eq. 5) and the statistics of a separate network (eq. 6).
    For Table 2's rows take terms away: `gradvit(...).without("patches")`, `.unscheduled()`.
    prior: the separate network, such as `zoo.efficientnet_lite0()`; without it, there is no image prior.
    group: seeds that the registration holds together; the paper does not say how many.  1 leaves the registration out.
    patch: side of a patch in pixels; the victim's own if not given.  The box is ours, as in every preset here.
    image, size, relative: weight of the statistics, and how they are taken, see `priors.BatchNormStatistics`. The paper's 0.2 fits
    MoCo's ResNet-50; the statistics of EfficientNet-lite0 are a thousand times larger, and need another, or relative=True.
    """
    gamma = ((0.0, 1.0), (0.5, 0.5))  # eq. 5, over its alpha
    upsilon = ((0.0, 0.0), (0.5, 1.0))  # eq. 6, over its alpha
    terms = (
        Term("gradients", 4e-3, layer_norms, gamma),  # eq. 3
        *_statistics(image, prior, upsilon, size, relative),  # eq. 4
        Term("patches", 1e-4, priors.PatchJoints(patch), of="images"),  # alpha 1, eq. 8
        *_registration(group),  # alpha 2, eqs. 9 and 10
        Term("pixels", 1e-4, pixel_norm, of="images"),  # alpha 3, eq. 11
        SMOOTH,  # alpha 3 as well, eq. 11
    )
    return GradientMatching(terms, steps, schedule=cosine, group=group)


def deep_inversion(steps: int = 2000, prior: nn.Module | None = None) -> GradientMatching:
    """DeepInversion (Yin et al. 2020), a baseline that looks at no gradient: images that the victim takes for these labels.

    prior: the victim itself, if it has BatchNorm statistics.  The weights are ours; theirs are for 224 pixels and thousands of steps.
    """
    seen = Term("class", 1.0, priors.Classification(), of="images")
    terms = (seen, *_statistics(0.05, prior), Term("pixels", 1e-4, pixel_norm, of="images"), SMOOTH)
    return GradientMatching(terms, steps, schedule=cosine)


def one_or_many(model: nn.Module, leak: Leak) -> Tensor:
    """Labels as Lu et al. 2022 read them: of one image by Algorithm 2, line 3; of a batch by Yin et al.'s rule (section 4.1)."""
    return (label_recovery.row_products if leak.batch_size == 1 else label_recovery.row_minimum)(model, leak)


def _statistics(weight: float, prior: nn.Module | None, stages: Stages = ALWAYS, *how: Any) -> list[Term]:
    if prior is None:
        return []
    return [Term("statistics", weight, priors.BatchNormStatistics(prior, *how), stages, of="images")]


def _registration(group: int) -> list[Term]:
    return [] if group == 1 else [Term("registration", 1e-2, priors.Registration(), of="group")]
