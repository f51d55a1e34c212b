"""What an audit found, and how it is read: as text, as plain data, in a notebook, and as one page of HTML."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from privlab import metrics
from privlab.auditing import exposure
from privlab.auditing.asking import Way
from privlab.auditing.exposure import Defence, Solve
from privlab.auditing.headline import headline, ways
from privlab.auditing.html import Report, Section
from privlab.auditing.likeness import Level, Likeness
from privlab.auditing.words import dB, percent, rank, short, span, two
from privlab.compute.atomic import write_atomic
from privlab.notebook import plots
from privlab.notebook.plots import Picture

SHOWN = 4  # pictures a row


@dataclass(frozen=True)
class Part:
    """One part of the gradient.  share: of the squared norm of the gradient, mean over the images.

    change: how far it moves when one square of the image gets a tenth brighter, over its own norm (root mean square over the squares).
    rank, condition: of these changes, see `sensitivity.told_apart`; None where the part's gradient is zero.
    """

    name: str
    tensors: int
    numbers: int
    share: float
    change: float | None
    rank: float | None
    condition: float | None


@dataclass(frozen=True)
class Search:
    """A search for the first image.  planned, steps: those it was meant to take, and those it took.

    ended: "steps", "time", "interrupted", "not finite", or why it could not be run.  psnr, ssim, lpips: of what it found; None where it
    found nothing, SSIM and LPIPS also where they cannot be had.  baseline: what it is held against, with its scores.
    """

    planned: int
    steps: int
    seconds: float
    ended: str
    psnr: float | None
    ssim: float | None
    lpips: float | None
    baseline: str
    baseline_psnr: float
    baseline_ssim: float | None
    baseline_lpips: float | None


@dataclass(frozen=True)
class Features:
    """What the last linear layer gives away: its input, from its two gradients.  error: relative, of the first image's."""

    layer: str
    width: int
    error: float


@dataclass(frozen=True)
class Asked:
    """A way in which the model was asked for gradients.  images, psnr: how many the closed forms show, and the best of them, in dB.

    reported: whether it is the worst, of which the report is.
    """

    way: Way
    images: int
    psnr: float
    reported: bool


@dataclass(frozen=True, repr=False)
class Audit:
    """What `privlab.audit` found. It prints as text and shows itself in a notebook.

    model, settings, versions: plain dicts.  asked: as given, and in eval mode where that is another gradient.
    levels: for each image, the PSNR above which a closed form counts as a leak: the target, or that of a flat picture where this is higher.
    blind: the best score of a picture that looks at no gradient, by each measure.
    without_lpips: why there is no LPIPS, or None.  solves: every closed form on every image.  needs: form -> the gradients that it reads.
    why: form -> why it does not apply.  defences: nothing where nothing leaks.  seconds: by stage.  peak_gb: of the process so far.
    pictures: name -> (images, channels, height, width) in [0, 1], on the CPU.
    """

    model: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    asked: tuple[Asked, ...]
    levels: tuple[float, ...]
    blind: tuple[Level, ...]
    without_lpips: str | None
    solves: tuple[Solve, ...]
    needs: dict[str, tuple[str, ...]]
    why: dict[str, str]
    features: Features | None
    defences: tuple[Defence, ...]
    parts: tuple[Part, ...]
    search: Search
    seconds: dict[str, float]
    peak_gb: float
    pictures: dict[str, Tensor] = field(compare=False)

    @property
    def leaks(self) -> list[Solve]:
        """The closed forms, image by image, that show the image as the gradients were computed."""
        return exposure.leaking(self.solves, self.model["precision"], self.levels)

    def json(self) -> dict[str, Any]:
        """All but the pictures as plain data that strict JSON can carry: an infinite number is the text "inf"."""
        fields = dataclasses.asdict(dataclasses.replace(self, pictures={}))
        return {name: _plain(value) for name, value in fields.items() if name != "pictures"}

    def text(self) -> str:
        """The report in lines for a terminal."""
        return report(self).text()

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write the report with its pictures as one HTML file, which refers to no other; returns its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, report(self).page().encode())
        return path

    __repr__ = text

    def _repr_html_(self) -> str:
        return f"<div>{report(self).body(3)}</div>"


# -- in words ----------------------------------------------------------------------------------------------------------------


def report(audit: Audit) -> Report:
    """An audit in words and pictures, in the order that it is read."""
    sections = [_algebra(audit), _search(audit), _parts(audit), _defences(audit), _limits(audit)]
    return Report(f"What a gradient of {audit.model['name']} gives away", headline(audit), sections)


def _algebra(audit: Audit) -> Section:
    computed = audit.model["precision"]
    rows, notes = [], []
    for form in dict.fromkeys(s.form for s in audit.solves):
        bare, rounded = ([s for s in audit.solves if s.form == form and s.how == how] for how in (computed, "bfloat16"))
        condition = short(statistics.median(s.condition for s in bare))
        psnrs = [span([s.psnr for s in solves]) if solves else "nothing left" for solves in (bare, rounded)]
        rows.append((form, *psnrs, rank(bare), rank(rounded), condition))
        notes += [f"{form}: {note}." for note in dict.fromkeys(s.note for s in bare if s.note)]
    notes += [f"{row[0]} reads the gradients of {' and '.join(audit.needs[row[0]])}." for row in rows]
    for reason in dict.fromkeys(audit.why.values()):
        forms = [form for form, why in audit.why.items() if why == reason]
        verb = "does" if len(forms) == 1 else "do"
        notes.append(f"{', '.join(forms)} {verb} not apply: {reason.removeprefix('model: ')}.")
    if f := audit.features:
        back = "come back" if f.error < 0.01 else "do not come back"
        notes.append(
            f"The {f.width:,} features that enter {f.layer!r}, the last linear layer, {back} from its own two gradients (relative error "
            f"{f.error:.0e}), whatever stands before it; lab 03 asks what features tell of a person."
        )
    before = (
        "Linear systems that the gradient of one image satisfies. PSNR: median over the images, and the range. Rank: of the unknowns, the "
        "directions that stand above the rounding; the others stay hidden. Condition: largest over smallest singular value."
    )
    head = ("closed form", f"PSNR, {computed}", "PSNR, bfloat16", f"rank, {computed}", "rank, bfloat16", "condition")
    return Section(
        "Closed forms", [before if rows else "None applies."], head, rows, notes, functools.partial(_read_back, audit)
    )


def _search(audit: Audit) -> Section:
    s, title = audit.search, "A search on a small budget"
    before = "A lower bound, no verdict. Gradient matching (`presets.annealed`) from noise on image 0, its label and all gradients known."
    if s.psnr is None:
        return Section(title, [before, f"It found nothing: {s.ended}."])
    scores = (
        (f"the search, {s.steps} steps", s.psnr, s.ssim, s.lpips),
        (f"{s.baseline}, which looks at no gradient", s.baseline_psnr, s.baseline_ssim, s.baseline_lpips),
    )
    rows = [(name, dB(psnr), two(ssim), two(lpips)) for name, psnr, ssim, lpips in scores]
    stopped = {"steps": "", "time": "; its time was over", "interrupted": "; it was interrupted"}
    after = f"{s.steps} of {s.planned} steps in {s.seconds:.0f} s{stopped.get(s.ended, f'; {s.ended}')}."
    if s.psnr <= s.baseline_psnr:
        after += " By PSNR it is not above the picture that looks at no gradient. So few steps seldom are, at large sizes above all."
    else:
        after += f" It is {s.psnr - s.baseline_psnr:.1f} dB above the picture that looks at no gradient."
    nearer = audit.blind[0].nearer(Likeness(s.psnr, s.ssim, s.lpips))
    after += f" By {_judges(audit)} it is {'' if nearer else 'not '}nearer to the image than every picture that looks at none."
    after += " Minutes buy more steps."
    return Section(title, [before], ("", "PSNR", "SSIM", "LPIPS"), rows, [after], functools.partial(_searched, audit))


def _parts(audit: Audit) -> Section:
    rows = []
    for p in audit.parts:
        changes = ("its gradient of the first image is zero", "", "")
        if p.change is not None and p.rank is not None and p.condition is not None:
            changes = (percent(p.change), f"{p.rank:.1f}", short(p.condition))
        rows.append((p.name, str(p.tensors), f"{p.numbers:,}", percent(p.share), *changes))
    before = (
        "Share: of the squared length of the gradient. The other columns ask what a part says of image 0: each square of a 4 x 4 grid "
        "gets a tenth of the range brighter (or darker), and the gradient is taken anew. Change: how far the part moves, over its length. "
        "Effective rank: how many of the 16 changes are unlike each other (16: all show, and alike). Condition: the clearest mixture of "
        "them over the faintest. All this is near this one image, and no score of how much can be read back."
    )
    head = ("part", "tensors", "numbers", "share", "change", "effective rank", "condition")
    return Section("Which parts speak of the image", [before], head, rows)


def _defences(audit: Audit) -> Section:
    title, level = "Which defence costs least", f"{audit.settings['target']:g} dB"
    if not audit.defences:
        before = f"No closed form reads an image (above {level}, or a flat picture's score where that is higher), so no defence was tried."
        return Section(title, [before, "Noise against a search is lab 13's subject."])
    rows = []
    for d in audit.defences:
        name = f"withhold {', '.join(d.withheld)}" if d.withheld else d.name
        left = ("no leak left", "", "") if d.psnr is None else (dB(d.psnr), two(d.ssim), two(d.lpips))
        rows.append((name, f"{d.energy:.1g}", f"{d.numbers:,}", *left, "yes" if d.holds else "no"))
    rows.append(("no gradient at all", "", "", *_blind(audit), ""))
    noise, withheld = exposure.cheapest(audit.defences)
    least = f"{noise.name} ({noise.energy:.1g} of the gradient's energy)" if noise else "none of those tried is enough"
    fewest, learnable = "none", audit.model["learnable"]
    if withheld:
        share = percent(withheld.numbers / learnable)
        fewest = f"{', '.join(withheld.withheld)} ({withheld.numbers:,} of {learnable:,}, {share})"
    before = (
        f"A defence holds where no closed form gets above {level} on any image, or above a flat picture's score where that is higher, and "
        f"none is nearer to its image, by {_judges(audit)}, than the best picture that looks at no gradient: a flat or grey one, or the "
        "mean of the public images. The noise is Gaussian, stated by its norm over the gradient's, and the attacker knows its size. Energy "
        "is the square of that."
    )
    after = [
        f"Least noise: {least}. Fewest numbers withheld: {fewest}.",
        *([f"LPIPS is left out: {audit.without_lpips}."] if audit.without_lpips else []),
        "What a defence costs in accuracy is not measured here, nor what it leaves to a search or to algebra that we do not know. Look at "
        "the pictures: no measure sees all that an eye sees.",
    ]
    head = (
        "defence",
        "energy of noise",
        "numbers withheld",
        "highest PSNR left",
        "highest SSIM",
        "lowest LPIPS",
        "holds",
    )
    return Section(title, [before], head, rows, after)


def _blind(audit: Audit) -> tuple[str, str, str]:
    """The best that pictures which look at no gradient reach on any image, by each measure."""
    ssims = [level.ssim for level in audit.blind if level.ssim is not None]
    distances = [level.lpips for level in audit.blind if level.lpips is not None]
    best = max(level.score for level in audit.blind)
    return dB(best), two(max(ssims, default=None)), two(min(distances, default=None))


def _judges(audit: Audit) -> str:
    """The measures beside PSNR that can be had, in words."""
    words = ["SSIM"] if audit.blind[0].ssim is not None else []
    words += [] if audit.without_lpips else ["LPIPS"]
    return " and ".join(words) or "SSIM and LPIPS, for which the images are too small,"


def _limits(audit: Audit) -> Section:
    m, s, took = audit.model, audit.settings, audit.seconds
    size = "x".join(map(str, m["image_shape"]))
    stages = ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in took.items() if stage != "all")
    before = [
        f"{m['name']} ({m['kind']}): {m['learnable']:,} of {m['parameters']:,} parameters learn; {m['precision']} on {m['device']}. "
        f"{s['images']} images of {size}, each by itself, of the classes {', '.join(map(str, s['labels']))}. Seed "
        f"{s['seed']}.{ways(audit)}",
        "Not looked at: batches and several local steps, where images hide among each other; train mode; membership and attribute "
        "inference, which need the training data (labs 01 to 03); model inversion (lab 11); other searches and priors (labs 06, 07).",
        f"{took['all']:.0f} s ({stages}); {audit.peak_gb:.1f} GB at most. {', '.join(f'{k} {v}' for k, v in audit.versions.items())}.",
    ]
    return Section("What was looked at, and what was not", before)


# -- in pictures -------------------------------------------------------------------------------------------------------------


def _read_back(audit: Audit) -> list[Picture]:
    if not audit.solves or not _drawable(audit):
        return []
    truth = audit.pictures["truth"][:SHOWN]
    rows: dict[str, Tensor] = {"the images": truth}
    captions: dict[str, list[str]] = {}
    noise, _ = exposure.cheapest(audit.defences)
    for how in dict.fromkeys([audit.model["precision"], "bfloat16", *([noise.name] if noise else [])]):
        if how in audit.pictures:
            title = f"read back, {how}" + (" (the least noise that holds)" if noise and how == noise.name else "")
            rows[title] = audit.pictures[how][:SHOWN]
            captions[title] = [dB(score) for score in metrics.psnr(rows[title], truth).tolist()]
    alt = f"{len(truth)} images, and below each what the best closed form made of its gradient. "
    alt += "; ".join(f"{title}: {', '.join(below)}" for title, below in captions.items()) + "."
    return [plots.images(rows, alt, captions)]


def _drawable(audit: Audit) -> bool:
    return audit.pictures["truth"].shape[1] in (1, 3)


def _searched(audit: Audit) -> list[Picture]:
    s = audit.search
    if s.psnr is None or not _drawable(audit):
        return []
    images = [audit.pictures["truth"][:1], audit.pictures["search"], audit.pictures["baseline"]]
    titles = ["image 0", f"the search, {dB(s.psnr)}", f"{s.baseline}, {dB(s.baseline_psnr)}"]
    return [plots.side_by_side(*images, titles=titles, alt=f"Three pictures side by side: {'; '.join(titles)}.")]


# -- numbers as words --------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
