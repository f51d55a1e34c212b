"""The whole book turned on one model of yours: what one image's gradient gives away, by which part, and what would stop it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from privlab.attacks import gradient_inversion
from privlab.auditing import inputs, rows
from privlab.auditing.forms import defences, expose
from privlab.auditing.judge import Judge
from privlab.auditing.report import Audit, Part, Search
from privlab.leak import Leak
from privlab.models import parts
from privlab.models.forward import preprocessing

STEPS = ((128**2, 16), (64**2, 64), (0, 200))  # of a short search, by the least number of pixels


def audit(
    model: nn.Module,
    images: Tensor,
    labels: Tensor | Sequence[int],
    *,
    name: str | None = None,
    public: Tensor | None = None,
    steps: int | None = None,
    progress: bool = True,
) -> Audit:
    """Attack an image classifier by what this book knows, through the gradients of single images, and report.

        report = privlab.audit(model.eval(), images, labels)    # report.page("audit.html"), report.json()

    model: any nn.Module in eval mode that takes (batch, channels, height, width) and returns (batch, classes); a copy of it is asked. It is
        given pixels normalised as its `normalise` says, else as timm's `pretrained_cfg` does, else as they are; so for a model of your own
        set `model.normalise = privlab.data.Normalise(mean, std)`. One that returns more than logits wants a module around it.
    images: (n, channels, height, width) in [0, 1], a handful: closed forms take each, the search the first.
    labels: (n,) class indices; the search is told them, as an attacker can read them from the last layer (lab 04).
    name: what the report calls the model; its class if not given.
    public: (m, channels, height, width), other images that anybody has: what is read has to be nearer than their mean.
    steps: of the search; by the image's size if not given.  progress: show a bar. Ctrl-C during the search, which comes last, ends that.
    Raises ValueError for a model that is no classifier of these images, learns nothing, is in train mode, draws at random or cannot be
    copied; images outside [0, 1]; labels that it does not know; steps below 1.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps={steps!r} searches nothing; give 1 or more, or None")
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng():  # whatever the caller is in
        images = inputs.pixels("images", images)
        public = None if public is None else inputs.pixels("public", public)
        labels = inputs.classes(labels, len(images))
        own = inputs.copied(model)
        inputs.check(own, images, labels, public)
        steps = steps or next(n for pixels, n in STEPS if images[0, 0].numel() >= pixels)
        with tqdm(total=len(images) + steps, disable=not progress, leave=False) as bar:
            return _audited(own, images, labels, name or type(own).__name__, public, steps, bar)


def _audited(
    model: nn.Module, images: Tensor, labels: Tensor, name: str, public: Tensor | None, steps: int, bar: tqdm
) -> Audit:
    flat = preprocessing(model).inverse(torch.zeros_like(images[:1])).clamp(0, 1)
    base = flat if public is None else public.mean(0, keepdim=True)
    judges = [Judge(image, [flat, base]) for image in images.split(1)]

    def leak_of(index: int) -> Leak:
        return inputs.leak_of(model, images[index : index + 1], labels[index : index + 1])

    exposed, pictures = [], {"the images": [images]}
    for i, judge in enumerate(judges):
        found, why = expose(model, leak_of(i), judge, i)
        exposed.append((found, why))
        for how, each in found.items():
            pictures.setdefault(how, []).extend([max(each, key=lambda one: one[1].fitted)[2]] if each else [])
        bar.update()
    solves = tuple(solve for found, _ in exposed for each in found.values() for _, solve, _ in each)
    leak, size = leak_of(0), " x ".join(map(str, images.shape[1:]))
    search, pictures["a short search"] = _search(model, leak, judges[0], base, steps, bar)
    sent = f"{sum(g.numel() for g in leak.grads.values()):,} numbers in {str(leak.precision).removeprefix('torch.')}"
    return Audit(
        name,
        f"{sent}; {len(images)} images of {size}, labels {labels.tolist()}",
        solves,
        {form: why for form, why in exposed[0][1].items() if all(form in each for _, each in exposed)},
        tuple(defences(model, leak_of, judges, solves)),
        tuple(_parts(model, leak)),
        search,
        {how: torch.cat(some) for how, some in pictures.items() if some},
    )


def _parts(model: nn.Module, leak: Leak) -> Iterator[Part]:
    """By kind of layer where the names are timm's; else by the model's children."""
    timms = type(model).__module__.split(".")[0] in ("timm", "privlab")
    kinds = {n: part for part, names in parts.group(model).items() for n in names} if timms else {}
    groups: dict[str, list[Tensor]] = {}
    for n, g in leak.grads.items():
        groups.setdefault(kinds.get(n, n.split(".")[0]), []).append(g.float())
    for part, grads in groups.items():
        share = sum(g.square().sum().item() for g in grads) / leak.norm.item() ** 2
        matrices = [g.flatten(1) for g in grads if g.ndim > 1 and len(g) > 1 and g.any()]
        ranks = [(g.square().sum() / rows.leading(g)[0].square().sum()).item() for g in matrices]
        yield Part(part, sum(g.numel() for g in grads), share, min(ranks, default=None))


def _search(
    model: nn.Module, leak: Leak, judge: Judge, base: Tensor, steps: int, bar: tqdm
) -> tuple[Search, list[Tensor]]:
    """Gradient matching for one image, as long as it may."""
    best, least, done, ended = base, math.inf, 0, ""
    try:
        for state in gradient_inversion.annealed(steps).search(model, leak):
            if state.score < least:
                best, least = state.images.cpu().float(), state.score
            done, ended = state.step, state.reason
            bar.update(min(done, 1))
    except KeyboardInterrupt:
        ended = "interrupted"
    except Exception as error:  # a layer without a second derivative, or no memory for one
        ended = f"it could not be run: {inputs.line(error)}"
    look = judge.look(torch.zeros(1), best)
    return Search(done, ended, look.psnr, look.fitted, judge.blind), [best]
