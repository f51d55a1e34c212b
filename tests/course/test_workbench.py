"""Lab 12's workbench: what its reader trains and attacks is what the lab's experiments train and attack."""

import pytest
import torch

from privlab.course.lab_12.workbench import Workbench
from privlab.defences import architecture
from privlab.experiments.victims import private_people
from privlab.models import skip_connections


@pytest.fixture(scope="module")
def here():
    return private_people.People(3, **private_people.STAGE["smoke"])


def test_a_network_that_is_cut_and_trained_by_hand_is_that_of_the_experiment_and_so_is_what_the_attack_finds(here):
    bench = Workbench(here, here.network("tiny"))
    model = bench.fresh()
    skip_connections.cut(model, 4)
    bench.train(model, here.recipe.epochs)
    theirs = here.attacked("tiny", defences=(architecture.rolss(),))[0]
    x = here.normalise(here.private())
    assert torch.equal(model(x), theirs.fleet.model(0)(x))
    found = bench.attacked(model)
    assert (found.acc, found.attacc) == pytest.approx((theirs.acc, theirs.attacc))
    best = theirs.result.places(here.people)
    assert torch.equal(found.images, theirs.result.images[best]) and torch.equal(found.known, theirs.top1[best])


def test_a_second_training_goes_on_with_the_weights_of_the_first(here):
    bench = Workbench(here, here.network("tiny"))
    one, two = bench.fresh(), bench.fresh()
    bench.train(one, 1)
    bench.train(two, 1)
    bench.train(two, 1)
    first, second = (model(here.normalise(here.private())) for model in (one, two))
    start = bench.fresh()(here.normalise(here.private()))
    assert 0 < (first - start).norm() < (second - start).norm()
