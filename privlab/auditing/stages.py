"""The whole book turned on one model of yours: what one image's gradient gives away, by which part, and what would stop it."""

from __future__ import annotations

import math
import operator
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import timm
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from privlab import __version__
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import sensitivity
from privlab.attacks.gradient_inversion.closed_form import first_layer
from privlab.attacks.gradient_inversion.results import State
from privlab.auditing import arguments, asking, validation
from privlab.auditing.exposure import Exposure, Shown, defences, expose, leaking, without, word
from privlab.auditing.likeness import Level, Likeness, level, likeness, without_lpips
from privlab.auditing.report import Asked, Audit, Features, Part, Search
from privlab.auditing.untouched import untouched
from privlab.compute import machine
from privlab.leak import Leak
from privlab.models import parts, representations
from privlab.models.forward import preprocessing

CELLS = 4  # squares a side of the grid whose brightness the parts are asked about
BRIEF = 120.0  # seconds after which a search that no minutes were given to stops
STEPS = ((128**2, 16), (64**2, 64), (0, 200))  # of a short search, by the least number of pixels


def audit(
    model: nn.Module,
    images: Tensor,
    labels: Tensor | Sequence[int],
    *,
    name: str | None = None,
    public: Tensor | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    target: float = 15.0,
    minutes: float = 0.0,
    steps: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Audit:
    """Attack an image classifier by what this book knows, through the gradients of single images, and report.

        report = privlab.audit(model.eval(), images, labels)    # report.page("audit.html"), report.json()

    model: any nn.Module that takes (batch, channels, height, width) and returns (batch, classes), in eval mode. Its weights, mode and
        statistics stay as they are. It is given pixels normalised as its `normalise` says, else as timm's `pretrained_cfg` does, else as
        they are; so for a model of your own set `model.normalise = privlab.data.Normalise(mean, std)`. One that returns more than logits
        wants a module around it that returns them alone.
    images: (n, channels, height, width) in [0, 1], a handful: closed forms take each, parts and search the first.
    labels: (n,) class indices; the search is told them, as an attacker can read them from the last layer (lab 04).
    name: what the report calls the model; its class if not given.
    public: (m, channels, height, width), other images that anybody has; the search is held against their mean, or a grey image.
    groups: part -> names of parameters. If not given: `models.parts` for timm's models, the model's own children for others.
    target: dB; a defence holds where no closed form gets above it on any image.
    minutes: of search; 0 is a short one, its steps by the image's size, which ends after two minutes at the latest.
    steps: of the search, for a repeat that does not hang on the machine's speed; by the size and `minutes` if not given.
    seed: of the noise, the sketch and the search.  progress: show a bar. Ctrl-C during the search, which comes last, ends that alone.
    Raises ValueError for a model that returns anything else than one (batch, classes), learns nothing or is in train mode where that
    matters; images outside [0, 1] or that do not fit it; labels that it does not know; minutes below 0.
    """
    arguments.numbers(target, minutes, steps, seed)
    validation.model(model)
    arguments.groups(model, groups)
    with torch.inference_mode(False), torch.enable_grad():  # whatever the caller is in
        images = arguments.pixels("images", images)
        public = None if public is None else arguments.pixels("public", public)
        labels = arguments.classes(labels, len(images))
    with untouched(model):
        validation.answers(model, images, labels, public)
        return _audited(
            model, images, labels, name, public, groups, target, minutes, steps, operator.index(seed), progress
        )


def _audited(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    name: str | None,
    public: Tensor | None,
    groups: Mapping[str, Sequence[str]] | None,
    target: float,
    minutes: float,
    steps: int | None,
    seed: int,
    progress: bool,
) -> Audit:
    began = time.perf_counter()
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    groups = {part: [n for n in names if n in learnable] for part, names in (groups or _groups(model)).items()}
    groups = {part: names for part, names in groups.items() if names}
    base = torch.full_like(images[:1], 0.5) if public is None else public.mean(0, keepdim=True)
    based = "a grey image" if public is None else f"the mean of {len(public)} public images"
    flat = preprocessing(model).inverse(torch.zeros_like(images[:1])).clamp(0, 1)
    blind = [flat, torch.full_like(flat, 0.5), base]
    levels = [level(target, image, blind, flat) for image in images.split(1)]
    validation.not_flat([each.psnr for each in levels])
    first = next(iter(learnable.values()))
    seconds: dict[str, float] = {}

    with tqdm(total=len(images) + CELLS**2, desc="closed forms", disable=not progress, leave=False) as bar:
        ways = asking.ways(model, images[:1], labels[:1], seed)
        bar.total += len(images) * (len(ways) - 1)
        asked = []
        for way in ways:
            with asking.asked(model, way, seed):
                asked.append(_algebra(model, images, labels, levels, groups, seed, bar))
        tops = [_top(exposures, word(first.dtype), levels) for exposures, _, _ in asked]
        worst = max(range(len(ways)), key=lambda i: (tops[i], not ways[i].random))
        exposures, shares, features = asked[worst]
        sizes = {n: p.numel() for n, p in learnable.items()}
        with asking.asked(model, ways[worst], seed):
            bar.set_description("defences")

            def read(withheld: frozenset[str]) -> Shown:
                found = []
                for i, (exposed, x, y) in enumerate(zip(exposures, images.split(1), labels.split(1), strict=True)):
                    leak = validation.observed(model, x, y).without(withheld)
                    found += without(exposed, model, leak, x, levels[i], i)
                return found

            stopping = defences(exposures, word(first.dtype), [each.psnr for each in levels], sizes, read)
            seconds["closed forms and defences"] = time.perf_counter() - began
            bar.set_description("parts")
            by_part = _parts(model, images[:1], labels[:1], groups, sizes, shares, seed, bar)
            seconds["parts"] = time.perf_counter() - began - sum(seconds.values())
            bar.set_description("search")
            search, recovered = _search(model, images[:1], labels[:1], base, based, minutes, steps, seed, bar)
            seconds["search"] = time.perf_counter() - began - sum(seconds.values())

    read_back = {how: torch.cat([e.pictures[how] for e in exposures]) for how in _in_all(exposures)}
    return Audit(
        model=dict(
            name=str(name or type(model).__name__),
            kind=f"{type(model).__module__}.{type(model).__name__}",
            parameters=sum(p.numel() for p in model.parameters()),
            learnable=sum(sizes.values()),
            precision=word(first.dtype),
            device=str(first.device),
            image_shape=list(images.shape[1:]),
        ),
        settings=dict(
            images=len(images), labels=labels.tolist(), public=0 if public is None else len(public),
            target=float(target), minutes=float(minutes), steps=search.planned, seed=seed,
        ),
        versions=dict(privlab=__version__, torch=torch.__version__, timm=timm.__version__, python=platform.python_version()),
        asked=tuple(Asked(way, *top, i == worst) for i, (way, top) in enumerate(zip(ways, tops, strict=True))),
        levels=tuple(each.psnr for each in levels),
        blind=tuple(levels),
        without_lpips=without_lpips(images),
        solves=tuple(s for e in exposures for s in e.solves),
        needs=_needs(exposures),
        why={form: why for form, why in exposures[0].why.items() if all(form in e.why for e in exposures)},
        features=features,
        defences=tuple(stopping),
        parts=tuple(by_part),
        search=search,
        seconds={**seconds, "all": time.perf_counter() - began},
        peak_gb=machine.peak_gb(),
        pictures={"truth": images, **read_back, "baseline": base} | ({} if recovered is None else {"search": recovered}),
    )  # fmt: skip


def _top(exposures: Sequence[Exposure], computed: str, levels: Sequence[Level]) -> tuple[int, float]:
    """How many images show, and the highest PSNR of any as the gradients were computed; -inf where no form applies."""
    solves = [s for e in exposures for s in e.solves if s.how == computed]
    shown = {s.image for s in leaking(solves, computed, [each.psnr for each in levels])}
    return len(shown), max((s.psnr for s in solves), default=-math.inf)


def _needs(exposures: Sequence[Exposure]) -> dict[str, tuple[str, ...]]:
    """Form -> the gradients that it reads, of the first image that it reads at all."""
    read = {s.form: e.needs[s.form] for e in reversed(exposures) for s in e.solves}
    return exposures[0].needs | read


def _groups(model: nn.Module) -> dict[str, list[str]]:
    """Parts by kind of layer where the names are timm's; otherwise the model's children, from where there are several."""
    if type(model).__module__.split(".")[0] in ("timm", "privlab"):
        return parts.group(model)
    names, depth = [n for n, _ in model.named_parameters()], 1
    while len({tuple(n.split(".")[:depth]) for n in names}) == 1 and depth < max(n.count(".") for n in names):
        depth += 1
    groups: dict[str, list[str]] = {}
    for n in names:
        groups.setdefault(".".join(n.split(".")[:depth]), []).append(n)
    return groups


def _algebra(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    levels: Sequence[Level],
    groups: Mapping[str, Sequence[str]],
    seed: int,
    bar: tqdm,
) -> tuple[list[Exposure], dict[str, list[float]], Features | None]:
    """Closed forms on each image; each part's share of the squared gradient, image by image; what the head gives away."""
    exposures, shares, features = [], {part: list[float]() for part in groups}, None
    for i, (image, label) in enumerate(zip(images.split(1), labels.split(1), strict=True)):
        leak = validation.observed(model, image, label)
        squares = {n: g.double().square().sum().item() for n, g in leak.grads.items()}
        validation.gradient(sum(squares.values()), i)
        for part, names in groups.items():
            shares[part].append(sum(squares[n] for n in names) / sum(squares.values()))
        exposures.append(expose(model, leak, image, levels[i], seed + i, i))
        features = features or _features(model, leak, image)
        bar.update()
    return exposures, shares, features


def _features(model: nn.Module, leak: Leak, image: Tensor) -> Features | None:
    """What enters the last linear layer, from its two gradients, beside what did; None where there is no such layer with a bias."""
    try:
        name = representations.last_linear(model)
        entered = first_layer.entered(leak[f"{name}.weight"], leak[f"{name}.bias"]).cpu()
        true = representations.read(model, image)[representations.LAST][0].double()  # (width,)
    except ValueError:
        return None
    return Features(name, len(true), ((entered - true).norm() / true.norm()).item())


def _parts(
    model: nn.Module,
    image: Tensor,
    label: Tensor,
    groups: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    shares: Mapping[str, Sequence[float]],
    seed: int,
    bar: tqdm,
) -> list[Part]:
    """What each part says of the image, see `sensitivity.told_apart`."""

    def edits() -> Iterator[Tensor]:
        for edited in sensitivity.brightened(image, CELLS):
            yield edited
            bar.update()

    speaking = {part: names for part, names in groups.items() if shares[part][0] > 0}
    singular = sensitivity.told_apart(model, image, label, edits(), speaking, seed)
    rows = []
    for part, names in groups.items():
        s = singular.get(part)
        change = rank = condition = None
        if s is not None and s[0] > 0:
            change = s.square().mean().sqrt().item()
            rank, condition = sensitivity.effective_rank(s), sensitivity.condition(s)
        numbers = sum(sizes[n] for n in names)
        rows.append(Part(part, len(names), numbers, fmean(shares[part]), change, rank, condition))
    return rows


def _search(
    model: nn.Module,
    image: Tensor,
    label: Tensor,
    base: Tensor,
    based: str,
    minutes: float,
    steps: int | None,
    seed: int,
    bar: tqdm,
) -> tuple[Search, Tensor | None]:
    """Gradient matching for one image, as long as it may; what it found is None where there was nothing to find it with."""
    leak = validation.observed(model, image, label)
    planned = steps or next(n for pixels, n in STEPS if image[0, 0].numel() >= pixels)
    best: State | None = None
    done, ended, began = 0, "steps", time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*fused kernel.*")
            if minutes and not steps:
                planned = max(planned, int(60 * minutes / _seconds_a_step(model, leak, seed)))
            bar.total += planned
            for state in gradient_inversion.annealed(planned).search(model, leak, seed=seed):
                if math.isfinite(state.score) and (best is None or state.score < best.score):
                    best = state
                done, ended = state.step, state.reason or ended
                bar.update(min(done, 1))
                if not steps and not state.reason and time.perf_counter() - began > max(BRIEF, 75 * minutes):
                    ended = "time"
                    break
    except KeyboardInterrupt:
        if best is None:
            raise
        ended = "interrupted"
    except (
        Exception
    ) as error:  # a layer without a second derivative, no memory for one, or what a stranger's layer raises
        ended = f"it could not be run: {validation.line(error)}"
    recovered = None if best is None else best.images.cpu().float()
    read = None if recovered is None else likeness(recovered, image)
    took = time.perf_counter() - began
    return Search(planned, done, took, ended, *_scores(read), based, *_scores(likeness(base, image))), recovered


def _seconds_a_step(model: nn.Module, leak: Leak, seed: int) -> float:
    """Of the second step, which has nothing left to set up."""
    states = gradient_inversion.annealed(3).search(model, leak, seed=seed)
    next(states), next(states)
    began = time.perf_counter()
    next(states)
    return time.perf_counter() - began


def _scores(read: Likeness | None) -> tuple[Any, float | None, float | None]:
    return (None, None, None) if read is None else (read.psnr, read.ssim, read.lpips)


def _in_all(exposures: Sequence[Exposure]) -> list[str]:
    """The ways of sending of which there is a picture for every image."""
    return [how for how in exposures[0].pictures if all(how in e.pictures for e in exposures)]
