"""A draw of private people, networks that know them, a judge, and what an attack brings back from each: the ground of labs 11 and 12.

A repeat draws who is private, which photographs are held out, weights and noise. Draws of 20 of ORL's 40 people overlap.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import evaluation, generators, search, stylegan2
from privlab.attacks.model_inversion.search import Result
from privlab.data.private_public import PrivatePublic
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.trial import tiled
from privlab.experiments.victims import shadow_fleets
from privlab.training import RECIPES, Recipe
from privlab.training.shadow_models import Fleet

NARROW: Settings = dict(channels=(16, 32, 64, 128), zero_init_last=False)
_PICO = dict(img_size=32, embed_dim=(16, 32, 64, 128), depths=(1, 1, 2, 1), stem_width=(8, 16), transformer_dim_head=16)
NETWORKS: dict[str, tuple[str, Settings]] = {  # as the ledger names it -> its name in the zoo, and changes
    "tiny": ("resnet18", {**NARROW, "layers": (1, 1, 1, 1)}),
    "resnet": ("resnet18", NARROW),
    "resnet_deep": ("resnet34", NARROW),
    "resnet_wide": ("resnet18", dict(channels=(32, 64, 128, 256), zero_init_last=False)),
    "resnet_shallow": ("resnet18", {**NARROW, "layers": (1, 1, 1, 1)}),
    "resnet_fine": ("resnet18", {**NARROW, "stem": "cifar"}),  # its stem keeps every pixel, as VGG's does
    "resnet_fine_shallow": ("resnet18", {**NARROW, "stem": "cifar", "layers": (1, 1, 1, 1)}),
    "resnet_fine_deep": ("resnet34", {**NARROW, "stem": "cifar"}),
    "densenet": ("densenet121", dict(growth_rate=12, block_config=(4, 4, 4, 4))),
    "efficientnet": ("tinynet_e", {}),
    "vgg": ("vgg_narrow", {}),
    "repvgg": ("repvgg_a0", dict(width_factor=0.25)),
    "maxvit": ("maxvit_pico_rw_256", _PICO),
    "vit": ("vit_cifar", dict(embed_dim=128, depth=4)),
    "maxvit_tiny": ("maxvit_tiny_tf_224", {}),
    "vit_b_16": ("vit_base_patch16_224", {}),
    "efficientnet_b0": ("efficientnet_b0", {}),
    **{f"vgg_{n}": (f"vgg{n}_bn", {}) for n in (16, 19)},
    **{f"resnet_{n}": (f"resnet{n}", dict(zero_init_last=False)) for n in (18, 34, 50, 101, 152)},
    **{f"densenet_{n}": (f"densenet{n}", {}) for n in (121, 161, 169, 201)},
}
RESNETS = ["resnet_34", "resnet_50", "resnet_101", "resnet_152"]
DENSENETS = ["densenet_121", "densenet_161", "densenet_169", "densenet_201"]

ORL = "draws of 20 of ORL's 40 people, which overlap, 32 pixels, eigenfaces"
_SMOKE: Settings = dict(lr=0.1, pool=100, candidates=2, kept=1, steps=8, views=2)
_CLASS: Settings = dict(lr=0.1, pool=500, candidates=2, kept=2, views=10)
_NIGHT: Settings = dict(lr=0.1, pool=1_000, candidates=4, kept=4, views=20)
_PAPER: Settings = dict(candidates=200, kept=50, at_once=25)
STAGE: dict[str, Settings] = {  # settings of `People`, by size
    "smoke": dict(people=8, recipe="identities_smoke", attack=_SMOKE, shown=1, little=True),
    "class": dict(people=20, recipe="identities_laptop", attack=_CLASS, little=True),
    "night": dict(people=20, recipe="identities", attack=_NIGHT, shown=4),
    "paper": dict(faces="facescrub", side=224, recipe="koh2024_ppa", attack=_PAPER, shown=50, prior="stylegan2"),
}


def same(*networks: str) -> dict[str, str]:
    """Networks whose name in the ledger is that in `NETWORKS`."""
    return {name: name for name in networks}


@dataclass(frozen=True, repr=False)
class Reconstruction:
    """What an attack brought back from one network."""

    fleet: Fleet  # the network, as it was trained
    acc: float  # how often it is right about held-out photographs, in percent
    attacc: float  # how often the judge sees the right person in the pictures, in percent
    first: float  # the same of the pictures that the search began with
    likelihood: float  # mean probability that the network gives its target
    dist_eval: float  # mean squared distance to the person, see `Score.delta`
    result: Result  # the pictures, `shown` a person
    top1: Tensor  # (n,) bool, whom the judge recognises

    def rates(self, keys: str) -> Values:
        """acc and attacc, under these keys."""
        yield f"acc[{keys}]", self.acc
        yield f"attacc[{keys}]", self.attacc


class People:
    """One draw of private people.  repeat: its number, of which all is drawn.

    faces: "orl"; or a set of a reader's own, all of whose people are private with FFHQ as the public side ("stanford_dogs": half).
    people: how many of ORL's are private.  side: pixels.  recipe: how every network is trained; the judge half as long again.
    attack: changes of PPA.  shown: pictures of a person that count.  little: whether the judge is a small one.
    prior: "eigenfaces", or "stylegan2", which $PRIVLAB_FACE_GENERATOR then names.
    Raises ValueError for a StyleGAN without its place; FileNotFoundError for a set that was not prepared.
    """

    def __init__(
        self, repeat: int, *, faces: str = "orl", people: int = 20, side: int = 32, recipe: str = "identities",
        attack: Settings, shown: int = 2, little: bool = False, prior: str = "eigenfaces", device: str = "cpu",
    ) -> None:  # fmt: skip
        self.seed, self.faces, self.shown, self.device = repeat % 2**31, faces, shown, device
        self.recipe = RECIPES[recipe]
        pixels, who, outside, self.normalise = photographs(faces, side)
        private = people if faces == "orl" else len(who.unique()) // (1 if outside is not None else 2)
        held_out = 3 if faces == "orl" else 0.1
        self.split = data.private_public.draw(pixels, who, private, held_out, self.seed, public=outside)
        self.people, self.attack = len(self.split.people), model_inversion.ppa(**attack)
        small = dict(growth_rate=12, block_config=(2, 2, 2)) if little else dict(growth_rate=16, block_config=(4, 4, 4))
        self.judge_size: dict[str, Any] = {} if side > 100 and not little else small
        self._trained = partial(trained, self.split, self.normalise, self.seed, device)
        self.prior = _stylegan(side) if prior == "stylegan2" else generators.Eigenfaces(self.split.public[:2_000], 100)

    @classmethod
    def of(cls, repeat: int, stage: Settings, device: str = "cpu") -> Self:
        """As experiments have them.  stage: settings, as in `STAGE`."""
        return cls(repeat, **stage, device=device)

    def network(self, name: str, changes: Mapping[str, Any] = {}, *, how: Recipe | None = None, **more: Any) -> Fleet:
        """A network of `NETWORKS`, trained on these people.  more: defences, and epochs `at`, see `shadow_models.make`."""
        zoo_name, own = NETWORKS[name]
        return self._trained(zoo_name, {**own, **changes}, self.split.keep(), how or self.recipe, **more)

    @cached_property
    def judge(self) -> evaluation.EvaluationModel:
        """A DenseNet that knows all private photographs; how far its word goes is measured on a twin without the held-out ones."""
        return self.judged_by("densenet121", self.judge_size)

    def judged_by(self, zoo_name: str, changes: Settings, longer: float = 1.5) -> evaluation.EvaluationModel:
        """Another judge.  zoo_name, changes: its architecture.  longer: how many times as many epochs it has as the networks."""
        how = replace(self.recipe, epochs=int(self.recipe.epochs * longer), batch_size=max(20, self.recipe.batch_size))
        fleet = self._trained(zoo_name, changes, self.split.evaluation_keep(), how)
        return evaluation.evaluation_model(fleet, self.split)

    def found(self, model: nn.Module) -> Result:
        """The pictures that the attack finds in a network, `shown` a person, by a copy of the prior: labs draw with it on the CPU."""
        parts = torch.arange(self.people).split(self.people if self.people <= 50 else 10)  # in steps, if they are many
        model, prior = model.to(self.device), copy.deepcopy(self.prior).to(self.device)
        return search.joined([self.attack.run_once(model, prior, some, self.seed) for some in parts]).best(self.shown)

    def inverted(self, fleet: Fleet, at: int | None = None) -> Reconstruction:
        """The attack on a network as it was after epoch `at` (the last if not given)."""
        best = self.found(fleet.model(0, at))
        score, first = (self.judge.score(x, best.targets) for x in (best.images, best.first))
        acc, likelihood = 100 * fleet.right(0, self.split.test, at), best.likelihood.mean().item()
        delta, top1 = score.delta.mean().item(), score.top1
        return Reconstruction(fleet, acc, 100 * score.accuracy, 100 * first.accuracy, likelihood, delta, best, top1)

    def attacked(self, *which: Any, at: Sequence[int] = (), **how: Any) -> list[Reconstruction]:
        """A network, attacked as it was after each of these epochs, and at its end.  which, how: see `network`."""
        fleet = self.network(*which, at=at, **how)
        return [self.inverted(fleet, epoch) for epoch in (*at, None)]

    def random_face(self, judge: evaluation.EvaluationModel | None = None) -> float:
        """How often a judge sees the target in a photograph of somebody else, in percent: what nobody has to be attacked for."""
        public = self.split.public
        places = torch.randint(len(public), (10 * self.people,), generator=torch.Generator().manual_seed(self.seed))
        faces, targets = public[places].float() / 255, torch.arange(self.people).repeat(10)
        return 100 * (judge or self.judge).score(faces, targets).accuracy

    def if_stopped(self, acc: float, along: Sequence[Reconstruction]) -> float:
        """What a whole network would give away that was stopped in training where it is right so often, see `if_stopped`."""
        return if_stopped(acc, [(100 / self.people, self.random_face()), *((one.acc, one.attacc) for one in along)])

    def private(self, n: int = 6) -> Tensor:
        """A photograph of each of the first n people, (n, channels, height, width) in [0, 1]."""
        first = [self.split.pixels[self.split.labels == k][0] for k in range(min(n, self.people))]
        return torch.stack(first).float() / 255

    def strip(self, *rows: Reconstruction) -> Tensor:
        """The first six people, a row of photographs and a row of each reconstruction, uint8 (height, width[, 3])."""
        n = min(6, self.people)
        return tiled([self.private(n), *(row.result.images[row.result.places(n)] for row in rows)])


def trained(
    split: PrivatePublic, normalise: data.Normalise, seed: int, device: str, zoo_name: str, changes: Settings,
    keep: Tensor, how: Recipe, **more: Any,
) -> Fleet:  # fmt: skip
    """Networks on the photographs of a draw.  more: defences, and epochs `at`, see `shadow_models.make`."""
    model, images = {**changes, "in_chans": split.pixels.shape[1]}, (split.pixels, split.labels)
    about = dict(model=model, normalise=normalise, seed=seed, device=device)
    return shadow_fleets.trained(zoo_name, how, images, keep, weights=True, **about, **more)


def numbers(each: int, public: int, seed: int) -> PrivatePublic:
    """MNIST at 16 pixels: `each` of the digits 0 to 4 as the private side, a quarter held out, and so many of 5 to 9 as the public one."""
    mnist = data.load("mnist")
    pixels = F.avg_pool2d(F.pad(mnist.pixels, (2, 2, 2, 2)).float(), 2).round().byte()  # (60,000, 1, 16, 16)
    return data.private_public.draw(pixels, mnist.labels, range(5), each // 4, seed, each=each, public=public)


def if_stopped(acc: float, path: Sequence[tuple[float, float]]) -> float:
    """Attack accuracy of a network stopped at a task accuracy: straight lines along its path of (task, attack) accuracy, level beyond."""
    x, y = np.array(sorted(path)).T
    return float(np.interp(acc, x, y))


def photographs(faces: str, side: int) -> tuple[Tensor, Tensor, Tensor | None, data.Normalise]:
    """Everybody's photographs, who is on them, the public ones where they come from elsewhere, and how they are normalised."""
    mine = data.attributes.load(faces, side)
    outside = None if faces in ("orl", "stanford_dogs") else data.attributes.load("ffhq", side).pixels
    return mine.pixels, mine["person" if faces == "orl" else "class"], outside, mine.normalise


def _stylegan(side: int) -> stylegan2.StyleGAN2:
    place = os.environ.get("PRIVLAB_FACE_GENERATOR", "")
    checkout, _, network = place.partition(os.pathsep)
    if not network:
        wanted = f"a checkout of stylegan2-ada-pytorch, {os.pathsep!r}, and the network of data_scripts/stylegan.py"
        raise ValueError(f"PRIVLAB_FACE_GENERATOR={place!r}; give {wanted}")
    return stylegan2.StyleGAN2(checkout, network, crop=800, resize=side)
