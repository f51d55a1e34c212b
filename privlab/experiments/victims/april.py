"""The draw of architectures A and B of Lu et al. 2022 that a repeat of labs 05 and 06 has."""

from typing import Any

import torch

from privlab import data
from privlab.experiments.protocol import Settings
from privlab.experiments.trial import Trial
from privlab.models import april

OWN_DRAW = 100_000  # times 1, 2, 3, added to a repeat's number where something is not to be drawn like its weights
DIGITS: Settings = dict(channels=1, image_size=28, patch_size=7, normalise=data.NORMALISE["mnist"])


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
