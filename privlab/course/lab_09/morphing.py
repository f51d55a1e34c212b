"""One slider from ResNet-50 to ConvNeXt-T: the block of each step, its parameters, and what a search found behind it."""

import html
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from IPython.display import HTML
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from privlab import metrics, models
from privlab.notebook.explore import Explorer
from privlab.notebook.plots.architecture_drawing import BLOCK, PLACES, bar, panel, stack, thumbs

SHOWN = {-1: "the stem", 0: "the first block of the second stage", 1: "a block of the second stage"}


class Facts(NamedTuple):
    """A step as the paper has it: millions of parameters, millions of multiplications for 32 x 32 pixels, layers of a block in words.

    layers: (stage, block) -> as `models.morph.outline` says them.
    """

    parameters: float
    multiplications: float
    layers: dict[tuple[int, int], list[str]]


@cache
def facts(step: int) -> Facts:
    """The facts of a step, counted on its network at full width."""
    with torch.no_grad(), torch.device("meta"), FlopCounterMode(display=False) as counter:  # shapes without weights
        model = models.morph.build(step)
        model(torch.zeros(1, 3, 32, 32))
    layers = {place: models.morph.outline(model, *place) for place in {BLOCK, *PLACES.values()}}
    return Facts(sum(p.numel() for p in model.parameters()) / 1e6, counter.get_total_flops() / 2e6, layers)


class Morph(Explorer):
    """The slider.  ssim: how near each image comes to the photograph, by step."""

    def __init__(self, found: Mapping[int, Tensor], truth: Tensor) -> None:
        """found: step, 1 (ResNet-50) to 14 (ConvNeXt-T) in order -> image, (1, 3, height, width) in [0, 1].  truth: the photograph."""
        self.found, self.truth = {step: image.cpu() for step, image in found.items()}, truth.cpu()
        self.ssim = {step: metrics.ssim(image, self.truth).item() for step, image in self.found.items()}
        super().__init__(self._step, above=thumbs(self.found.values()), step=tuple(found))

    def _step(self, step: int) -> HTML:
        told, before, place = facts(step), facts(max(1, step - 1)), PLACES.get(step, BLOCK)
        design = models.morph.STEPS[step]
        name, change = html.escape(design.name), html.escape(design.change or "Here it begins")
        title = f"<p><strong>{step} of {len(models.morph.STEPS)}: {name}.</strong> {change}.</p>"
        most = [max(column) for column in zip(*(facts(n)[:2] for n in self.found), strict=True)]
        size = bar("parameters", told.parameters, most[0], f"{told.parameters:.1f} million")
        work = bar("multiplications", told.multiplications, most[1], f"{told.multiplications:.0f} million")
        layers = stack({SHOWN[min(place)]: (before.layers[place], told.layers[place])})
        return panel(step, len(self.found), self.found[step], self.truth, layers, size + work, title)
