"""What is inside a network, and what somebody reads there: a ViT, a stage with skip connections, a probe, a generator under search."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import torch

from privlab import models
from privlab.notebook import plots
from privlab.notebook.drawings import glyphs
from privlab.notebook.drawings.canvas import BLUE, NAME, PLAIN, RED, WIDTH, Box, Canvas, Drawing

PARTS = ("patch embedding", "position embedding", "norm", "attention", "MLP", "head")
PLACES = {
    4: (-1, 0),
    8: (-1, 0),
    13: (1, 0),
}  # step of the morph -> (stage, block) that it changes; elsewhere a block of stage 1


def vit(read: Collection[str] = ("patch embedding", "position embedding")) -> Drawing:
    """A Vision Transformer from the image to the class, with the parts marked whose gradient the attacker reads.

    read: of patch embedding, position embedding, norm, attention, MLP, head; may be ().
    Raises ValueError for a part that is none.
    """
    if strangers := [part for part in read if part not in PARTS]:
        raise ValueError(f"read={strangers[0]!r} is no part of this ViT; it has {', '.join(PARTS)}")
    canvas, left, wide = Canvas(), 126, WIDTH - 126

    def part(x: float, y: float, width: float, height: float, name: str) -> Box:
        return canvas.box(x, y, width, height, name, colour=RED if name in read else PLAIN, bold=name in read)

    image = glyphs.photograph(canvas, 0, 0, 66, grid=3)
    canvas.label(33, 82, "image")
    cells = [left + i * wide / 9 for i in range(9)]
    for i, x in enumerate(cells):
        _patch(canvas, x + 3, 22, i)
    canvas.label(left + wide / 2, 64, "patches, one after the other")
    canvas.arrow((image.right[0] + 5, 33), (left - 5, 33))
    middle = left + wide / 2
    y = 96.0
    embedding = part(left, y, wide, 32, "patch embedding")
    canvas.arrow((middle, 70), (middle, y - 3))
    y += 54
    plus = glyphs.plus(canvas, middle, y + 9)
    place = part(0, y - 12, 108, 42, "position embedding")
    canvas.arrow(embedding.bottom, (middle, plus.top[1] - 2))
    canvas.arrow((place.right[0] + 2, plus.left[1]), (plus.left[0] - 2, plus.left[1]))
    y += 42
    for x in cells:
        canvas.add(
            f'<rect x="{x + 6:.4g}" y="{y:g}" width="14" height="20" rx="3" fill="{BLUE}" fill-opacity=".45" stroke="{PLAIN}"/>'
        )
    canvas.arrow((middle, plus.bottom[1] + 2), (middle, y - 3))
    canvas.label(left - 10, y + 14, "tokens", anchor="end")
    y += 40
    canvas.box(left, y, wide, 56)
    canvas.arrow((middle, y - 18), (middle, y - 3))
    canvas.label(left - 10, y + 32, "L blocks", anchor="end")
    x = left + 8.0
    for name, width in (("norm", 46), ("attention", 74), ("norm", 46), ("MLP", 48)):
        part(x, y + 13, width, 30, name)
        x += width + 8
    y += 76
    part(left, y, wide, 32, "head")
    canvas.arrow((middle, y - 18), (middle, y - 3))
    canvas.arrow((left - 2, y + 16), (left - 32, y + 16))
    canvas.label(left - 38, y + 20, "class", anchor="end")
    y += 32
    if read:
        glyphs.eye(canvas, 50, y + 12)
        canvas.label(76, y + 25, "The attacker reads the gradient of these.", anchor="start")
        y += 34
    marked = f" Marked, as an attacker reads their gradient: {', '.join(read)}." if read else ""
    return canvas.done(
        y,
        "A Vision Transformer from top to bottom: the image is cut into nine patches, the patch embedding makes a "
        "token of each, the position embedding is added, L blocks of norm, attention, norm and MLP follow one after the "
        f"other, then the head, which gives the class.{marked}",
    )


def _patch(canvas: Canvas, x: float, y: float, number: int) -> None:
    """One of nine patches of the photograph, cut out."""
    side = 22
    row, column = divmod(number, 3)
    view = f"{column * side} {row * side} {side} {side}"
    canvas.add(f'<svg x="{x:.4g}" y="{y:g}" width="{side}" height="{side}" viewBox="{view}">')
    glyphs.photograph(canvas, 0, 0, 3 * side)
    canvas.add(f'</svg><rect x="{x:.4g}" y="{y:g}" width="{side}" height="{side}" fill="none" stroke="{PLAIN}"/>')


def residual_stage(blocks: int = 3, skips: bool | Collection[int | str] = True, factor: str = "") -> Drawing:
    """A stage of residual blocks from left to right; a skip connection that was cut is dashed, with a cross on it.

    blocks: 1 to 4.  skips: True for all, False for none, or the blocks that keep theirs: numbers from 1, "first", "last".
    factor: what each skip connection is multiplied with, such as "× 0.5"; "" for nothing.
    Raises ValueError for another number of blocks, or a block that is not there.
    """
    if not 1 <= blocks <= 4:
        raise ValueError(f"blocks={blocks}: give 1 to 4, as more are not readable")
    numbers = {"first": 1, "last": blocks} | {n: n for n in range(1, blocks + 1)}
    if not isinstance(skips, bool) and (strangers := [each for each in skips if each not in numbers]):
        raise ValueError(f"skips={strangers[0]!r} is no block; give numbers from 1 to {blocks}, 'first' or 'last'")
    kept = (
        set(range(1, blocks + 1)) if skips is True else set() if skips is False else {numbers[each] for each in skips}
    )
    canvas, y = Canvas(), 58
    unit = (WIDTH - 24) / blocks
    wide = min(110, unit - 44)
    for n in range(1, blocks + 1):
        start, end = 12 + (n - 1) * unit, 12 + n * unit - 14
        box = canvas.box(start + 15, y, wide, 50, "block", str(n))
        sum_of = glyphs.plus(canvas, end, box.left[1])
        canvas.arrow((start - 5, box.left[1]), (box.left[0] - 2, box.left[1]))
        canvas.arrow((box.right[0] + 2, box.right[1]), (sum_of.left[0] - 2, sum_of.left[1]))
        fork, over = (start + 4, box.left[1]), 30
        canvas.arrow(
            fork,
            (fork[0], over),
            (end, over),
            (end, sum_of.top[1] - 2),
            dashed=n not in kept,
            colour=BLUE if n in kept else PLAIN,
            width=2.2 if n in kept else 1.2,
        )
        if n not in kept:
            glyphs.cross(canvas, ((fork[0] + end) / 2, over))
            canvas.label((fork[0] + end) / 2, over - 12, "cut", bold=True)
        else:
            words = f"skip {factor}".rstrip()
            canvas.label((fork[0] + end) / 2, over - 9, words)
    canvas.arrow((WIDTH - 17, y + 25), (WIDTH, y + 25))
    left_out = [str(n) for n in range(1, blocks + 1) if n not in kept]
    cut = f"Cut: that of block {', '.join(left_out)}" if left_out else "None is cut"
    scaled = f" Each is multiplied: {factor}." if factor and kept else ""
    return canvas.done(
        y + 52,
        f"A stage of {blocks} residual blocks from left to right. A skip connection leads past each block and is "
        f"added to what the block makes. {cut}.{scaled}",
    )


def probe(task: str = "object", attribute: str = "attribute") -> Drawing:
    """A network trained for one task, and a probe that reads something else out of its representation.

    task: what it was trained to tell.  attribute: what nobody asked for.
    """
    canvas = Canvas()
    image = glyphs.photograph(canvas, 0, 50, 56)
    body = canvas.box(78, 32, 106, 92, colour=BLUE)
    glyphs.network(canvas, 108, 42, 46, 30, BLUE)
    canvas.label(131, 88, f"trained to tell the {task}", width=96)
    middle = 78.0
    code = glyphs.vector(canvas, 210, middle - 33, 6, BLUE)
    canvas.label(216, 142, "representation")
    canvas.arrow((image.right[0] + 4, middle), (body.left[0] - 3, middle))
    canvas.arrow((body.right[0] + 3, middle), (code.left[0] - 4, middle))
    head = canvas.box(262, 0, 118, 56, "head", f"gives the {task}", colour=BLUE)
    other = canvas.box(262, 96, 118, 60, "probe", f"gives the {attribute}", colour=RED)
    canvas.arrow((code.right[0] + 5, middle - 8), (head.left[0] - 3, head.left[1]))
    canvas.arrow((code.right[0] + 5, middle + 8), (other.left[0] - 3, other.left[1]), colour=RED)
    canvas.label(380, 178, f"Nobody asked for the {attribute}.", anchor="end")
    return canvas.done(
        182,
        f"An image goes into a network that was trained to tell the {task}. Its representation goes to the head, "
        f"which gives the {task}, and to an attacker's probe, which gives the {attribute}, for which nobody asked.",
    )


def generator_inversion(target: str = "person 7", searched: str = "latent code") -> Drawing:
    """Model inversion as a loop: a code, the generator's picture of it, the victim's opinion of the picture, a step of the code.

    target: of whom a picture is searched.  searched: what the steps change.
    """
    canvas = Canvas()
    code = canvas.box(0, 0, 92, 92, colour=RED)
    glyphs.vector(canvas, 41, 8, 4, RED)
    canvas.label(46, 68, searched, size=NAME, bold=True, width=86)
    maker = canvas.box(126, 0, 112, 92, "generator", "made from public pictures")
    picture = canvas.box(272, 0, 108, 92)
    glyphs.photograph(canvas, 300, 8, 52)
    canvas.label(326, 80, "picture")
    below = 128
    victim = canvas.box(246, below, 134, 84, colour=BLUE)
    glyphs.network(canvas, 262, below + 30, 38, 28, BLUE)
    canvas.label(340, below + 38, "victim", size=NAME, bold=True)
    canvas.label(340, below + 54, "a classifier")
    loss = canvas.box(72, below, 140, 84, "loss", f"How unsure is the victim that this is {target}?", colour=RED)
    canvas.arrow((code.right[0] + 3, 46), (maker.left[0] - 3, 46))
    canvas.arrow((maker.right[0] + 3, 46), (picture.left[0] - 3, 46))
    canvas.arrow((326, 95), (326, below - 3))
    canvas.arrow((victim.left[0] - 3, below + 42), (loss.right[0] + 3, below + 42))
    canvas.arrow((loss.left[0] - 3, below + 42), (30, below + 42), (30, 95), colour=RED)
    canvas.label(38, 113, "step", anchor="start")
    return canvas.done(
        below + 84,
        f"A loop. The {searched} goes into a generator, which was made from public pictures, and gives a picture. "
        f"The victim, a classifier, looks at the picture. The loss says how unsure it is that this is {target}. A step "
        f"changes the {searched} so that the loss falls, and so on.",
    )


def morph_block(step: int, before: int | None = None) -> plots.Picture:
    """The block that a step of the morph from ResNet-50 to ConvNeXt-T changes, beside the same block before it.

    step: 1 to 14.  before: the step to compare with; the one before if not given, and step 1 itself where there is none.
    Raises ValueError for a step that is none.
    """
    steps = models.morph.STEPS
    pair = (max(min(steps), step - 1) if before is None else before, step)
    if strangers := [n for n in pair if n not in steps]:
        raise ValueError(f"step={strangers[0]!r} is none of {min(steps)} to {max(steps)}")
    place = PLACES.get(step, (1, 1)) if step - pair[0] == 1 else (1, 1)
    old, new = (_outline(n, place) for n in pair)
    return plots.blocks(old, new, [f"{n}: {steps[n].name}" for n in pair])


@lru_cache(maxsize=32)
def _outline(step: int, place: tuple[int, int]) -> list[str]:
    with torch.device("meta"):  # layers have shapes there and no weights: an instant in place of a second
        model = models.morph.build(step)
    return models.morph.outline(model, *place)
