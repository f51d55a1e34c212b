"""Training of networks that no labels teach, an epoch at a time: GANs, and students of a target model.

Every epoch draws from its own seed, so what was interrupted goes on to the bits that it would have reached, as in `training.fit`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from privlab import compute
from privlab.compute import store
from privlab.models.forward import preprocessing
from privlab.training import batches
from privlab.training.trainer import memory, remember

Networks = Mapping[str, nn.Module]
Step = Callable[[Tensor, torch.Generator], None]  # places of a batch's images (batch,), and where to draw from


def train(
    networks: Networks, optimisers: Mapping[str, torch.optim.Optimizer], step: Step, n: int, *, epochs: int, batch_size: int,
    seed: int, run: compute.Run, title: str, watch: Callable[[int], object] | None = None, progress: bool = True,
) -> None:  # fmt: skip
    """Take a step for each whole batch of n images in random order, so many times over; what is left over sits the epoch out.

    networks: all that is trained, by name.  optimisers: one for each network, under the same names.
    step: one step of all networks.  run: keeps a checkpoint each epoch; from there a second call goes on.
    watch: called after each epoch with how many are done, the networks in eval mode, before the epoch is kept. It may raise to stop.
    """
    together, begun = nn.ModuleDict(networks), 0
    device = next(together.parameters()).device
    if "checkpoint" in run.names():
        parts = store.parted(run.load("checkpoint"))
        begun = int(parts["done"]["epochs"])
        for name, net in networks.items():
            net.load_state_dict(parts[name])
            remember(optimisers[name], parts.get(f"{name} optimiser", {}))
    left = range(begun, epochs)
    for epoch in tqdm(left, title, epochs, initial=begun, unit="epoch", disable=not progress, leave=False):
        draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        together.train()
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            batches.seed_dropout(device, seed * 1_000_003 + epoch)
            order = torch.randperm(n, generator=draw)
            for rows in order[: n // batch_size * batch_size].split(batch_size):
                step(rows, draw)
        if watch:
            together.eval()
            watch(epoch + 1)
        states = {f"{name} optimiser": memory(o) for name, o in optimisers.items()}
        states["done"] = {"epochs": torch.tensor(epoch + 1)}
        run.save("checkpoint", together.state_dict() | store.joined(states))


def train_once(run: compute.Run, networks: Networks, training: Callable[[], None]) -> None:
    """Train networks unless the run holds them, and read them from there: in eval mode, and with nothing left to learn."""
    if not run.complete:
        if not networks.keys() <= set(run.names()):  # else it was killed behind its last epoch
            training()
            for name, net in networks.items():
                run.save(name, net.state_dict())
        run.save("checkpoint", {})  # no longer needed
        run.finish()
    for name, net in networks.items():
        net.load_state_dict(run.load(name))
        net.eval().requires_grad_(False)


def step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down this loss."""
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def enough(pixels: Tensor, batch_size: int, epochs: int) -> None:
    """Raise ValueError where there is nothing to train, no epoch or not one whole batch, and for pixels out of [0, 1]."""
    if len(pixels) < batch_size or epochs < 1:
        raise ValueError(f"epochs={epochs}, {len(pixels)} images: give one epoch or more, and {batch_size} images")
    batches.check_unit(pixels)


def fingerprint(model: Any) -> list[Any]:
    """What a network is, for the key of a run: its structure, the names of its weights, and their digest."""
    weights = model.state_dict()
    return [f"{model}{preprocessing(model)}", store.digest(*weights.values()), *weights]
