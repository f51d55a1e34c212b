"""What a defence may change in a training, and how a training takes several: forms one after the other, penalties added up.

A defence changes the model's form (skips cut, a bottleneck), adds a penalty to the loss (BiDO, MID), makes the gradients of a step in a way
of its own (DP-SGD), or changes those that are there (noise). They are in `privlab.defences`; this file is what the trainer knows of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from privlab.training.recipes import Recipe, named

Penalty = Callable[[Tensor, Tensor], Tensor]  # (the normalised batch, its labels) -> a scalar


class Steps(Protocol):
    """Another way from images to the gradients of a step than the mean loss of a batch."""

    def order(self, generator: torch.Generator) -> list[Tensor]:
        """The batches of one epoch, as places among the images; some may be empty."""

    def gradients(self, model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        """Leave its gradient in each parameter that learns; returns the batch's mean loss, of which nothing hangs."""


@dataclass(frozen=True)
class Defence:
    """What a defence changes in a training; this one changes nothing. Its fields are plain JSON, so that a worker can open it again."""

    penalises: ClassVar[bool] = False  # whether `listen` gives more than 0
    own_steps: ClassVar[bool] = False  # whether `steps` gives a way of its own

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        """Raise ValueError where this model, or a training by this recipe on so many images, cannot be defended like this."""

    def shape(self, model: nn.Module, epoch: int) -> bool:
        """Bring the model, in place, into the form that it has in this epoch, counted from 0; tells whether it changed.

        A second call changes nothing. Fresh weights are drawn from torch's own generator, which `shaped` seeds.
        """
        return False

    def listen(self, model: nn.Module) -> AbstractContextManager[Penalty]:
        """Hears the model's forward passes until it is closed; gives the penalty of the one just made."""
        return _silence()

    def steps(self, recipe: Recipe, images: int) -> Steps | None:
        """Another way to take this training's steps; None for the usual one."""
        return None

    def disturb(self, model: nn.Module) -> Callable[[], object] | None:
        """What changes the gradients of each step, in place, once they are there, drawing from torch's own generator; None for nothing.

        Asked at the beginning of each epoch, behind `shape`.
        """
        return None

    def record(self, recipe: Recipe, images: int) -> dict[str, dict[str, float]]:
        """Numbers of a training by this recipe that are told at its end, and kept in its run's note "defences": {name: {what: number}}."""
        return {}

    def settings(self) -> dict[str, Any]:
        """All that the defence depends on, as plain JSON.  `opened` undoes it."""
        kind = type(self)
        return {"call": f"{kind.__module__}:{kind.__qualname__}", "arguments": asdict(self)}


def opened(settings: Mapping[str, Any]) -> Defence:
    """The defence with these settings.  Raises ValueError for any that is not in `privlab.defences`."""
    module, _, name = str(settings["call"]).partition(":")
    kind: Any = None
    if module.startswith("privlab.defences."):
        try:
            kind = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    if not isinstance(kind, type) or not issubclass(kind, Defence):
        raise ValueError(
            f"call={settings['call']!r} names no defence; give one of privlab.defences, such as 'privlab.defences.architecture:Cut'"
        )
    return kind(**settings["arguments"])


def settled(recipe: Recipe | str, defences: Sequence[Defence], device: str | torch.device) -> Recipe:
    """The recipe of a training with these defences, with its precision settled, see `recipes.named`."""
    return named(recipe, device, any(getattr(each, "own_steps", False) for each in _row(defences)))


def _row(defences: object) -> Sequence[object]:
    """What may be a row of defences; `checked` refuses what is none."""
    return defences if isinstance(defences, list | tuple) else ()


def checked(defences: Sequence[Defence], model: nn.Module, recipe: Recipe, images: int) -> tuple[Defence, ...]:
    """These defences, if a training of this model on so many images can have them all together.

    Raises ValueError for one that does not fit the training, and for two that do not fit each other.
    """
    if isinstance(defences, Defence) or not all(isinstance(each, Defence) for each in defences):
        raise ValueError(f"defences={defences!r} is no row of defences; give a tuple, such as (architecture.rolss(),)")
    for each in defences:
        each.check(model, recipe, images)
    penalties = [each for each in defences if each.penalises]
    private = [each for each in defences if each.steps(recipe, images)]
    mixes = [f"{name}={getattr(recipe, name):g}" for name in ("mixup", "cutmix") if getattr(recipe, name)]
    if mixes and (penalties or private):
        raise ValueError(
            f"{mixes[0]} cannot go with {(penalties or private)[0]!r}, since a mixed image has no label of its own and belongs to two "
            "people; give a recipe with mixup=0 and cutmix=0"
        )
    if len(private) > 1 or (private and penalties):
        other = [*private[1:], *penalties][0]
        raise ValueError(
            f"{private[0]!r} cannot go with {other!r}: each image's gradient is cut by itself, and a penalty is of a batch as a whole; "
            "train with one of the two"
        )
    return tuple(defences)


def shaped(model: nn.Module, defences: Sequence[Defence], epoch: int, seed: int = 0) -> bool:
    """Bring a model, in place, into the form that it has in this epoch (from 0) behind all these defences; tells whether it changed.

    seed: of the weights that a defence draws.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return any([each.shape(model, epoch) for each in defences])  # a list, as all of them must be asked


@contextmanager
def listening(model: nn.Module, defences: Sequence[Defence]) -> Iterator[Penalty | None]:
    """The sum of all penalties while it is open; None where no defence has one."""
    with ExitStack() as stack:
        heard = [stack.enter_context(each.listen(model)) for each in defences if each.penalises]
        yield (lambda x, labels: torch.stack([each(x, labels) for each in heard]).sum()) if heard else None


def steps(defences: Sequence[Defence], recipe: Recipe, images: int) -> Steps | None:
    """The way that one of them takes its steps, if one has its own."""
    return next((way for each in defences if (way := each.steps(recipe, images))), None)


def disturbances(model: nn.Module, defences: Sequence[Defence]) -> list[Callable[[], object]]:
    """What the defences do to each step's gradients in this epoch, in their order."""
    return [change for each in defences if (change := each.disturb(model))]


@contextmanager
def _silence() -> Iterator[Penalty]:
    yield lambda x, labels: x.new_zeros(())
