"""Who trains on what: the victim's and the attacker's pictures, and the models with and without one picture."""

from __future__ import annotations

import numpy as np

from privlab.notebook.drawings import glyphs
from privlab.notebook.drawings.canvas import BLUE, GREEN, PLAIN, RED, WIDTH, Canvas, Drawing


def one_question() -> Drawing:
    """What an attacker sees who may only ask: a picture goes into the victim, confidences come out, and the question is what they tell."""
    canvas = Canvas()
    picture = glyphs.photograph(canvas, 0, 24, 64)
    canvas.label(32, 104, "a picture of a cat", width=90)
    box = canvas.box(110, 20, 96, 72, colour=BLUE)
    glyphs.network(canvas, 136, 32, 46, 34, BLUE)
    canvas.label(158, 84, "victim", bold=True)
    canvas.arrow((picture.right[0] + 4, 56), (box.x - 4, 56))
    canvas.arrow((box.right[0] + 3, 56), (238, 56))
    for k, (name, length) in enumerate((("cat", 80), ("dog", 14), ("frog", 5))):
        y = 22 + 26 * k
        canvas.label(284, y + 11, name, anchor="end")
        canvas.add(f'<rect x="290" y="{y}" width="{length}" height="14" fill="{BLUE}" fill-opacity=".8"/>')
    canvas.label(310, 112, "confidences")
    canvas.arrow((310, 118), (310, 142), colour=RED)
    canvas.box(214, 145, 166, 44, "attacker", "member, or not?", colour=RED)
    canvas.label(0, 162, "Its training set is not shown.", anchor="start", width=190)
    return canvas.done(
        190,
        "A picture of a cat goes into the victim. Its confidences come out: one bar for each of cat, dog, frog. The "
        "attacker sees the picture and the bars, and asks: is it a member, or not? The training set is not shown.",
    )


def who_trains_on_what() -> Drawing:
    """Membership inference with a shadow model: four sets of pictures, two networks, and what the attacker learns from whom."""
    canvas, half = Canvas(), 180
    models = []
    for x, name, colour, whose in (
        (0, "victim", BLUE, "The victim's pictures"),
        (WIDTH - half, "shadow model", RED, "The attacker's pictures"),
    ):
        canvas.label(x + half / 2, 12, whose)
        members = canvas.box(x, 22, 78, 84, colour=GREEN)
        others = canvas.box(x + 84, 22, 96, 84, dashed=True)
        for box in (members, others):
            for shift in (8, 4, 0):
                glyphs.photograph(canvas, box.bottom[0] - 19 + shift, 40 - shift, 30)
        canvas.label(members.bottom[0], 88, "members")
        canvas.label(others.bottom[0], 88, "non-members")
        model = canvas.box(x, 150, half, 40, name, colour=colour)
        canvas.arrow((members.bottom[0], 109), (members.bottom[0], 147), colour=GREEN, width=2.4)
        canvas.label(members.bottom[0] + 7, 131, "trains it", anchor="start")
        canvas.arrow((others.bottom[0], 109), (others.bottom[0], 147), dashed=True)
        canvas.label(others.bottom[0] + 6, 125, "shown later", anchor="start", width=36)
        models.append(model)
    canvas.box(60, 250, 260, 44, "attack model", "member, or non-member?", colour=RED)
    canvas.arrow((models[0].bottom[0], 193), (models[0].bottom[0], 247))
    canvas.arrow((models[1].bottom[0], 193), (models[1].bottom[0], 247), colour=RED, width=2.4)
    canvas.label(models[0].bottom[0] + 8, 214, "answers: to be judged", anchor="start", width=84)
    canvas.label(models[1].bottom[0] + 8, 214, "answers: to learn from", anchor="start", width=82)
    return canvas.done(
        294,
        "Two columns. On the victim's side members train the victim, non-members are only shown to it later. On "
        "the attacker's side other members train the shadow model, and other non-members are shown to it. The attack "
        "model learns from the answers of the shadow model, whose members the attacker knows, and then says of answers "
        "of the victim: member, or non-member?",
    )


def in_and_out() -> Drawing:
    """LiRA for one picture: three models trained with it and three without it, and how sure each kind is of it."""
    canvas, wide = Canvas(), 172
    picture = glyphs.photograph(canvas, 168, 0, 44)
    canvas.label(190, 60, "one picture")
    floor = 268
    for x, words, colour, mean, kind in (
        (0, "trained without it", BLUE, 118, "out"),
        (WIDTH - wide, "trained with it", GREEN, 268, "in"),
    ):
        box = canvas.box(x, 76, wide, 84, colour=colour, dashed=kind == "out")
        canvas.label(box.top[0], 96, f"{kind} models", size=13, bold=True)
        canvas.label(box.top[0], 150, words)
        for at in (-40, 0, 40):
            glyphs.network(canvas, box.top[0] + at - 15, 106, 30, 26, colour)
        glyphs.bell(canvas, mean, 34, floor, 66, colour, dashed=kind == "out")
        canvas.arrow((box.bottom[0], 163), (mean + (14 if kind == "in" else -14), 192), colour=colour)
    canvas.arrow((picture.right[0] + 4, 22), (WIDTH - wide / 2, 22), (WIDTH - wide / 2, 73), colour=GREEN, width=2.4)
    canvas.label(WIDTH - wide / 2 + 6, 44, "one of the", anchor="start")
    canvas.label(WIDTH - wide / 2 + 6, 58, "members", anchor="start")
    canvas.line((164, 22), (wide / 2, 22), (wide / 2, 73), dashed=True)
    glyphs.cross(canvas, (wide / 2, 46))
    canvas.label(wide / 2 - 12, 50, "left out", anchor="end")
    canvas.arrow((20, floor), (366, floor))
    canvas.label(WIDTH / 2, floor + 32, "how sure a model is of this picture")
    canvas.line((292, floor), (292, 188), colour=RED, width=2.4)
    canvas.label(298, 196, "the victim", anchor="start", bold=True)
    canvas.label(30, floor + 14, "unsure", anchor="start")
    canvas.label(366, floor + 14, "sure", anchor="end")
    return canvas.done(
        floor + 36,
        "One picture. 3 models were trained without it, 3 with it. How sure they are of it makes two "
        "bell curves over one axis: that of the models trained without it lies at the left, that of the models "
        "trained with it at the right. A line marks how sure the victim is: here it lies under the right curve.",
    )


def keep_matrix() -> Drawing:
    """Who is trained on which picture: a row a model, in complementary pairs, with the target, its partner, and one picture's column."""
    canvas, cell, gap, top = Canvas(), 26, 8, 46
    pairs, pictures = 4, 6
    left, keep = 96, np.random.default_rng(3).random((pairs, pictures)) < 0.5
    marked = next(k for k in range(pictures) if 0 < keep[1:, k].sum() < pairs - 1)
    for k in range(pictures):
        glyphs.photograph(canvas, left + k * cell + 3, 20, 20)
    bottom = top + 2 * pairs * cell + (pairs - 1) * gap
    for row in range(2 * pairs):
        y = top + row * cell + row // 2 * gap
        name = ("victim", "its partner")[row] if row < 2 else f"shadow {row - 1}"
        canvas.label(left - 8, y + 17, name, anchor="end", bold=row == 0)
        for k in range(pictures):
            inside = bool(keep[row // 2, k] != row % 2)
            look = f'fill="{GREEN}" fill-opacity=".75"' if inside else 'fill="none"'
            canvas.add(
                f'<rect x="{left + k * cell + 2}" y="{y + 2}" width="{cell - 4}" height="{cell - 4}" rx="3" {look} '
                f'stroke="{PLAIN}" stroke-opacity=".5"/>'
            )
            if k == marked and row > 1:
                canvas.label(left + pictures * cell + 26, y + 17, "in" if inside else "out", bold=inside)
        if row == 1:
            canvas.line((left - 84, y + 13), (left + pictures * cell, y + 13), colour=RED, width=1.6)
    canvas.add(
        f'<rect x="{left + marked * cell - 1}" y="14" width="{cell + 2}" height="{bottom - 12}" rx="5" fill="none" stroke="{BLUE}" '
        'stroke-width="2.2"/>'
    )
    canvas.label(left + marked * cell + cell / 2, 10, "one picture", bold=True)
    canvas.label(left, bottom + 18, "filled: the model is trained on the picture", anchor="start")
    return canvas.done(
        bottom + 26,
        f"A grid of {2 * pairs} models and {pictures} pictures; a filled square says that the model is trained on the "
        "picture. Models come in pairs: what one has, the other lacks. The first is the victim; its partner is crossed out. "
        "In the column of one picture the shadow models are marked in or out, as many of each.",
    )
