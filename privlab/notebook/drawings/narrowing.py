"""A bottleneck: fewer numbers leave the network, so the attacker's probe has fewer to read."""

from __future__ import annotations

from privlab.notebook.drawings import glyphs
from privlab.notebook.drawings.canvas import BLUE, RED, WIDTH, Canvas, Drawing


def bottleneck() -> Drawing:
    """A network narrowed to one number before its last layer: what comes before stays inside, what leaves goes to the head and a probe."""
    canvas, middle = Canvas(), 78.0
    image = glyphs.photograph(canvas, 0, middle - 22, 44)
    body = canvas.box(62, middle - 46, 150, 92, colour=BLUE)
    glyphs.network(canvas, 74, middle - 24, 44, 48, BLUE)
    wide = glyphs.vector(canvas, 138, middle - 33, 6, BLUE)
    narrow = glyphs.vector(canvas, 184, middle - 5.5, 1, BLUE)
    canvas.line((wide.right[0] + 3, middle - 33), (narrow.x - 3, middle - 5.5), width=1)
    canvas.line((wide.right[0] + 3, middle + 33), (narrow.x - 3, middle + 5.5), width=1)
    canvas.arrow((image.right[0] + 3, middle), (body.left[0] - 3, middle))
    canvas.label(body.bottom[0], body.y + body.height + 18, "bottleneck: 1 number leaves", bold=True)
    head = canvas.box(262, 6, WIDTH - 262, 52, "head", "gives the task", colour=BLUE)
    probe = canvas.box(262, 98, WIDTH - 262, 52, "probe", "attribute?", colour=RED)
    canvas.arrow((body.right[0] + 3, middle - 8), (head.left[0] - 3, head.left[1]))
    canvas.arrow((body.right[0] + 3, middle + 8), (probe.left[0] - 3, probe.left[1]), colour=RED)
    return canvas.done(
        154,
        "An image goes into a network. Inside it many features are narrowed down to 1 number, and nothing else "
        "can leave. From there the head gives the task, and an attacker's probe asks for the attribute.",
    )
