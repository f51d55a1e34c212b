"""Generators on disk, for other processes to take up."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from privlab.attacks.model_inversion.conditional_gan import ConditionalDCGAN
from privlab.attacks.model_inversion.dcgan import DCGAN
from privlab.attacks.model_inversion.gans import Adversary
from privlab.attacks.model_inversion.generators import Eigenfaces
from privlab.attacks.model_inversion.stylegan2 import StyleGAN2
from privlab.compute import store

FORMAT = 1  # raise it when generators are written in another way
Trained = DCGAN | Adversary | ConditionalDCGAN
AnyGenerator = Eigenfaces | Trained | StyleGAN2
NETWORKS: dict[str, type[Any]] = {each.kind: each for each in (DCGAN, Adversary, ConditionalDCGAN)}


def save(generator: AnyGenerator, root: Any = None) -> str:
    """Put a generator into the run store; returns its folder, for `load`. The same one is kept once.

    A discriminator that it kept goes with it.
    Of a StyleGAN2 only the places of its checkout and weights are kept, and its settings: other processes need them at the same places.
    """
    settings = {"kind": generator.kind, **generator.settings}
    tensors: dict[str, Tensor] = {} if isinstance(generator, StyleGAN2) else generator.state_dict()
    run = store.keyed("generator", {**settings, "tensors": store.digest(*tensors.values())}, format=FORMAT, root=root)
    if not run.complete:
        run.save("tensors", tensors)
        run.note("settings", settings)
        run.finish()
    return str(run.path)


def load(folder: str) -> AnyGenerator:
    """The generator that `save` put into this folder, on the CPU.  Raises as `store.Run.at` does."""
    run = store.Run.at(folder)
    settings = run.read("settings")
    kind = settings.pop("kind")
    if kind == "stylegan2":
        return StyleGAN2(**settings)
    tensors: dict[str, Any] = run.load("tensors")
    if kind == "eigenfaces":
        return Eigenfaces(**tensors, **settings)
    generator: Trained = NETWORKS[kind](**{**settings, "shape": tuple(settings["shape"])})
    generator.load_state_dict(tensors)
    return generator.eval().requires_grad_(False)
