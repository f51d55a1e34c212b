"""A repeat of Lu et al. 2022, as labs 05 and 06 measure it: its photographs, and its draw of the paper's architectures A and B."""

from typing import Any

import torch

from privlab import data
from privlab.experiments.protocol import Settings
from privlab.experiments.trial import Trial, photographs
from privlab.models import april

OWN_DRAW = 100_000  # times 1, 2, 3, added to a repeat's number where something is not to be drawn like its weights
DIGITS: Settings = dict(channels=1, image_size=28, patch_size=7, normalise=data.NORMALISE["mnist"])


def trial_of(repeat: int, size: int = 1, name: str = "cifar10", device: str = "cpu") -> Trial:
    """The repeat's own photograph, or a batch of different classes; repeats 1,000 apart share the photographs of a batch."""
    labels, at = photographs(name).labels, 10 * repeat
    places: dict[int, int] = {}  # class -> where the first of it lies
    while len(places) < size:
        places.setdefault(int(labels[at % len(labels)]), at)
        at += 1
    return Trial.of(repeat, name, None if size == 1 else [*places.values()], device=device)


def victim(
    trial: Trial, architecture: str = "b", dtype: Any = torch.float32, class_std: float | None = None, **changes: Any
) -> Any:
    """The repeat's draw of an architecture.  class_std: size of the class token's own embedding, if it is to differ."""
    digits = DIGITS if trial.name == "mnist" else {}
    model: Any = april.build(architecture, seed=trial.number, **digits, **changes)
    if class_std is not None:
        draw = torch.Generator().manual_seed(trial.number + 3 * OWN_DRAW)
        model.pos_embed.data[:, 0] = class_std * torch.randn(model.embed_dim, generator=draw)
    return model.to(trial.device, dtype)
