"""Who is trained on what: drawn once, by a seed, and kept before any training, because every later number leans on it."""

from typing import NamedTuple

import torch
from torch import Tensor


class FourWay(NamedTuple):
    """Places in a set, int64: four parts of one size that share no image."""

    victim_train: Tensor
    victim_test: Tensor
    shadow_train: Tensor
    shadow_test: Tensor


def four_way(labels: Tensor, seed: int) -> FourWay:
    """Split a set evenly into train and test images for a victim and for a shadow model (Zhang et al. 2024, section 4.1).

    labels: (n,), one class an image; up to three images are left over. Members are `victim_train`, non-members `victim_test`; the
    attacker holds the two shadow parts.  Raises ValueError for a class that one of the parts would lack.
    """
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = FourWay(*drawn[: len(labels) // 4 * 4].split(len(labels) // 4))
    for name, places in parts._asdict().items():
        if absent := sorted(set(labels.tolist()) - set(labels[places].tolist())):
            lacks = f"class {absent[0]} is absent from {name}, which gets {len(places):,} of {len(labels):,} images"
            raise ValueError(f"labels: {lacks}; give more images of it, or another seed")
    return parts


def in_out(n: int, models: int, seed: int, pairs: bool = False) -> Tensor:
    """A keep matrix, (models, n) bool: model m is trained on sample i where it is true; each sample is in exactly half of the models.

    models: an even number.  pairs: models 0 and 1, 2 and 3, ... share the set between them: what the one holds the other lacks. An attack
    on the one must then leave its partner out (`lira.every_target(pairs=True)`), because the partner's row is the answer. In pairs a
    model has exactly half of the samples (of an odd number, one more or less); without them, about half.
    Raises ValueError for an odd number of models.
    Source: Carlini et al. 2022, section IV; "exactly half" as in their released code.
    """
    if models % 2:
        raise ValueError(f"models={models!r} cannot hold each sample in exactly half of them; give an even number")
    generator = torch.Generator().manual_seed(seed)
    if pairs:
        first = torch.rand(models // 2, n, generator=generator).argsort(1) < n // 2
        return torch.stack([first, ~first], 1).reshape(models, n)
    return torch.rand(models, n, generator=generator).argsort(0) < models // 2
