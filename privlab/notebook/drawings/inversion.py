"""Who has what in a model inversion: the company, the attacker, and the judge that the attacker never sees."""

from __future__ import annotations

from privlab.notebook.drawings import glyphs
from privlab.notebook.drawings.canvas import BLUE, GREEN, NAME, RED, Canvas, Drawing

WIDE, HIGH, GAP = 262, 82, 40


def three_parties(people: int = 20) -> Drawing:
    """A company that trains a victim, an attacker with a copy of it, and a judge who knows the private photographs.

    people: how many are private.
    """
    canvas = Canvas()
    boxes = []
    for k, (name, words, colour) in enumerate(
        (
            ("company", f"Photographs of {people} private people train the victim.", BLUE),
            ("attacker", "Has public photographs of other people, and no private one.", RED),
            ("judge", "Another network, trained on the private photographs.", GREEN),
        )
    ):
        box = canvas.box(0, k * (HIGH + GAP), WIDE, HIGH, colour=colour)
        glyphs.network(canvas, 12, box.y + 24, 44, 34, colour)
        canvas.label(72, box.y + 24, name, size=NAME, bold=True, anchor="start")
        canvas.label(72, box.y + 43, words, anchor="start", width=WIDE - 76)
        boxes.append(box)
    company, attacker, judge = boxes
    for above, below, words in (
        (company, attacker, "a copy of the victim"),
        (attacker, judge, "the faces that were found"),
    ):
        canvas.arrow((34, above.bottom[1] + 3), (34, below.y - 3), colour=RED, width=2.4)
        canvas.label(46, above.bottom[1] + GAP / 2 + 5, words, anchor="start")
    side = WIDE + 26
    canvas.arrow(
        (WIDE + 3, company.right[1]),
        (side, company.right[1]),
        (side, judge.right[1]),
        (WIDE + 3, judge.right[1]),
        dashed=True,
    )
    canvas.label(side + 8, attacker.right[1] - 8, "private photo- graphs, past the attacker", anchor="start", width=84)
    return canvas.done(
        judge.bottom[1],
        f"Three boxes, one below the other. The company trains the victim on photographs of {people} private people. The "
        "attacker gets a copy of the victim, and has public photographs of other people. The judge, another network, is "
        "trained on the private photographs, which go to it past the attacker. It is given the faces that were found.",
    )
