"""What a defence may change in a training, and how a training takes several: forms one after the other, penalties added up.

A defence changes the model's form (skips cut, a bottleneck), adds a penalty to the loss (BiDO, MID), makes the gradients of a step in a way
of its own (DP-SGD), or changes those that are there (noise). They are in `privlab.defences`; this file is what the trainer knows of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from privlab.models.forward import drawn_by
from privlab.training.recipes import Recipe

Penalty = Callable[[Tensor, Tensor], Tensor]  # (the normalised batch, its labels) -> a scalar


@dataclass(frozen=True)
class Defence:
    """What a defence changes in a training; this one changes nothing. Its fields are plain JSON."""

    penalises: ClassVar[bool] = False  # whether it has `listen`
    own_steps: ClassVar[bool] = False  # whether it has `order` and `gradients`

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        """Raise ValueError where this model, or a training by this recipe on so many images, cannot be defended like this."""

    def shape(self, model: nn.Module, epoch: int) -> bool:
        """Bring the model, in place, into the form that it has in this epoch, counted from 0; tells whether it changed.

        A second call changes nothing. Fresh weights are drawn from torch's own generator, which `shaped` seeds.
        """
        return False

    def listen(self, model: nn.Module) -> AbstractContextManager[Penalty]:
        """Hears the model's forward passes until it is closed; gives the penalty of the one just made."""
        raise NotImplementedError

    def order(self, recipe: Recipe, images: int, generator: torch.Generator) -> list[Tensor]:
        """The batches of one epoch, as places among the images; some may be empty."""
        raise NotImplementedError

    def gradients(self, model: nn.Module, x: Tensor, labels: Tensor, recipe: Recipe, images: int) -> Tensor:
        """Leave its gradient in each parameter that learns; returns the mean loss of a normalised batch, without a graph."""
        raise NotImplementedError

    def disturb(self, model: nn.Module) -> Callable[[], object] | None:
        """What changes the gradients of each step, in place, drawing from torch's own generator; asked in each epoch, behind `shape`."""
        return None

    def record(self, recipe: Recipe, images: int) -> dict[str, dict[str, float]]:
        """Numbers of a training by this recipe that are kept in its run's note "defences": {name: {what: number}}."""
        return {}

    def settings(self) -> dict[str, Any]:
        """All that the defence depends on, as plain JSON."""
        kind = type(self)
        return {"call": f"{kind.__module__}:{kind.__qualname__}", "arguments": asdict(self)}


def check(defences: Sequence[Defence], model: nn.Module, recipe: Recipe, images: int) -> None:
    """Raise ValueError for a defence that does not fit this model or its training, and for two that do not fit each other."""
    for each in defences:
        each.check(model, recipe, images)
    private = [each for each in defences if each.own_steps]
    kinds = private + [each for each in defences if each.penalises]
    if kinds and (recipe.mixup or recipe.cutmix):  # a mixed image has no label of its own, and belongs to two people
        mixed = f"mixup={recipe.mixup:g}, cutmix={recipe.cutmix:g}"
        raise ValueError(f"{mixed} cannot go with {kinds[0]!r}; give a recipe with mixup=0 and cutmix=0")
    if private and len(kinds) > 1:  # each image's gradient is cut by itself, and a penalty is of a batch as a whole
        raise ValueError(f"{kinds[0]!r} cannot go with {kinds[1]!r}; train with one of the two")


def shaped(model: nn.Module, defences: Sequence[Defence], epoch: int, seed: int = 0) -> bool:
    """Bring a model, in place, into the form that it has in this epoch (from 0) behind all these defences; tells whether it changed.

    seed: of the weights that a defence draws.
    """
    with drawn_by(seed):
        return any([each.shape(model, epoch) for each in defences])  # a list, as all of them must be asked


@contextmanager
def listening(model: nn.Module, defences: Sequence[Defence]) -> Iterator[Penalty | None]:
    """The sum of all penalties while it is open; None where no defence has one."""
    with ExitStack() as stack:
        heard = [stack.enter_context(each.listen(model)) for each in defences if each.penalises]
        yield (lambda x, labels: torch.stack([each(x, labels) for each in heard]).sum()) if heard else None
