"""Switches between a ResNet's way and a ConvNeXt's: the network that they make, and what a search found behind it."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML
from torch import Tensor

from privlab import metrics, models
from privlab.notebook.explore import Explorer
from privlab.notebook.plots.architecture_drawing import panel, stack, thumbs

PLACES = {"the stem": (-1, 0), "a block": (0, 0)}
Setting = tuple[int, ...]  # a 0 or a 1 for each switch
Ways = tuple[Mapping[str, Any], Mapping[str, Any]]  # the changes when it is off, and when it is on


class Switchboard(Explorer):
    """The switches.  ssim, psnr: how near each image comes to the photograph, by setting; `ranked` has the lowest SSIM first."""

    def __init__(
        self, step: int, switches: Mapping[str, Ways], words: Mapping[str, tuple[str, str]], found: Mapping[Setting, Tensor], truth: Tensor
    ) -> None:  # fmt: skip
        """step: of the morph, 1 to 14, whose design is switched.  words: of each switch, what it is when off, and when on.

        found: setting -> image, (1, 3, height, width) in [0, 1].  truth: the photograph.
        """
        self.step, self.switches, self.words, self.truth = step, switches, words, truth.cpu()
        self.found = {one: image.cpu() for one, image in found.items()}
        self.ssim = {one: metrics.ssim(image, self.truth).item() for one, image in self.found.items()}
        self.psnr = {one: metrics.psnr(image, self.truth).item() for one, image in self.found.items()}
        self.ranked = sorted(found, key=self.ssim.__getitem__)
        self.off = self.layers((0,) * len(switches))
        labels = [f"{name}: {off} → {on}" for name, (off, on) in words.items()]
        ticks: dict[str, Any] = dict.fromkeys(labels, (False, True))
        super().__init__(self._setting, above=thumbs([self.found[one] for one in self.ranked]), **ticks)

    @property
    def effects(self) -> dict[str, float]:
        """Name -> main effect of the switch on the PSNR, in dB: the mean where it is on minus the mean where it is off."""
        psnr = pd.Series(self.psnr)  # a level of its index for each switch
        means = {name: psnr.groupby(level=place).mean() for place, name in enumerate(self.switches)}
        return {name: float(mean[1] - mean[0]) for name, mean in means.items()}

    def said(self, setting: Setting) -> str:
        """A setting in words."""
        return ", ".join(self.words[name][on] for name, on in zip(self.switches, setting, strict=True))

    def layers(self, setting: Setting) -> dict[str, list[str]]:
        """The stem and the first block of the first stage, in words."""
        changes = {k: v for ways, on in zip(self.switches.values(), setting, strict=True) for k, v in ways[on].items()}
        net = models.morph.build(self.step, width=0.25, depths=(1, 1, 1, 1), **changes)
        return {name: models.morph.outline(net, *place) for name, place in PLACES.items()}

    def _setting(self, **ticked: bool) -> HTML:
        setting, place = tuple(map(int, ticked.values())), self.ranked.index(tuple(ticked.values())) + 1
        rank = f"<p>number {place} of {len(self.ranked)} from the left, where the smallest leak is</p>"
        parts = stack({name: (self.off[name], now) for name, now in self.layers(setting).items()})
        return panel(place, len(self.ranked), self.found[setting], self.truth, parts, rank)
