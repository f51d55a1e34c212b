"""What a client defends: attackers who know a defence and those who do not, and victims that are strangers to each other."""

import pytest
import torch

from privlab.attacks.gradient_inversion import adaptive, presets
from privlab.course.lab_13.experiments import ROWS, Client, Pair, spent

TINY = dict(model="vit_cifar", changes=dict(embed_dim=64, depth=1, num_heads=2, position_std=1.0))


@pytest.mark.parametrize(
    ("defence", "change"),
    [
        (spent("even", 0.1), lambda attack: attack),
        (ROWS["largest_1_percent"], adaptive.arrived),
        (ROWS["clipped"], adaptive.unclipped),
    ],
    ids=["noise", "sparse", "clipped"],
)
def test_an_informed_search_as_by_hand(defence, change, own_store):
    """Zeros of a sparse update are no numbers, and only of that; and one who is not informed searches another way."""
    client = Client(0, **TINY, attack="annealed", steps=3)
    seed, plain = client.trial.number, presets.annealed(3)
    leak = defence(client.update, client.network, seed)
    weighed = change(adaptive.tempered(plain, leak, defence.deviations(leak, client.network)))
    expected = [one.run(client.network, leak, seed=seed, progress=False).images for one in (weighed, plain)]
    found = [client.search(defence, informed) for informed in (True, False)]
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    assert not torch.equal(*found)


def test_members_of_a_pair_are_strangers_to_each_other():
    pair = Pair(5, 20, 2)
    assert pair.keep.sum(1).tolist() == [20, 20] and not (pair.keep[0] & pair.keep[1]).any()
    assert not any(pair.keep[m][pair.outside[m]].any() for m in (0, 1))
    assert not torch.equal(pair.pixels, Pair(6, 20, 2).pixels)
