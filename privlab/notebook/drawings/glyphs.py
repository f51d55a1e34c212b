"""Small pictures inside a drawing: a photograph, noise, a network, a vector, a gradient, an eye."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privlab.notebook.drawings.canvas import BLUE, GREEN, PLAIN, RED, Box, Canvas, Point
from privlab.notebook.plots.picture import COLOURS

SUN = COLOURS[5]


def photograph(canvas: Canvas, x: float, y: float, side: float, grid: int = 0) -> Box:
    """A landscape under a sun; with `grid`, cut into so many patches a side."""
    s = side
    frame = f'x="{x:g}" y="{y:g}" width="{s:g}" height="{s:g}"'
    hills = f"{x:g},{y + s:g} {x:g},{y + 0.75 * s:g} {x + 0.33 * s:g},{y + 0.4 * s:g} {x + 0.6 * s:g},{y + 0.72 * s:g} "
    hills += f"{x + 0.75 * s:g},{y + 0.58 * s:g} {x + s:g},{y + 0.82 * s:g} {x + s:g},{y + s:g}"
    canvas.add(f'<rect {frame} fill="{COLOURS[6]}" fill-opacity=".3"/>')
    canvas.add(f'<circle cx="{x + 0.72 * s:g}" cy="{y + 0.27 * s:g}" r="{0.13 * s:g}" fill="{SUN}"/>')
    canvas.add(f'<polygon points="{hills}" fill="{GREEN}" fill-opacity=".75"/>')
    for i in range(1, grid):
        at = i * s / grid
        canvas.line((x + at, y), (x + at, y + s), width=1)
        canvas.line((x, y + at), (x + s, y + at), width=1)
    canvas.add(f'<rect {frame} fill="none" stroke="{PLAIN}" stroke-width="1.4"/>')
    return Box(x, y, side, side)


def noise(canvas: Canvas, x: float, y: float, side: float) -> Box:
    """An image that shows nothing yet: 6 x 6 squares of drawn brightness."""
    cell = side / 6
    for i, strength in enumerate(np.random.default_rng(0).uniform(0.05, 0.75, 36)):
        at = f'x="{x + i % 6 * cell:.4g}" y="{y + i // 6 * cell:.4g}" width="{cell:.4g}" height="{cell:.4g}"'
        canvas.add(f'<rect {at} fill="{PLAIN}" fill-opacity="{strength:.2f}"/>')
    canvas.add(
        f'<rect x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}" fill="none" stroke="{PLAIN}" stroke-width="1.4"/>'
    )
    return Box(x, y, side, side)


def network(canvas: Canvas, x: float, y: float, width: float, height: float, colour: str = PLAIN) -> Box:
    """Four layers, each smaller than the one before."""
    wide = width / 7
    for i, share in enumerate((1.0, 0.8, 0.6, 0.4)):
        tall = share * height
        canvas.add(
            f'<rect x="{x + 2 * i * wide:.4g}" y="{y + (height - tall) / 2:.4g}" width="{wide:.4g}" height="{tall:.4g}" rx="1.5" '
            f'fill="{colour}" fill-opacity=".8"/>'
        )
    return Box(x, y, width, height)


def vector(canvas: Canvas, x: float, y: float, length: int, colour: str) -> Box:
    """Numbers one above the other, as squares of drawn strength."""
    side = 11
    for i, strength in enumerate(np.random.default_rng(1).uniform(0.1, 0.8, length)):
        canvas.add(
            f'<rect x="{x:g}" y="{y + i * side:g}" width="{side}" height="{side}" fill="{colour}" fill-opacity="{strength:.2f}" '
            f'stroke="{PLAIN}" stroke-width="1"/>'
        )
    return Box(x, y, side, length * side)


def gradient(
    canvas: Canvas, x: float, y: float, width: float, values: Sequence[float], unit: float, colour: str = PLAIN
) -> Box:
    """Numbers as bars up and down from a line, which stands on the middle of the box.  unit: height of a 1."""
    step, high = width / len(values), unit * max(1.0, *map(abs, values))
    canvas.line((x, y + high), (x + width, y + high), width=1)
    for i, value in enumerate(values):
        top = y + high - max(value, 0) * unit
        canvas.add(
            f'<rect x="{x + (i + 0.15) * step:.4g}" y="{top:.4g}" width="{0.7 * step:.4g}" height="{abs(value) * unit:.4g}" '
            f'fill="{colour}" fill-opacity=".85"/>'
        )
    return Box(x, y, width, 2 * high)


def eye(canvas: Canvas, x: float, y: float) -> Box:
    """The attacker's eye, which reads."""
    size, middle, half = 18, y + 9, 9
    canvas.add(
        f'<path d="M{x:g} {middle:g} Q{x + half:g} {middle - 13.5:g} {x + size:g} {middle:g} Q{x + half:g} {middle + 13.5:g} '
        f'{x:g} {middle:g}Z" fill="none" stroke="{RED}" stroke-width="1.8"/>'
    )
    canvas.add(f'<circle cx="{x + half:g}" cy="{middle:g}" r="3.24" fill="{RED}"/>')
    return Box(x, y, size, size)


def plus(canvas: Canvas, x: float, y: float) -> Box:
    """A sum, round its centre (x, y)."""
    radius, reach = 9, 4.95
    canvas.add(f'<circle cx="{x:g}" cy="{y:g}" r="{radius}" fill="none" stroke="{PLAIN}" stroke-width="1.4"/>')
    canvas.line((x - reach, y), (x + reach, y))
    canvas.line((x, y - reach), (x, y + reach))
    return Box(x - radius, y - radius, 2 * radius, 2 * radius)


def cross(canvas: Canvas, at: Point) -> None:
    """A small cross: what is cut."""
    x, y = at
    canvas.line((x - 5, y - 5), (x + 5, y + 5), colour=RED, width=2.2)
    canvas.line((x - 5, y + 5), (x + 5, y - 5), colour=RED, width=2.2)


def bell(
    canvas: Canvas, mean: float, deviation: float, floor: float, height: float, colour: str = BLUE, dashed: bool = False
) -> None:
    """A normal density over the line y = floor, filled."""
    grid = np.linspace(-3, 3, 41)
    points = [(mean + deviation * float(z), floor - height * float(np.exp(-z * z / 2))) for z in grid]
    path = " ".join(f"{a:.4g},{b:.4g}" for a, b in points)
    canvas.add(f'<polygon points="{path}" fill="{colour}" fill-opacity=".15"/>')
    canvas.line(*((round(a, 2), round(b, 2)) for a, b in points), colour=colour, dashed=dashed, width=2)
