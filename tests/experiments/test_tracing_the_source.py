"""Lab 08's experiments: the attacker sees what the name says and no more, and the rest of the attack stays the same."""

import pytest
import torch

from privlab.course.lab_08 import experiments as lab


@pytest.fixture(scope="module")
def model():
    return lab.victim(lab.Trial.unseen(0), "three_blocks")


def test_selections_are_what_their_names_say(model):
    chosen = lab.selections(model)
    everything = {name for name, _ in model.named_parameters()}
    assert {*chosen["all"]} == everything
    assert sorted(name for part in lab.PARTS for name in chosen[part]) == sorted(everything)
    for k, third in enumerate(lab.THIRDS):
        assert {*chosen[f"only_{third}"]} == {name for name in everything if name.startswith(f"blocks.{k}.")}
        assert {*chosen[f"only_{third}"]} | {*chosen[f"without_{third}"]} == everything


def test_curvature_is_that_of_the_cosine_distance():
    """Against second differences of the distance itself, along the same directions."""
    model = lab.victim(lab.Trial.unseen(0), "three_blocks").double()
    middle = model.normalise(torch.full((1, 3, 32, 32), 0.5, dtype=torch.float64))

    def gradient(x):
        loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(1, dtype=torch.long))
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*model.parameters()])])

    unit, step = gradient(middle), 1e-3
    directions = torch.linalg.qr(torch.randn(3072, 4, generator=torch.Generator().manual_seed(7))).Q.T.double()
    seen = [
        2 * (1 - torch.cosine_similarity(unit, gradient(middle + step * d.reshape(middle.shape)), dim=0)) / step**2
        for d in directions
    ]
    assert lab.curvature(model, 7) == pytest.approx(torch.stack(seen).mean().item(), rel=0.02)
