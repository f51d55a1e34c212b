"""One slider from ResNet-50 to ConvNeXt-T: the block of each step, its parameters, and what a search found behind it.

It is HTML with a few lines of script, as a flipbook is, so that it moves in the static book as in a notebook, by mouse or keys.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from privlab import models
from privlab.notebook.drawings.networks import PLACES
from privlab.notebook.network_panel import MARKED, PLAIN, Reconstructions, bar, panel, stack

BLOCK = (1, 1)  # what a step shows that PLACES has no other for: a block of the second stage
SHOWN = {-1: "the stem", 0: "the first block of the second stage", 1: "a block of the second stage"}

# All the script there is. It starts from the slider that moved, so two of these on one page cannot meddle with each other.
TURN = (
    "const all = this.closest('figure'), n = Number(this.value), steps = all.querySelectorAll('[data-step]');"
    "steps.forEach((part, i) => part.hidden = i !== n);"
    f"all.querySelectorAll('[data-thumb]').forEach((one, i) => one.style.cssText = i === n ? '{MARKED}' : '');"
    "this.setAttribute('aria-valuetext', steps[n].querySelector('h4').textContent);"
)


@dataclass(frozen=True)
class Facts:
    """A step as the paper has it: millions of parameters, millions of multiplications for 32 x 32 pixels, the layers of a block in words.

    layers: (stage, block) -> as `models.morph.outline` says them.
    """

    parameters: float
    multiplications: float
    layers: Mapping[tuple[int, int], list[str]]


@cache
def facts(step: int) -> Facts:
    """The facts of a step, counted on its network at full width."""
    with torch.no_grad(), torch.device("meta"), FlopCounterMode(display=False) as counter:  # shapes without weights
        model = models.morph.build(step)
        model(torch.zeros(1, 3, 32, 32))
    layers = {place: models.morph.outline(model, *place) for place in {BLOCK, *PLACES.values()}}
    return Facts(sum(p.numel() for p in model.parameters()) / 1e6, counter.get_total_flops() / 2e6, layers)


class Morph(Reconstructions[int]):
    """The slider.  `ssim` and `psnr` say how near each image comes to the photograph, by step."""

    def __init__(self, found: Mapping[int, Tensor], truth: Tensor, start: int = 1) -> None:
        """found: step -> image, (1, 3, height, width) in [0, 1].  truth: the photograph.  start: the step that is shown first.

        Raises ValueError for no image, a step that is none of the fourteen, a start that was not searched, or images that are no match.
        """
        if strangers := [step for step in found if step not in models.morph.STEPS]:
            raise ValueError(
                f"found={strangers[0]!r} is none of the fourteen steps; give 1 (ResNet-50) to 14 (ConvNeXt-T)"
            )
        if start not in found:
            raise ValueError(f"start={start!r} has no image; there are {', '.join(map(str, found)) or 'none'}")
        super().__init__({step: found[step] for step in sorted(found)}, truth)
        self.start = start

    def __repr__(self) -> str:
        scores = ", ".join(f"{step}: {value:.2f}" for step, value in self.ssim.items())
        return f"SSIM of the reconstruction by step: {scores}"

    def tag(self) -> str:
        """The <figure>: a row of all images, the slider, and below it the step that it stands at."""
        steps = [*self.found]
        label = (
            '<label style="display:block;margin:.6em 0">step '
            f'<input type="range" min="0" max="{len(steps) - 1}" step="1" value="{steps.index(self.start)}" autocomplete="off" '
            f'aria-valuetext="{_title(self.start)}" oninput="{html.escape(TURN)}" '
            'style="vertical-align:middle;width:min(30em,80%)"></label>'
        )
        return (
            f'<figure class="privlab-morph" style="{PLAIN};max-width:44em">'
            f'<div style="display:flex;flex-wrap:wrap;gap:5px">{"".join(map(self._thumb, steps))}</div>{label}'
            f'<div aria-live="polite">{"".join(map(self._step, steps))}</div></figure>'
        )

    def _thumb(self, step: int) -> str:
        framed = self.thumb(step, str(step), step == self.start, f"Step {step}")
        return f'<div style="text-align:center;font-size:.8em;line-height:1.3">{framed}{step}</div>'

    def _step(self, step: int) -> str:
        told, before = facts(step), max(1, step - 1)
        words = models.morph.diff(before, step).words.split(": ", 1)[1] if step > 1 else "Here it begins."
        shown = [facts(n) for n in self.found]
        sizes = {
            "parameters": (told.parameters, max(one.parameters for one in shown), f"{told.parameters:.1f} million"),
            "multiplications": (
                told.multiplications,
                max(one.multiplications for one in shown),
                f"{told.multiplications:.0f} million",
            ),
            "SSIM": (self.ssim[step], 1.0, f"{self.ssim[step]:.2f}"),
        }
        place = PLACES.get(step, BLOCK)
        layers = {SHOWN[min(place)]: (facts(before).layers[place], told.layers[place])}
        bars = [bar(name, *size) for name, size in sizes.items()]
        return (
            f'<div data-step="{step}"{" hidden" * (step != self.start)}><h4 style="margin:.2em 0">{_title(step)}</h4>'
            f'<p style="margin:.2em 0 .8em">{html.escape(words)}</p>'
            f"{panel(stack(layers), self.found[step], self.truth, self.score(step), bars)}</div>"
        )


def _title(step: int) -> str:
    return f"{step} of {len(models.morph.STEPS)}: {html.escape(models.morph.STEPS[step].name)}"
