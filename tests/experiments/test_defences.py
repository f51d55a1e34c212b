"""What a client defends: one photograph and one network a repeat, what attackers know, and names that cover the claims' names."""

import pytest
import torch

from privlab.attacks.gradient_inversion import adaptive, presets
from privlab.course.lab_13 import experiments as defences
from privlab.course.lab_13.experiments import ROWS, Client, Pair, spent
from privlab.ledger import papers
from privlab.ledger.comparison import names

TINY = dict(model="vit_cifar", changes=dict(embed_dim=64, depth=1, num_heads=2, position_std=1.0))
pytestmark = pytest.mark.usefixtures("own_store")


@pytest.mark.parametrize(
    ("defence", "change"),
    [
        (spent("even", 0.1), lambda attack: attack),
        (ROWS["largest_1_percent"], adaptive.arrived),
        (ROWS["clipped"], adaptive.unclipped),
    ],
    ids=["noise", "sparse", "clipped"],
)
def test_an_informed_search_as_by_hand(defence, change):
    """Zeros of a sparse update are no numbers, and only of that; and one who is not informed searches another way."""
    client = Client(0, **TINY, attack="quasi_newton", steps=1)
    leak = defence(client.update, client.network, client.seed)
    plain = presets.quasi_newton(1)
    weighed = change(adaptive.tempered(plain, leak, defence.deviations(leak, client.network)))
    expected = [one.run(client.network, leak, seed=client.seed, progress=False).images for one in (weighed, plain)]
    found = [client.search(defence, informed) for informed in (True, False)]
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    assert not torch.equal(*found)


def test_names_cover_the_claims_of_swaps():
    """class has more swaps than smoke; ledger/test_names.py holds the other experiments' names."""
    settings = dict(which=[*defences.SWAPS], searches={"annealed": 1}, members=32, epochs=2)
    values = dict(defences.design_swaps.measure(0, changes=defences.QUARTER, **settings))
    claims = [claim for claim in papers.claims("13") if claim.experiments == ["defences.design_swaps"]]
    assert claims and {name for claim in claims for name in names(claim.compare, *claim.needs)} <= values.keys()


def test_members_of_a_pair_are_strangers_to_each_other():
    pair = Pair(5, 20, 2)
    assert pair.keep.sum(1).tolist() == [20, 20] and not (pair.keep[0] & pair.keep[1]).any()
    assert not any(pair.keep[m][pair.outside[m]].any() for m in (0, 1))
    assert not torch.equal(pair.pixels, Pair(6, 20, 2).pixels)
