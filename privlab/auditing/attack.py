"""The whole book turned on one model of yours: what one image's gradient gives away, by which part, and what would stop it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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

    exposed = []
    for i, judge in enumerate(judges):
        exposed.append(expose(model, leak_of(i), judge, i))
        bar.update()
    solves = tuple(solve for found, _ in exposed for each in found.values() for _, solve, _ in each)
    best = [{how: max(each, key=lambda one: one[1].fitted)[2] for how, each in f.items() if each} for f, _ in exposed]
    leak = leak_of(0)
    search, recovered = _search(model, leak, judges[0], base, steps, bar)
    pictures = {how: torch.cat([each[how] for each in best]) for how in best[0] if all(how in each for each in best)}
    sent, size = sum(g.numel() for g in leak.grads.values()), " x ".join(map(str, leak.image_shape))
    return Audit(
        name,
        f"{sent:,} numbers sent in {str(leak.precision).removeprefix('torch.')}; {len(images)} images of {size}, labels {labels.tolist()}",
        solves,
        {form: why for form, why in exposed[0][1].items() if all(form in each for _, each in exposed)},
        tuple(defences(model, leak_of, judges, solves)),
        tuple(_parts(model, leak)),
        search,
        {"the images": images} | pictures,
        {"image 0": images[:1], "the search": recovered, "no gradient": base},
    )


def _parts(model: nn.Module, leak: Leak) -> list[Part]:
    """By kind of layer where the names are timm's; else by the model's children."""
    timms = type(model).__module__.split(".")[0] in ("timm", "privlab")
    groups: Mapping[str, Sequence[str]] = parts.group(model) if timms else {
        n: [m for m in leak.grads if m.split(".")[0] == n] for n in dict.fromkeys(m.split(".")[0] for m in leak.grads)
    }  # fmt: skip
    table = []
    for part, names in groups.items():
        if grads := [
            leak.grads[n].flatten(1) if leak.grads[n].ndim > 1 else leak.grads[n] for n in names if n in leak.grads
        ]:
            share = sum(g.double().square().sum().item() for g in grads) / leak.norm.item() ** 2
            matrices = [g.float() for g in grads if g.ndim > 1 and len(g) > 1 and g.any()]
            ranks = [(g.square().sum() / rows.leading(g)[0].square().sum()).item() for g in matrices]
            table.append(Part(part, sum(g.numel() for g in grads), share, min(ranks, default=None)))
    return table


def _search(model: nn.Module, leak: Leak, judge: Judge, base: Tensor, steps: int, bar: tqdm) -> tuple[Search, Tensor]:
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
    return Search(steps, done, ended, look.psnr, look.fitted, judge.blind), best
