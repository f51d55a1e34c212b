"""The whole book turned on one model of yours: what one image's gradient gives away, by which part, and what would stop it."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.transforms.functional import to_tensor
from tqdm.auto import tqdm

from privlab import data, models
from privlab.attacks.gradient_inversion import annealed
from privlab.auditing.forms import Judge, Row, defences, expose, leading
from privlab.auditing.report import Audit
from privlab.compute.files import guarded, visible
from privlab.data import faces, sources
from privlab.data.images import check_range
from privlab.leak import Leak, observe
from privlab.models import morph, parts, zoo
from privlab.models.forward import forgetful, preprocessing

STEPS = ((128**2, 16), (64**2, 64), (0, 200))  # of a short search, by the least number of pixels
COUNT, PUBLIC = 4, 32  # images that the command line audits, and others, at most, whose mean is the baseline
SAME = 1e-4  # of a gradient's length, or four units of its float format's rounding: nearer ones are one gradient


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
    name: what the report calls the model; its class if not given.  progress: show bars. Ctrl-C ends the search, which comes last.
    public: (m, channels, height, width), other images that anybody has: what is read has to be nearer than their mean.
    steps: of the search; by the image's size if not given.
    Raises ValueError for a model that is no classifier of these images, learns nothing, is in train mode, draws at random or cannot be
    copied; images outside [0, 1]; labels that it does not know; steps below 1.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps={steps!r} searches nothing; give 1 or more, or None")
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng([]):  # whatever the caller is in
        images, labels = _pixels("images", images), _classes(labels, len(images))
        public = images[:0] if public is None else _pixels("public", public)
        model = _copied(model)
        _check(model, images, labels, public)
        guesses = [preprocessing(model).inverse(torch.zeros_like(images[:1])).clamp(0, 1)]
        guesses += [public.mean(0, keepdim=True)] if len(public) else []
        judges = [Judge(image, guesses) for image in images.split(1)]

        def leak_of(index: int) -> Leak:
            return _leak_of(model, images[index : index + 1], labels[index : index + 1])

        bar = tqdm(range(len(images)), disable=not progress, leave=False)
        exposed = [expose(model, leak_of(i), judges[i], i) for i in bar]
        solves = [solve for found, _ in exposed for _, solve, _ in found]
        pictures = {"the images": images}
        for how in dict.fromkeys(solve["how"] for solve in solves):
            those = [[(s["fitted"], p) for _, s, p in found if s["how"] == how] for found, _ in exposed]
            pictures[how] = torch.cat([max(some, key=lambda one: one[0])[1] for some in those if some])
        leak, steps = leak_of(0), steps or next(n for pixels, n in STEPS if images[0, 0].numel() >= pixels)
        search, pictures["a short search"] = _search(model, leak, steps, judges[0], guesses[-1], progress)
        why = {form: why for form, why in exposed[0][1].items() if all(form in each for _, each in exposed)}
        about = f"{leak}; {len(images)} images of {' x '.join(map(str, images.shape[1:]))}, labels {labels.tolist()}"
        held, said = [*defences(model, leak_of, judges, solves)], [*_parts(model, leak)]
        return Audit(name or type(model).__name__, about, solves, why, held, said, search, pictures)


def _parts(model: nn.Module, leak: Leak) -> Iterator[Row]:
    """By kind of layer in four of timm's families; else by the model's children."""
    timms = {kind.__name__ for kind in type(model).__mro__} & parts.FAMILIES
    kinds = {n: part for part, names in parts.group(model).items() for n in names} if timms else {}
    groups: dict[str, list[Tensor]] = {}
    for n, g in leak.grads.items():
        groups.setdefault(kinds.get(n, n.split(".")[0]), []).append(g.float())
    for part, grads in groups.items():
        share = sum(g.square().sum().item() for g in grads) / leak.norm.item() ** 2
        matrices = [g.flatten(1) for g in grads if g.ndim > 1 and len(g) > 1 and g.any()]
        ranks = [(g.square().sum() / leading(g)[0].square().sum()).item() for g in matrices]
        yield {"part": part, "numbers": sum(g.numel() for g in grads), "share": share, "rank": min(ranks, default=None)}


def _search(model: nn.Module, leak: Leak, steps: int, judge: Judge, guess: Tensor, bar: bool) -> tuple[Row, Tensor]:
    """Gradient matching for one image; the guess where it found nothing."""
    images, done = guess, 0
    try:
        result = replace(annealed(steps), derivative="auto").run(model, leak, snapshots=(), progress=bar)
        images, done, ended = result.images.float(), len(result.trace) - 1, result.reasons[0]
    except KeyboardInterrupt:
        ended = "interrupted"
    except Exception as error:  # a layer without a second derivative, or no memory for one
        ended = f"it could not be run: {_line(error)}"
    seen, _ = judge.look(images, 0 * images, torch.ones_like(images, dtype=torch.bool))
    return {**seen, "steps": done, "ended": ended, "blind": judge.blind}, images


def _pixels(argument: str, images: Any) -> Tensor:
    """(n, channels, height, width) in [0, 1] as float32 on the CPU, from a tensor or an array of floats."""
    images = torch.as_tensor(images) if isinstance(images, np.ndarray) else images
    if not isinstance(images, Tensor) or not images.is_floating_point() or images.ndim != 4 or not images.numel():
        got = f"{tuple(images.shape)} of {images.dtype}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"{argument}: got {got}; give a tensor of floats (n, channels, height, width) in [0, 1]")
    check_range(argument, images, "give values in [0, 1]; the model's `normalise` normalises them")
    return images.detach().cpu().float().clamp(0, 1)  # a hundredth beside it passed for rounding


def _classes(labels: Any, count: int) -> Tensor:
    """(count,) int64 on the CPU, from whole numbers of any width."""
    indices = np.atleast_1d(labels.cpu() if isinstance(labels, Tensor) else labels)
    if indices.shape != (count,) or indices.dtype.kind not in "iu":
        raise ValueError(f"labels={labels!r:.60} for {count} images; give a whole number each, such as [0, 3]")
    return torch.from_numpy(indices.astype(np.int64))


def _copied(model: Any) -> nn.Module:
    """A copy of a model to work on, of the plain network behind torch.compile and DataParallel; ValueError for what no audit is of."""
    model = getattr(model, "_orig_mod", model)
    model = model.module if isinstance(model, nn.DataParallel) else model
    kind = type(model).__name__
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"model: got {kind}; give an nn.Module in Python, such as privlab.models.build('resnet50')")
    if training := [name or "the model" for name, module in model.named_modules() if module.training]:
        raise ValueError(f"model: {training[0]!r} of {kind} is in train mode; call model.eval() first")
    try:
        with forgetful(model):
            return copy.deepcopy(model)
    except Exception as error:  # what a stranger's layer keeps
        raise ValueError(f"model: {kind} cannot be copied ({_line(error)}), and an audit works on a copy") from error


def _check(model: nn.Module, images: Tensor, labels: Tensor, public: Tensor) -> None:
    """ValueError where a model is no classifier of these images, or its gradient of one image is another the second time."""
    kind, noted, channels = type(model).__name__, len(preprocessing(model).mean), images.shape[1]
    if public.shape[1:] != images.shape[1:]:
        raise ValueError(f"public: got {tuple(public.shape)}; give {tuple(images.shape[1:])}, as `images` are")
    if flat := [i for i, image in enumerate(images) if image.std() < SAME]:
        raise ValueError(f"images: image {flat[0]} is of one colour, so nothing is there to be read; give photographs")
    if noted not in (1, channels):
        plain = "set model.normalise = privlab.data.Normalise((0.5,), (0.5,)) if the model takes them"
        raise ValueError(f"images: have {channels} channels, and {kind} normalises {noted}; give {noted}, or {plain}")
    state = torch.get_rng_state()
    one, other = (_leak_of(model, images[:1], labels[:1]) for _ in range(2))
    apart = torch.stack([(other[n] - one[n]).float().norm() for n in one.grads]).norm() / one.norm.float()
    if apart > max(SAME, 4 * torch.finfo(one.precision).eps) or not torch.equal(state, torch.get_rng_state()):
        differ = f"two gradients of image 0 differ by {100 * apart:.2g}% of their length"
        raise ValueError(f"model: {kind} draws at random: {differ}; switch its dropout or noise off")


def _leak_of(model: nn.Module, image: Tensor, label: Tensor) -> Leak:
    """What `observe` gives; ValueError for whatever a stranger's model raises, and for a gradient that says nothing."""
    kind = type(model).__name__
    try:
        leak = observe(model, image, label)
    except Exception as error:
        known = isinstance(error, ValueError) and str(error).startswith(("labels", "images", "model"))
        step = "" if known else f"model: a step of {kind} on an image of {tuple(image.shape[1:])} raised "
        raise ValueError(step + _line(error)) from error
    if not leak.norm.isfinite():
        raise ValueError(f"model: the gradient of {kind} holds NaN or infinity; look at its weights and `normalise`")
    if leak.norm == 0:
        raise ValueError(f"model: the gradient of {kind} is zero; is it sure of the label {label.item()}?")
    return leak


def _line(error: Exception) -> str:
    """The first line of what an exception says, with its kind where that says more."""
    first = str(error).partition("\n")[0]
    return first if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {first}"


def named(name: str, classes: int | None = None, weights: Path | None = None) -> nn.Module:
    """A model of timm's or of the zoo's, in eval mode.  classes: rows of its head.  weights: a safetensors file of its state dict."""
    model: nn.Module = models.build(name, num_classes=classes, seed=0)
    if weights is not None:
        with guarded(weights, f"is no safetensors of {name}", "save it with safetensors.torch.save_file"):
            model.load_state_dict(load_file(weights))
    return model


def photographs(where: str | None, model: Any, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """`COUNT` images as a model takes them, (n, channels, height, width) in [0, 1], their labels, and others, or None where there are none.

    where: a set of `data.names()`, whose labels count modulo the model's classes, or a folder of image files, which get the model's own
    answers for labels. If not given, "imagenet_samples", or "cifar10_samples" for small images.  name: as `named` has it.
    """
    small = name in zoo.CIFAR or name in morph.NAMES
    channels, *sides = (3, 32, 32) if small else getattr(model, "pretrained_cfg", {}).get("input_size", (3, 64, 64))
    side, _ = getattr(getattr(model, "patch_embed", None), "img_size", None) or sides
    where, labels = where or ("imagenet_samples" if side > 64 else "cifar10_samples"), None
    if where in data.names():
        try:
            held = data.load(where)
        except RuntimeError as error:  # no origin delivered
            raise ValueError(f"images={where!r} could not be fetched; give photographs: --images FOLDER") from error
        some = torch.randperm(len(held), generator=torch.Generator().manual_seed(0))[: COUNT + PUBLIC].tolist()
        photos, labels = map(list, zip(*(held.one(i, size=side) for i in some), strict=True))
    else:
        files = [f for f in visible(where, "**/*") if f.suffix.lower() in Image.registered_extensions()]
        opened = [ImageOps.exif_transpose(Image.open(file)) for file in files[: COUNT + PUBLIC]]
        mode = "L" if channels == 1 else "RGB"
        photos = [to_tensor(ImageOps.fit(faces.converted(photo, mode), (side, side)))[None] for photo in opened]
    if not photos:
        raise ValueError(f"images={where!r} has no image, and is no known set{sources.nearest(where, data.names())}")
    images = torch.cat(photos)  # (up to COUNT + PUBLIC, channels, height, width)
    with torch.no_grad():
        logits = model(preprocessing(model)(images[:COUNT]))  # (images, classes)
    own = logits.argmax(1) if labels is None else torch.cat(labels[:COUNT]) % logits.shape[1]
    return images[:COUNT], own, images[COUNT:] if len(images) > COUNT else None
