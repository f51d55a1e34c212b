"""Lab 11: what comes out of a classifier of people, and what its skip connections have to do with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab import models
from privlab.attacks.model_inversion import gradient_flow, losses
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.victims.private_people import DENSENETS, NETWORKS, ORL, RESNETS, STAGE, People, same

STAGES = ["skip_1", "skip_2", "skip_4", "none_left"]
_DOGS: Settings = dict(  # Figure 5
    stage={**STAGE["paper"], "faces": "stanford_dogs"}, networks=same("resnet_50", "resnet_101", "densenet_121", "densenet_169"),
    variants=["skip_4"], plain=[], stops=[20, 40, 60], pictures=0,
)  # fmt: skip


@experiment("model_inversion.skips", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, networks of four blocks, 8 epochs",
    stage=STAGE["smoke"], networks=dict(resnet="tiny"), variants=["skip_1", "skip_4"], plain=["vgg"], stops=[3], pictures=2)  # fmt: skip
@Size("class", 8, f"a narrow ResNet-18 and others, 30 epochs; {ORL}", first=20,
    stage=STAGE["class"], networks=same("resnet"), variants=STAGES, plain=["vgg", "resnet_fine"], stops=[4, 8], pictures=20)  # fmt: skip
@Size("night", 16, f"four narrow ResNets, a DenseNet, an EfficientNet and a VGG, 40 epochs; {ORL}",
    stage=STAGE["night"], networks=same("resnet", "resnet_shallow", "resnet_deep", "resnet_wide", "densenet"), variants=STAGES,
    plain=["vgg", "resnet_fine"], stops=[2, 4, 6, 8, 10, 15, 20], pictures=20, others=same("efficientnet"))  # fmt: skip
@Size("paper", 3, "FaceScrub, the paper's networks and StyleGAN", own=True,
    stage=STAGE["paper"], networks=same(*RESNETS, *DENSENETS), variants=STAGES[:3], plain=["vgg_16", "vgg_19"], stops=[20, 40, 60],
    pictures=20, others=dict(efficientnet="efficientnet_b0"), more=[_DOGS])  # fmt: skip
def skips(
    here: People, networks: Mapping[str, str], variants: Sequence[str], plain: Sequence[str], stops: Sequence[int],
    pictures: int, others: Mapping[str, str] = {}, more: Sequence[Settings] = (),
) -> Values:  # fmt: skip
    """Each network whole, stopped earlier, and without the skips of one stage or of all, trained and attacked alike; and plain ones.

    others: networks of which only the last stage that has skips is cut ("skip_last").  pictures: of noise that the network is made sure of.
    more: settings of the same on other data.
    """
    faces = here.faces
    yield f"acc[{faces}, judge]", 100 * here.judge.accuracy
    yield f"attacc[{faces}, random_face]", here.random_face()
    for label, network in {**networks, **others}.items():
        yield from without_skips(here, label, network, ["skip_last"] if label in others else variants, stops)
    for network in plain:
        yield from here.attacked(network)[0].rates(f"{faces}, {network}, full")
    if pictures:
        yield from noise(here, here.network(next(iter(networks.values())), at=stops).model(0), pictures)
    for settings in more:  # numbers alone: its strips would have the names of those above
        told = skips.measure(here.seed, **settings, device=here.device)
        yield from ((name, value) for name, value in told if not name.startswith("picture["))


def without_skips(
    here: People, label: str, network: str, variants: Sequence[str], stops: Sequence[int], floors: bool = False
) -> Values:
    """A network whole, stopped earlier, and without the skips of a variant's stages, all trained and attacked alike.

    floors: whether to tell what the network stopped as early gives away to the attack's first choice, before any search.
    """
    name = f"{here.faces}, {label}"
    along = here.attacked(network, at=stops)
    shown = {"full": along[-1]}
    for variant in variants:
        (shown[variant],) = here.attacked(network, dict(skips=_cut(network, variant, here.people)))
        acc = shown[variant].acc
        yield f"attacc_if_stopped[{name}, {variant}]", here.if_stopped(acc, along)
        if floors:
            firsts = [replace(one, attacc=one.first) for one in along]
            yield f"attacc_if_stopped[{name}, {variant}, first_choice]", here.if_stopped(acc, firsts)
    yield f"attacc[{name}, first_choice]", along[-1].first
    for variant, one in shown.items():
        yield from one.rates(f"{name}, {variant}")
        yield f"likelihood[{name}, {variant}]", one.likelihood
        yield f"dist_eval[{name}, {variant}]", one.dist_eval
        back = gradient_flow.input_norms(one.fleet.model(0), one.result.first, one.result.targets, losses.poincare)
        yield f"gradient_norm[{name}, {variant}, input]", back.median().item()
    yield f"picture[photograph_then_variants, {label}]", here.strip(*shown.values())


@experiment("model_inversion.depth_and_resolution", on=People.of, data=("orl",))
@Size("smoke", 1, "8 people, a network of four blocks, 8 epochs",
    stage=STAGE["smoke"], networks=same("tiny"), variants=["skip_4"], plain=[], stops=[3])  # fmt: skip
@Size("night", 16, f"three narrow ResNets whose last stage sees 4 x 4 pixels, a DenseNet and a VGG, 40 epochs; {ORL}", first=1_016,
    stage=STAGE["night"], networks=same("resnet_fine_shallow", "resnet_fine", "resnet_fine_deep", "densenet"), variants=STAGES,
    plain=["vgg"], stops=[2, 4, 6, 8, 10, 15, 20])  # fmt: skip
def depth_and_resolution(
    here: People, networks: Mapping[str, str], variants: Sequence[str], plain: Sequence[str], stops: Sequence[int]
) -> Values:
    """Where the papers' networks live: a last stage of several pixels, by depth. RoLSS is the network without the skips of stage 4."""
    yield f"acc[{here.faces}, judge]", 100 * here.judge.accuracy
    for label, network in networks.items():
        yield from without_skips(here, label, network, variants, stops, floors=True)
    for network in plain:
        yield from here.attacked(network)[0].rates(f"{here.faces}, {network}, full")


def noise(here: People, victim: Callable[[Tensor], Tensor], pictures: int) -> Values:
    """So many pictures of noise, their pixels changed until the network is sure of its targets, and what the judge says; no generator."""
    targets = torch.arange(pictures) % here.people
    x = torch.rand(pictures, *here.split.pixels.shape[1:], generator=torch.Generator().manual_seed(here.seed))
    optimiser = torch.optim.Adam([x.requires_grad_()], lr=0.02)
    for _ in range(50):
        (x.grad,) = torch.autograd.grad(F.cross_entropy(victim(here.normalise(x)), targets, reduction="sum"), x)
        optimiser.step()
        x.data.clamp_(0, 1)
    made = x.detach()
    says = 100 * (victim(here.normalise(made)).argmax(1) == targets).double().mean().item()
    yield f"attacc[{here.faces}, noise, target_says]", says
    yield f"attacc[{here.faces}, noise, judge_says]", 100 * here.judge.score(made, targets).accuracy


def _cut(network: str, variant: str, people: int) -> tuple[tuple[int, int], ...]:
    """(stage, what its skips are multiplied by) of a variant: of one stage, of all, or for skip_last the last that has some."""
    if variant == "none_left":
        return tuple((stage, 0) for stage in (1, 2, 3, 4))
    if variant != "skip_last":
        return ((int(variant.removeprefix("skip_")), 0),)
    zoo_name, changes = NETWORKS[network]
    return ((max(models.skip_connections.stages(models.build(zoo_name, people, **changes))), 0),)


@experiment("model_inversion.identities", on=People.of, data=("orl",))
@Size("smoke", 2, "8 people, 8 epochs", stage=STAGE["smoke"], network="tiny", epochs=2)
@Size("class", 8, "a narrow ResNet-18 and a narrow RepVGG-A0, trained for seconds",
    stage=STAGE["class"], network="resnet", epochs=4)  # fmt: skip
def identities(here: People, network: str, epochs: int) -> Values:
    """What needs no statistics: a gradient's two parts at a block, and a RepVGG beside the plain network it folds into, in float64."""
    how = replace(here.recipe, epochs=epochs, warmup_epochs=1)
    images, targets = here.private(4), torch.arange(4)
    rows = gradient_flow.split(here.network(network, how=how).model(0), images, targets, losses.poincare)
    yield "relative_error[block_gradient, skip_part_plus_branch_part]", max(row.error for row in rows)
    branched = here.network("repvgg", how=how).model(0).double()
    folded = models.skip_connections.fold(branched)
    x = images.double().requires_grad_()
    answers = [net(here.normalise(x)) for net in (branched, folded)]
    backs = [torch.autograd.grad(losses.poincare(y, targets).sum(), x)[0] for y in answers]
    for name, (one, other) in (("output", answers), ("input_gradient", backs)):
        yield f"max_abs_error[repvgg, {name}]", (one - other).abs().max().item()
