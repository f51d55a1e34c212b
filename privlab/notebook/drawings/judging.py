"""How results are judged: the plane of accuracy and leakage, and the way from a claim to its verdict."""

from __future__ import annotations

import math
from itertools import pairwise

from privlab.notebook.drawings.canvas import BLUE, GREEN, PLAIN, RED, WIDTH, Canvas, Drawing

# What the ledger says of a claim, and when: `privlab.ledger.judging` has the same five.
VERDICTS = {
    "measuring": "some missing",
    "not tested": "a need fails",
    "reproduced": "for it",
    "not reproduced": "against it",
    "inconclusive": "neither",
}


def plane(accuracy: str = "accuracy at the task", leakage: str = "success of the attack") -> Drawing:
    """Defences in the plane of accuracy and leakage, without numbers: what is better, and what the Pareto front is.

    accuracy, leakage: what the axes are called; accuracy grows to the right, leakage upwards.
    """
    canvas = Canvas()
    origin, right, top = (34, 232), 372, 8
    canvas.arrow(origin, (right, origin[1]))
    canvas.arrow(origin, (origin[0], top))
    canvas.label((origin[0] + right) / 2, 252, f"{accuracy} →")
    canvas.add(f'<g transform="rotate(-90 18 {(origin[1] + top) / 2:g})">')
    canvas.label(18, (origin[1] + top) / 2, f"{leakage} →")
    canvas.add("</g>")
    front = [(86, 212), (186, 186), (276, 136), (340, 40)]
    beaten = [(104, 132), (214, 88), (262, 74)]
    canvas.line(*front, colour=BLUE, dashed=True, width=2)
    for x, y in front[:-1]:
        canvas.add(f'<circle cx="{x}" cy="{y}" r="6" fill="{BLUE}"/>')
    for x, y in beaten:
        canvas.add(
            f'<rect x="{x - 5.5}" y="{y - 5.5}" width="11" height="11" fill="none" stroke="{PLAIN}" stroke-width="1.6"/>'
        )
    x, y = front[-1]
    canvas.add(f'<polygon points="{x},{y - 9} {x + 9},{y} {x},{y + 9} {x - 9},{y}" fill="{RED}"/>')
    canvas.label(x - 15, y + 4, "undefended", anchor="end", bold=True)
    canvas.label(176, 172, "Pareto front", anchor="end", bold=True)
    canvas.label(48, 34, "beaten: another defence is more accurate and leaks less", anchor="start", width=172)
    canvas.line((100, 76), (104, 122), width=1)
    canvas.line((170, 66), (206, 82), width=1)
    canvas.arrow((306, 180), (354, 216), colour=GREEN, width=2.4)
    canvas.label(302, 194, "better", anchor="end", bold=True)
    return canvas.done(
        258,
        f"A plane. To the right: {accuracy}. Upwards: {leakage}. The undefended network lies at the upper right: "
        "accurate, and leaking. Three defences lie with it on the Pareto front, a dashed line that falls to the "
        "left: no other is both more accurate and leaks less. Three more lie above the front and are beaten. An "
        "arrow to the lower right says: better.",
    )


def verdict() -> Drawing:
    """The way from a claim to one of the five verdicts of the ledger."""
    canvas, wide, x = Canvas(), 152, 258
    steps = [
        ("claim", "A is larger than B."),
        ("registered repeats", "Are all there?"),
        ("needs", "Can it be compared?"),
        ("one-sided tests", "one for the claim, one against it, each at 5 %"),
    ]
    y, boxes = 0.0, []
    for name, note in steps:
        tall = 72 if name == "one-sided tests" else 46
        boxes.append(canvas.box(0, y, wide, tall, name, note, colour=PLAIN if name != "claim" else BLUE))
        y += tall + 24
    for one, two in pairwise(boxes):
        canvas.arrow((one.bottom[0], one.bottom[1] + 2), (two.top[0], two.top[1] - 2))
    for box, words in ((boxes[1], "yes"), (boxes[2], "yes")):
        canvas.label(box.bottom[0] + 8, box.bottom[1] + 15, words, anchor="start")
    tests = boxes[3].right[1]
    rows = [boxes[1].right[1], boxes[2].right[1], tests - 22, tests + 22, tests + 66]
    looks = {"reproduced": GREEN, "not reproduced": RED}
    for (name, when), middle in zip(VERDICTS.items(), rows, strict=True):
        out = canvas.box(x, middle - 16, WIDTH - x, 32, name, colour=looks.get(name, PLAIN))
        start = middle if name in ("measuring", "not tested") else tests
        points = (
            [(wide + 3, start), (out.left[0] - 3, middle)]
            if start == middle
            else [(wide + 3, start), (wide + 14, start), (wide + 14, middle), (out.left[0] - 3, middle)]
        )
        canvas.arrow(*points)
        canvas.label((wide + 8 + x) / 2, middle - 6, when)
    return canvas.done(
        rows[-1] + 18,
        "From top to bottom: a claim, such as A is larger than B. Are all registered repeats there? If some are "
        "missing: measuring. Can it be compared? If a need fails: not tested. Then two one-sided tests, one for the "
        "claim and one against it. If the one for it succeeds: reproduced. If the one against it does: not "
        "reproduced. If neither: inconclusive.",
    )


def three_rulings() -> Drawing:
    """Where the repeats' mean can lie beside what a claim asks for, and what the rule says of each."""
    canvas, bar, left = Canvas(), 128, 236
    rows = [
        ("reproduced", 186, GREEN, "at least 95 % above"),
        ("inconclusive", 148, PLAIN, "some on either side"),
        ("not reproduced", 70, RED, "at most 5 % above"),
    ]
    canvas.label(bar, 14, "what the claim asks for", bold=True)
    canvas.line((bar, 22), (bar, 22 + 62 * len(rows)), dashed=True)
    for k, (name, mean, colour, note) in enumerate(rows):
        floor = 70 + 62 * k
        points = [(mean + 1.5 * x, floor - 34 * math.exp(-((x / 14) ** 2) / 2)) for x in range(-32, 33, 2)]
        canvas.line(*points, colour=colour, width=2)
        canvas.line((8, floor), (left - 8, floor), width=1)
        for x in (-17, -6, 3, 20):
            canvas.add(f'<circle cx="{mean + x}" cy="{floor}" r="3.6" fill="{colour}"/>')
        canvas.label(left, floor - 18, name, anchor="start", bold=True)
        canvas.label(left, floor - 2, note, anchor="start")
    return canvas.done(
        30 + 62 * len(rows),
        "Three bell curves, each above four dots, beside a dashed line that marks what the claim asks for. The first "
        "lies to the right of the line, with at least 95 % of it above: reproduced. The second lies across the line: "
        "inconclusive. The third lies to its left, with at most 5 % above: not reproduced.",
    )
