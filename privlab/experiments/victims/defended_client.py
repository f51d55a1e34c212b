"""One client's update behind a defence, and victims that are trained behind it: the ground of lab 13."""

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from privlab import data, metrics
from privlab.attacks.gradient_inversion import adaptive, closed_form, presets
from privlab.attacks.membership_inference import signals
from privlab.defences import updates
from privlab.defences.updates import UpdateDefence
from privlab.experiments.protocol import Settings
from privlab.experiments.trial import Trial, mean_photograph
from privlab.leak import Leak
from privlab.training import Recipe, batches, shadow_models
from privlab.training.defence import Defence
from privlab.training.shadow_models import Fleet

READ = ("pos_embed", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight")  # by the closed forms
WAYS = ["even", "own", "measured", "leaky", "stem", "attention", "norm", "activation"]
DENSE = ("even", "own", "measured")  # ways to spend that are looked at with several strengths
EMBEDDINGS: dict[str, Settings] = {
    "fixed_random": dict(position="random"),
    "fixed_2d_sinusoid": dict(position="sinusoid_2d"),
    "fixed_rank_4": dict(position="low_rank", position_rank=4),
}
ROWS = {  # what practitioners do anyway
    "bfloat16": updates.sent("bfloat16"),
    "rounded_to_8_bits": updates.sent("low_bits", bits=8),
    "rounded_to_2_bits": updates.sent("low_bits", bits=2),
    "largest_1_percent": updates.sent("sparse", share=0.01),
    "clipped": updates.sent("clipped", norm=1.0),
    "position_withheld": updates.sent("withheld", words=["position"]),
    "stem_withheld": updates.sent("withheld", words=["stem"]),
}
KNOWN = ("gaussian", "spread", "sparse", "low_bits", "clipped")  # who knows of these attacks in another way


def strength(level: float) -> str:
    """A strength, as the ledger writes it."""
    return f"relative_{level:g}".replace(".", "p")


def spent(way: str, level: float, measured: Mapping[str, float] | None = None) -> UpdateDefence:
    """Noise `level` times as long as the update, its energy spent in one of `WAYS`.  measured: see `perturbation.measured`."""
    if way == "own":
        return updates.sent("gaussian", relative=level)
    shares = {"even": {"all": 1.0}, "measured": measured, "leaky": dict.fromkeys(READ, 1 / 3)}.get(way, {way: 1.0})
    return updates.sent("spread", shares=shares, relative=level)


class Client:
    """One photograph of the test split, and a fresh network that its gradient is of.

    repeat: draws both, and all noise.  model, changes: of the network, see `models.build`.  attack, steps: of the search.
    photograph: (1, 3, 32, 32) in [0, 1].  label: (1,).  network: fresh.  update: its gradient.
    """

    def __init__(
        self, repeat: int, model: str, changes: Settings, attack: str, steps: int, device: str = "cpu"
    ) -> None:
        self.trial = Trial.of(repeat % 2**31, places=[repeat], device=device)
        self.photograph, self.label, self.seed = self.trial.images, self.trial.labels, self.trial.number
        self.network = self.trial.network(model, **changes)
        self.update = self.trial.leak(self.network)
        self.attack = getattr(presets, attack)(steps)

    def psnr(self, image: Tensor) -> float:
        return metrics.psnr(image.cpu(), self.photograph).item()

    def sent(self, defence: UpdateDefence | None, rounds: int = 1) -> Leak:
        """What the server receives; or the mean of several rounds, each with noise of its own."""
        if defence is None:
            return self.update
        return adaptive.averaged([defence(self.update, self.network, self.seed + 1_000_003 * n) for n in range(rounds)])

    def algebra(self, leak: Leak, deviations: Mapping[str, float] | None = None) -> Tensor:
        """The better of two closed forms, the client's own photograph being the judge; the guess where neither has what it needs."""
        images = []
        for form in (closed_form.patch_embedding, closed_form.subspace):
            with contextlib.suppress(ValueError):  # what it reads was withheld, or is zero throughout
                images.append(form(self.network, leak, deviations).clamped.cpu())
        return max(images or [mean_photograph()], key=self.psnr)

    def solved(self, defence: UpdateDefence | None, informed: bool = False, rounds: int = 1) -> float:
        """What algebra makes of a defended update, in dB; or of the mean of several, each with noise of its own."""
        leak = self.sent(defence, rounds)
        known = defence.deviations(leak, self.network, rounds) if informed and defence is not None else None
        return self.psnr(self.algebra(leak, known))

    def search(self, defence: UpdateDefence | None, informed: bool = False) -> Tensor:
        """What the search makes of a defended update.

        informed: it knows the defence: noise is weighed, zeros of a sparse update are no numbers, and a clipped one has no length.
        """
        leak, attack = self.sent(defence), self.attack
        if informed and defence is not None:
            attack = adaptive.tempered(attack, leak, defence.deviations(leak, self.network))
            if change := {"sparse": adaptive.arrived, "clipped": adaptive.unclipped}.get(defence.by):
                attack = change(attack)
        return self.trial.search(attack, self.network, leak).images


class Pair:
    """Two victims that are each other's shadow model (as in lab 01), on images and a split of their own.

    repeat: draws images, split, weights and noise.  members: images of a victim.  epochs: of its training.
    """

    def __init__(self, repeat: int, members: int, epochs: int, device: str = "cpu") -> None:
        self.seed, self.device, photos = repeat % 2**31, device, data.load("cifar10", "test")
        drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(self.seed))[: 4 * members]
        self.pixels, self.classes = batches.subset(photos, drawn)
        mine, unseen, theirs, others = torch.arange(4 * members).split(members)  # the victim's, the shadow model's
        self.keep = torch.zeros(2, 4 * members, dtype=torch.bool)
        self.keep[0, mine], self.keep[1, theirs] = True, True
        self.outside = (unseen, others)
        self.recipe = Recipe(epochs=epochs, batch_size=32, lr=1e-3, warmup_epochs=1, augment="flip")

    def trained(self, model: str, changes: Settings, defences: Sequence[Defence] = (), at: Sequence[int] = ()) -> Fleet:
        """Both victims, trained here and now; from the store if they are kept there."""
        fleet = shadow_models.make(
            model, self.recipe, (self.pixels, self.classes), self.keep, model={**changes, "num_classes": 10},
            normalise=data.NORMALISE["cifar10"], at=at, seed=self.seed, defences=defences, device=self.device,
        )  # fmt: skip
        for m in range(2):
            shadow_models.train(fleet, m)
        return fleet

    def membership(self, fleet: Fleet, at: int | None = None) -> tuple[float, float, float]:
        """Task accuracy, AUC of the loss, and accuracy of the other's threshold, in percent: the mean over both victims."""
        seen, rows = [], []
        for m in (0, 1):
            places = torch.cat([self.keep[m].nonzero()[:, 0], self.outside[m]])
            seen.append((signals.loss(fleet.logits(m, at), self.classes)[0][places], self.keep[m][places]))
        for m in (0, 1):
            guess = metrics.roc.accuracy(*seen[m], metrics.roc.best_threshold(*seen[1 - m]))
            rows.append((fleet.right(m, self.outside[m], at), metrics.roc.auc(*seen[m]), guess))
        task, auc, accuracy = 100 * np.mean(rows, axis=0)
        return float(task), float(auc), float(accuracy)
