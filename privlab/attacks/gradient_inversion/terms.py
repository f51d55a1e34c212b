"""One summand of a gradient attack's loss: what it measures, how much it counts, and in which part of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from privlab.leak import Leak
from privlab.models.forward import Gradients

Value = Callable[[Tensor, Gradients, Leak], Tensor]  # (normalised images, their gradients, the leak) -> scalar
Stages = tuple[tuple[float, float], ...]
ALWAYS: Stages = ((0.0, 1.0),)


@dataclass(frozen=True)
class Term:
    """One summand of an attack's loss.

    value: (normalised images, their gradients, the leak) -> scalar. One that has to know the victim has a method
        `prepare(model, leak)`, called before the search: it gives the value to use, or None to leave the term out.
    stages: pairs (part of the run from 0 to 1, factor): from there on the weight is multiplied by the factor; 0 switches it off.
    end: the weight that it has fallen or risen to at the end of the run, by the same factor in each step; None leaves it as it is.
    of: what it looks at: "gradients"; "images" alone; or "group": the images of all seeds (group, batch, channels, height, width)
        at once, of which it makes one value a seed.
    """

    name: str
    weight: float
    value: Value
    stages: Stages = ALWAYS
    end: float | None = None
    of: Literal["gradients", "images", "group"] = "gradients"

    def __post_init__(self) -> None:
        if not 0 <= self.weight < float("inf"):
            raise ValueError(f"weight={self.weight} of term {self.name!r} is no weight; give 0 or a positive number")
        parts = [part for part, _ in self.stages]
        if not parts or parts[0] != 0 or parts != sorted(set(parts)) or parts[-1] >= 1:
            raise ValueError(
                f"stages={self.stages} of term {self.name!r} do not divide a run; give pairs (part of the run, factor) "
                "that begin at 0 and rise to below 1, such as ((0, 1), (0.5, 0.5))"
            )
        if not all(0 <= factor < float("inf") for _, factor in self.stages):
            raise ValueError(f"stages={self.stages} of term {self.name!r}: a factor is 0 or a positive number")
        if self.end is not None and not (self.weight > 0 and self.end > 0):
            raise ValueError(
                f"weight={self.weight} cannot go to end={self.end} by factors in {self.name!r}; give both above 0"
            )
        if self.of not in ("gradients", "images", "group"):
            raise ValueError(f"of={self.of!r} of term {self.name!r}; try 'gradients', 'images' or 'group'")

    def factor(self, progress: float) -> float:
        """What its weight is multiplied by at this part of the run, 0 being its start and 1 its end."""
        return next(factor for part, factor in reversed(self.stages) if progress >= part)

    def active(self, progress: float) -> bool:
        """Whether the term counts at this part of the run."""
        return self.factor(progress) > 0

    def weigh(self, progress: float) -> float:
        """Its weight at this part of the run."""
        glide = 1.0 if self.end is None else (self.end / self.weight) ** progress
        return self.weight * glide * self.factor(progress)

    def __repr__(self) -> str:
        weight = f"{self.weight:g}" if self.end is None else f"{self.weight:g} to {self.end:g}"
        what = f"{weight} {self.name} ({getattr(self.value, '__name__', repr(self.value))})"
        later = ", ".join(f"x{factor:g} from {100 * part:g}%" for part, factor in self.stages)
        return what if self.stages == ALWAYS else f"{what} {later}"


def ready(terms: Sequence[Term], model: nn.Module, leak: Leak) -> tuple[Term, ...]:
    """The terms made ready for this victim, without those that have nothing to look at in this leak."""
    prepared = []
    for term in terms:
        prepare = getattr(term.value, "prepare", None)
        value = prepare(model, leak) if prepare else term.value
        if value is not None:
            prepared.append(replace(term, value=value))
    return tuple(prepared)
