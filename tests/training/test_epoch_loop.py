"""The loop of networks that no labels teach: what it draws from."""

import torch

from privlab import compute
from privlab.training import epoch_loop


def test_each_epoch_draws_from_its_own_seed_and_leaves_the_callers_generator_alone(tmp_path):
    network, seeds, before = torch.nn.Linear(1, 1), [], torch.get_rng_state()
    optimiser, run = torch.optim.SGD(network.parameters()), compute.Run("loop", {}, tmp_path)

    def step(rows, draw):
        seeds.append((len(rows), draw.initial_seed(), torch.initial_seed()))

    settings = dict(epochs=2, batch_size=2, seed=1, run=run, title="", progress=False)
    epoch_loop.train({"net": network}, {"net": optimiser}, step, 5, **settings)
    assert seeds == [(2, s, s) for s in (1_000_003, 1_000_003, 1_000_004, 1_000_004)]
    assert torch.equal(torch.get_rng_state(), before)
