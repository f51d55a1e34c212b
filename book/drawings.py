"""Drawings of the house as SVG inside the page, in the theme's own colours: light where the page is light, dark where it is dark."""

from __future__ import annotations

from html import escape
from types import ModuleType

WIDTH = 380  # of the drawing's own units, so that its letters can be read on a telephone
_ROW, _GAP = 15, 8


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>'


def _arrow(points: list[tuple[float, float]], kind: str = "") -> str:
    """A line through these points, its head at the last; it comes in straight down or straight to one side."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = ((x > x0) - (x < x0), (y > y0) - (y < y0))
    head = (
        f"{x:g},{y:g} {x - 6 * dx - 4 * dy:g},{y - 6 * dy - 4 * dx:g} {x - 6 * dx + 4 * dy:g},{y - 6 * dy + 4 * dx:g}"
    )
    line = " ".join(f"{a:g},{b:g}" for a, b in points)
    return f'<polyline points="{line}" class="{kind}"/><polygon points="{head}"/>'


def _svg(height: float, parts: list[str], alt: str) -> str:
    return (
        f'<svg class="privlab-drawing" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(alt)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>\n'
    )


def _lines(words: list[str], letters: int, most: int) -> list[str]:
    """The words, comma after comma, in lines of so many letters; what is too much for `most` lines becomes three dots."""
    lines = [""]
    for i, word in enumerate(words):
        piece = word + ", " * (i < len(words) - 1)
        if len(lines[-1] + piece.rstrip()) > letters:
            if len(lines) == most:
                return [*lines[:-1], lines[-1].rstrip(", ") + " …"]
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def table(floors: list[list[ModuleType]]) -> str:
    """The rooms in Markdown, one a row: its name, linked to its page of the reference, and what its docstring says it is for."""
    rows = ["```{table}", ":class: privlab-api", "", "| room | what it is for |", "|---|---|"]
    for room in (room for floor in floors for room in floor):
        name = room.__name__.rpartition(".")[2]
        rows.append(f"| {{py:mod}}`{name} <{room.__name__}>` | {(room.__doc__ or '').strip().splitlines()[0]} |")
    return "\n".join([*rows, "```"]) + "\n"


def rooms(floors: list[list[ModuleType]], apart: list[ModuleType]) -> str:
    """The rooms, one floor on the other, each with what stands at its door.

    floors: from the ground up, the rooms of each.  apart: modules that know nothing of each other; they are drawn in their room.
    """
    x, y, wide = 14, 22, WIDTH - 14
    parts = [_text(x, 13, "everything may import what lies below it", "small")]
    for floor in reversed(floors):
        width = (wide - x - _GAP * (len(floor) - 1)) / len(floor)
        inside = [
            [m.__name__.rpartition(".")[2] for m in apart if m.__name__.startswith(f"{r.__name__}.")] for r in floor
        ]
        doors = [
            [] if inner else _lines(sorted(room.__all__, key=str.swapcase), int(width / 6.1), 2)
            for room, inner in zip(floor, inside, strict=True)
        ]
        rows = max(
            2 * ((len(inner) + 1) // 2) if inner else len(lines) for inner, lines in zip(inside, doors, strict=True)
        )
        height = 24 + _ROW * rows
        for i, (room, inner, lines) in enumerate(zip(floor, inside, doors, strict=True)):
            left = x + i * (width + _GAP)
            parts += [_box(left, y, width, height), _text(left + 8, y + 17, room.__name__.rpartition(".")[2], "name")]
            parts += [_text(left + 8, y + 33 + _ROW * j, line, "small") for j, line in enumerate(lines)]
            for j, name in enumerate(inner):
                side = (width - 16 - _GAP) / 2
                at = left + 8 + (j % 2) * (side + _GAP), y + 25 + (j // 2) * 2 * _ROW
                parts += [_box(*at, side, 24, "inner"), _text(at[0] + 7, at[1] + 16, name, "small")]
        y += height + _GAP
    parts.append(_arrow([(5, 22), (5, y - _GAP)]))
    listed = "; ".join(
        " beside ".join(room.__name__.rpartition(".")[2] for room in floor) for floor in reversed(floors)
    )
    separate = ", ".join(module.__name__.rpartition(".")[2] for module in apart)
    alt = f"The rooms as floors of a house, from the top: {listed}. Inside attacks four separate boxes: {separate}. Imports point down."
    return _svg(y, parts, alt)


STEPS = [  # who, what is called, what it gives
    ("client", "data.load", "photographs and labels"),
    ("client", "models.build", "the model, which the server sent"),
    ("client", "leak.observe", "one step: gradients by name, a Leak"),
    ("client", "defences.perturbation", "Leak in, Leak out: noise, clipping"),
    ("wire", "", "the Leak crosses, and nothing else"),
    ("attacker", "gradient_inversion.gradvit", "a preset: terms, schedule, optimiser"),
    ("attacker", ".search(model, leak, seed)", "state after state, to be stopped at will"),
    ("attacker", ".run(model, leak, seed)", "the best restart, by its own loss"),
    ("reader", "metrics.compare", "only here the photographs come back"),
]


def gradient() -> str:
    """The path of a gradient: from the client's photograph to the image that an attacker makes of it."""
    x, y, parts = 74, 6, []
    before = ""
    photograph = 0.0
    for who, call, gives in STEPS:
        if who == "wire":
            parts += [f'<line x1="0" y1="{y + 15}" x2="{WIDTH}" y2="{y + 15}" class="wire"/>']
            parts += [_box(x, y + 3, 232, 24, "ground"), _text(x + 10, y + 19, gives, "name")]
        else:
            parts += [_text(0, y + 19, who, "small")] if who != before else []
            parts += [
                _box(x, y, 286, 40, who),
                _text(x + 10, y + 17, call, "name"),
                _text(x + 10, y + 32, gives, "small"),
            ]
        if not before:
            photograph = y + 20
        height = 30 if who == "wire" else 40
        if who == "reader":
            parts.append(
                _arrow(
                    [(x + 286, photograph), (WIDTH - 5, photograph), (WIDTH - 5, y + 20), (x + 287, y + 20)], "dashed"
                )
            )
        else:
            parts.append(_arrow([(x + 30, y + height), (x + 30, y + height + 13)]))
        y, before = y + height + 14, who
    alt = "The path of a gradient, from top to bottom. " + " ".join(
        f"{who.capitalize()}: {call}, {gives}." if call else f"Then {gives}." for who, call, gives in STEPS
    )
    return _svg(y - 8, parts, alt + " A dashed line leads the photographs past attacker and wire to the last step.")
