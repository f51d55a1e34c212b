"""Signals against their definitions in 300 decimal digits, far beyond where a softmax has gone to 1."""

from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab.attacks.membership_inference import signals

NAMES = ["loss", "confidence", "modified_entropy", "correct", "margin"]
SCORES = {name: getattr(signals, name) for name in NAMES}


def definitions(logits, label):
    """Every signal of one sample by its textbook formula, on probabilities, in 300 digits."""
    with localcontext() as context:
        context.prec = 300
        context.Emin = -10_000
        weights = [Decimal(z).exp() for z in logits]
        p = [w / sum(weights) for w in weights]
        rest = [q for i, q in enumerate(p) if i != label]
        return {
            "loss": p[label].ln(),
            "confidence": p[label],
            "modified_entropy": (1 - p[label]) * p[label].ln() + sum(q * (1 - q).ln() for q in rest),
            # of the logits: 300 digits of p may be too few to tell which is larger
            "correct": Decimal(int(max(range(len(p)), key=logits.__getitem__) == label)),
            "margin": (p[label] / sum(rest)).ln(),
        }


# no subnormal numbers: some processors, and so torch, take them for 0
logit_rows = st.lists(st.floats(-150, 150, allow_subnormal=False), min_size=2, max_size=6)


@settings(max_examples=50)
@given(logit_rows, st.data())
def test_definitions_at_any_gap(logits, data):
    """To 12 digits of the value itself, however small: gaps reach 300, where 1 - p is 1e-130."""
    label = data.draw(st.integers(0, len(logits) - 1))
    if len(set(logits)) < len(logits):  # which one of equal logits is predicted is a test of its own
        logits = [z + 1e-3 * i for i, z in enumerate(logits)]
    exact = definitions(logits, label)
    for name, signal in SCORES.items():
        value = signal(torch.tensor([logits], dtype=torch.float64), torch.tensor([label]))
        error = abs(Decimal(value.item()) - exact[name])
        # A margin may be small beside the logits that it is the difference of; nothing in float64 can have more digits than they.
        scale = max(map(abs, map(Decimal, logits))) + 1 if name == "margin" else abs(exact[name]) * 200
        assert error <= Decimal("1e-13") * max(scale, abs(exact[name])), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_float_type_and_leading_axes(dtype):
    g = torch.Generator().manual_seed(0)
    z = (4 * torch.randn(2, 3, 5, 4, generator=g)).to(dtype)  # (queries, models, n, classes)
    y = torch.randint(4, (5,), generator=g, dtype=torch.int32)
    for signal in SCORES.values():
        found = signal(z, y)
        assert found.shape == (2, 3, 5) and found.dtype == torch.float64
        assert torch.equal(found[1, 2], signal(z[1, 2].double(), y))
