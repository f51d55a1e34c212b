"""Who sends what to whom, and what the one who reads it does with it: client and server, a batch's gradient, a search."""

from __future__ import annotations

from privlab.notebook.drawings import glyphs
from privlab.notebook.drawings.canvas import BLUE, NAME, RED, WIDTH, Canvas, Drawing

# Gradients of four images, eight numbers each, to look at.
GRADIENTS = (
    (0.9, -0.4, 0.2, 0.7, -0.8, 0.3, -0.6, 0.5),
    (-0.5, -0.8, 0.6, 0.3, -0.2, 0.9, 0.4, -0.7),
    (0.3, 0.5, 0.9, -0.4, -0.6, -0.3, -0.8, 0.2),
    (0.7, -0.6, -0.5, 0.9, 0.3, 0.5, -0.9, -0.6),
)


def client_and_server(sent: str = "gradient", kept: str = "image") -> Drawing:
    """A client that trains on its own data, a server that has the model and attacks, and what passes between them.

    sent: what the client sends, such as "gradient" or "update of one epoch".  kept: what never leaves it.
    """
    canvas = Canvas()
    client = canvas.box(0, 0, 128, 156, colour=BLUE)
    server = canvas.box(WIDTH - 128, 0, 128, 156, colour=RED)
    canvas.label(client.top[0], 20, "client", size=NAME, bold=True)
    canvas.label(server.top[0], 20, "server", size=NAME, bold=True)
    glyphs.photograph(canvas, 12, 36, 46)
    glyphs.network(canvas, 76, 40, 40, 38, BLUE)
    canvas.label(client.top[0], 105, f"Keeps its {kept}.", width=118)
    glyphs.network(canvas, server.top[0] - 20, 40, 40, 38)
    glyphs.eye(canvas, server.x + 12, 9)
    canvas.label(server.top[0], 105, f"Attacker: reads the {sent}, knows the model.", width=118)
    left, right = client.right[0] + 4, server.left[0] - 4
    canvas.label(190, 26, "model", width=110)
    canvas.arrow((right, 36), (left, 36))
    end = canvas.label(190, 68, sent, size=NAME, bold=True, width=110)
    at = end - 8
    canvas.arrow((left, at), (right, at), width=2.4, colour=RED)
    return canvas.done(
        156,
        "A client on the left, a server on the right. The server sends the model to the client, the client sends "
        f"its {sent} back. The client keeps its {kept}. The server is the attacker, and sees the {sent}.",
    )


def batch(images: int = 4) -> Drawing:
    """Several images, a gradient of each, and their sum, which is all that is sent.

    images: 2 to 4.
    Raises ValueError for another number.
    """
    if not 2 <= images <= len(GRADIENTS):
        raise ValueError(f"images={images}: give 2 to {len(GRADIENTS)}")
    canvas, row = Canvas(), 50
    middle = (images * row - 10) / 2
    for i, values in enumerate(GRADIENTS[:images]):
        photograph = glyphs.photograph(canvas, 0, i * row, 40)
        bars = glyphs.gradient(canvas, 74, i * row, 90, values, 20)
        canvas.arrow((photograph.right[0] + 4, bars.left[1]), (bars.left[0] - 5, bars.left[1]))
        canvas.line((bars.right[0] + 5, bars.right[1]), (199, middle))
    glyphs.plus(canvas, 208, middle)
    total = [sum(column) for column in zip(*GRADIENTS[:images], strict=True)]
    bars = glyphs.gradient(canvas, 250, middle - 15 * max(1, *map(abs, total)), 128, total, 15, RED)
    canvas.arrow((217, middle), (243, middle), width=2.4, colour=RED)
    canvas.label(314, bars.y - 10, "one gradient", size=NAME, bold=True)
    canvas.label(314, bars.bottom[1] + 18, "the sum of all: only this is sent", width=128)
    bottom = images * row + 4
    canvas.label(20, bottom, "images")
    canvas.label(119, bottom, "a gradient of each")
    return canvas.done(
        bottom + 6,
        f"{images} images at the left, each with its own gradient as bars. A plus sign joins them: their sum is one "
        "gradient, and only it is sent.",
    )


def search_loop(changed: str = "made-up image", compared: str = "gradient") -> Drawing:
    """Gradient matching as a loop: an image, its gradient, the distance to the one that was sent, a step, and again.

    changed: what the steps change.  compared: what is computed from it and held beside what the client sent.
    """
    canvas, wide, high, below = Canvas(), 158, 84, 122
    image = canvas.box(0, 0, wide, high, colour=RED)
    glyphs.noise(canvas, 12, 18, 48)
    canvas.label(106, 38, changed, size=NAME, bold=True, width=84)
    own = canvas.box(WIDTH - wide, 0, wide, high, colour=RED)
    under = canvas.label(own.top[0], 22, f"its {compared}", size=NAME, bold=True, width=150) - 6
    glyphs.gradient(canvas, own.x + 24, under, 110, GRADIENTS[0], (high - 10 - under) / 2)  # two lines leave less room
    distance = canvas.box(
        WIDTH - wide, below, wide, high, "distance", f"between its {compared} and the one that was sent", colour=RED
    )
    step = canvas.box(0, below, wide, high, "step", f"Change the {changed} so that the distance falls.", colour=RED)
    sent = canvas.box(WIDTH - wide, below + high + 34, wide, 84, colour=BLUE)
    canvas.label(sent.top[0], sent.y + 22, "what was sent", size=NAME, bold=True, width=150)
    glyphs.gradient(canvas, sent.x + 24, sent.y + 32, 110, GRADIENTS[3], 21, BLUE)
    canvas.arrow((image.right[0] + 3, 42), (own.left[0] - 3, 42))
    canvas.label(190, 34, "model")
    canvas.arrow((own.bottom[0], high + 3), (distance.top[0], below - 3))
    canvas.arrow((distance.left[0] - 3, below + 42), (step.right[0] + 3, below + 42))
    canvas.arrow((step.top[0], below - 3), (image.bottom[0], high + 3))
    canvas.label(step.top[0] + 10, below - 14, "again", anchor="start")
    canvas.arrow((sent.top[0], sent.y - 3), (distance.bottom[0], below + high + 3), colour=BLUE)
    words = (
        "Only the pixels change. The model and what was sent stay as they are."
        if "image" in changed
        else f"Only the {changed} changes."
    )
    canvas.label(0, sent.y + 34, words, anchor="start", width=196)
    return canvas.done(
        sent.y + 84,
        f"A loop of four boxes. The {changed} goes through the model, which gives its {compared}. The distance to "
        f"the {compared} that the client sent is computed. A step changes the {changed} so that the distance falls, "
        "and the loop begins again.",
    )
