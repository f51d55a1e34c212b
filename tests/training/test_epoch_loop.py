"""The loop of networks that no labels teach: what it draws from."""

from types import SimpleNamespace

import torch

from privlab import compute
from privlab.training import epoch_loop


def test_dropout_on_a_card_is_seeded_and_its_generator_left_as_it_was(monkeypatch, tmp_path):
    card, seeds = torch.Generator().manual_seed(7), []
    monkeypatch.setattr(torch.cuda, "default_generators", [card])
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda *_: card.get_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, *_: card.set_state(state))

    class Network:
        train = eval = state_dict = load_state_dict = lambda *_: {}
        parameters = staticmethod(lambda: iter([SimpleNamespace(device=torch.device("cuda", 0))]))

    def step(rows, draw):
        seeds.append((card.initial_seed(), torch.initial_seed()))

    optimiser, run = torch.optim.SGD([torch.zeros(1)]), compute.Run("loop", {}, tmp_path)
    settings = dict(epochs=2, batch_size=2, seed=1, run=run, title="", progress=False)
    epoch_loop.train({"net": Network()}, {"net": optimiser}, step, 2, **settings)
    assert seeds == [(1_000_003, 1_000_003), (1_000_004, 1_000_004)] and card.initial_seed() == 7
