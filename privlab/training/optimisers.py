"""The optimiser of a recipe: built, its memory kept and given back, and carried over when a model loses parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from privlab.compute.store import joined, parted
from privlab.training.recipes import Recipe


def build(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    """The recipe's, over all parameters of the model that learn."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    adam = torch.optim.Adam if recipe.optimiser == "adam" else torch.optim.AdamW
    return adam(parameters, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay)


def memory(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers of its steps so far, as tensors in one dict; `remember` gives it back."""
    state = optimiser.state_dict()["state"]
    return joined({str(i): {k: v for k, v in of.items() if isinstance(v, Tensor)} for i, of in state.items()})


def remember(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser of the same parameters what `memory` took down."""
    state = {int(i): of for i, of in parted(tensors).items()}  # SGD without momentum holds none
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def carried(before: torch.optim.Optimizer, after: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """A new optimiser with what the old one remembers of the parameters that both have; others, such as narrowed ones, begin anew."""
    for parameter in (p for group in after.param_groups for p in group["params"]):
        if parameter in before.state:
            after.state[parameter] = before.state[parameter]
    return after
