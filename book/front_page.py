"""What the front page shows first: a cat that comes back out of a gradient, and a card for each threat model.

Its pictures are cut out of the strips that lie beside the committed evidence, anew at each build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from privlab.experiments import april_closed_form, pictures
from privlab.runner.catalogue import Lab

SOLVED = ("april_closed_form.solved", "class", "picture[photograph_arch_a_batch_2_batch_4_arch_b]")
NOISE = ("april_closed_form.noise", "class", "picture[photograph_gaussian_laplacian]")
SEARCH = ("gradient_inversion.architectures", "class", "picture[photograph_and_reconstructions]")
FACES = ("model_inversion.skips", "smoke", "picture[photograph_then_variants, resnet]")

START = """\
1. Open {lab} here in the book. It asks for a guess.
2. Guess. What follows is hidden until you have.
3. See what comes out of one gradient.
"""


@dataclass(frozen=True)
class Card:
    """A threat model.  name: of its picture too.  lab: its first.  alt: what the picture shows.  below: the words under it."""

    name: str
    lab: str
    asks: str
    alt: str
    below: str


CARDS = (
    Card(
        "membership inference",
        "01",
        "Was this very picture in the training set?",
        "Four small photographs: a car, a cat, a horse and a ship",
        "The attacker asks the model about a picture, and reads how sure it is.",
    ),
    Card(
        "attribute inference",
        "03",
        "What does the model know that nobody asked it?",
        "Portraits of four people; one of them wears glasses",
        "The model was trained to say who it is. The attacker reads its features, and asks about the glasses.",
    ),
    Card(
        "gradient inversion",
        "04",
        "Can a photograph be found from its gradient?",
        "A photograph of a car, and four covered frames",
        "Left: the photograph. The same search looked for it behind a ResNet, a Swin, a ViT and a ConvNeXt. Which of them gave it away?",
    ),
    Card(
        "model inversion",
        "11",
        "Can a face come out of a classifier?",
        "Two portraits, and beside each a blurred face that was made from the weights of a classifier",
        "Of each pair the left is a photograph. The attacker made the right one from the model's weights, in a short run.",
    ),
)


def tiles(strip: tuple[str, str, str], repeat: int = 0, row: int = 0, size: int = 32) -> list[np.ndarray]:
    """The pictures of a row of a strip, each uint8 (size, size, 3).

    Raises FileNotFoundError for a strip that the evidence does not have.
    """
    experiment, of, name = strip
    image = pictures.load(experiment, of, repeat, name)
    if image is None:
        raise FileNotFoundError(
            f"{pictures.place(experiment, of, repeat, name)} is missing, and the front page shows it; measure {experiment} at {of}"
        )
    image = np.stack([image] * 3, -1) if image.ndim == 2 else image
    part = image[row * size : (row + 1) * size]
    return [part[:, left : left + size] for left in range(0, part.shape[1], size)]


def covered(size: int = 32) -> np.ndarray:
    """A frame whose picture the reader is to guess, uint8 (size, size, 3)."""
    tile = Image.new("RGB", (size, size), "#666666")
    ImageDraw.Draw(tile).text((size / 2, size / 2), "?", "white", ImageFont.load_default(24), anchor="mm")
    return np.array(tile)


def strips() -> dict[str, list[np.ndarray]]:
    """The front page's pictures by name, each a list of tiles."""
    people, found = (tiles(FACES, row=row) for row in (0, 1))
    photograph, computed, *_ = tiles(SOLVED)
    noisy = tiles(NOISE)[1 : 1 + len(april_closed_form.LEVELS)]
    return {
        "photograph": [photograph],
        "computed": [computed],
        "noise": noisy[::-1],
        "membership inference": [tiles(SEARCH, 0)[0], photograph, tiles(SEARCH, 2)[0], tiles(SOLVED, 1)[0]],
        "attribute inference": [people[i] for i in (0, 1, 2, 4)],
        "gradient inversion": [tiles(SEARCH)[0], *[covered()] * 4],
        "model inversion": [people[1], found[1], people[2], found[2]],
    }


def write(out: Path, labs: Iterable[Lab]) -> None:
    """Write the pictures and the Markdown that index.md includes: hero.md, start.md, cards.md.  out: a folder below the book's own."""
    out.mkdir(exist_ok=True)
    made = strips()
    for name, row in made.items():
        gap = np.full((row[0].shape[0], 1, 4), 0, np.uint8)  # transparent
        opaque = [np.dstack([tile, np.full(tile.shape[:2], 255, np.uint8)]) for tile in row]
        whole = np.concatenate([part for tile in opaque for part in (tile, gap)][:-1], 1)
        Image.fromarray(whole).save(_file(out, name), optimize=True)
    pages = {lab.number: lab.name for lab in labs if not lab.goes_deeper}
    (out / "hero.md").write_text(_hero(pages), encoding="utf-8")
    (out / "start.md").write_text(START.format(lab=to("lab 00", "00", pages)), encoding="utf-8")
    (out / "cards.md").write_text(_box("cards", [_card(card, pages) for card in CARDS]), encoding="utf-8")


def _file(out: Path, name: str) -> Path:
    return out / f"{name.replace(' ', '_')}.png"


def _hero(pages: dict[str, str]) -> str:
    kept = (
        _picture("photograph", "A small photograph of a cat on a blue blanket")
        + "The client **keeps** this photograph."
    )
    sent = "**→**\n\nIt **sends** a gradient: numbers, from which a server learns."
    got = _picture("computed", "The same cat, as the server computed it") + "The server **computes** this from them."
    levels = ", ".join(f"{level:g}" for level in reversed(april_closed_form.LEVELS))
    back = _picture(
        "noise", f"The cat computed from noisier and less noisy gradients, from nothing to the whole cat: {levels}"
    )
    words = (
        f"How did the server do this, how near does it come, and what would stop it? {to('Lab 00', '00', pages)} lets you guess, "
        f"and {to('lab 05', '05', pages)} lets you defend. Below, the client hides the gradient behind noise. The noise is {levels} "
        "times as long as the gradient, and the cat comes back."
    )
    return "\n\n".join([_box("hero", [_box("", [part]) for part in (kept, sent, got)]), words, back])


def _card(card: Card, pages: dict[str, str]) -> str:
    title = to(card.name.capitalize(), card.lab, pages)
    return _box(
        "card",
        [
            f"**{title}**",
            card.asks,
            _picture(card.name, card.alt) + card.below,
            to(f"Lab {card.lab}", card.lab, pages),
        ],
    )


def _picture(name: str, alt: str) -> str:
    path = _file(Path("/_generated/front"), name)
    return f":::{{image}} {path}\n:alt: {alt}\n:class: privlab-pixels dark-light\n:::\n\n"


def to(words: str, lab: str, pages: Mapping[str, str]) -> str:
    """Words that lead to a lab; words alone where the shelf has no such lab."""
    return f"{{doc}}`{words} </_generated/labs/{pages[lab]}>`" if lab in pages else words


def _box(name: str, parts: Sequence[str]) -> str:
    """Parts inside of a <div>; a fence longer than any in it."""
    text = "\n\n".join(parts)
    fence = ":" * (1 + max(len(line) - len(line.lstrip(":")) for line in ["::", *text.splitlines()]))
    return f"{fence}{{container}} {f'privlab-{name}' if name else ''}\n{text}\n{fence}\n"
