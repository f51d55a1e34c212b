"""What a search shows and what it does not: checks of lab 04 that ask for no formula, and say of each wrong answer why it is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from privlab.notebook.exercises import answers

# -- 04.decibels: an image made without the gradient, one that shows everything, and what tells them apart ------------------

BLIND = {
    "a": "A is the reconstruction itself, and was made from the gradient. You need one that nobody needs the gradient for.",
    "c": "C is the photograph, darkened: it cannot be made without the photograph. Which image could anyone make?",
    "d": "D was made from the gradient of the Swin, and its PSNR is another. Which image could anyone make?",
}
SHOWS_ALL = {
    "a": "Look at A: would you know what it shows? You need an image of the same PSNR in which everything can be seen.",
    "b": "B is plain grey: it shows nothing of the photograph.",
    "d": "D shows something of the photograph, but its PSNR is not A's. You need one with about the same PSNR.",
}
TELLS = {
    "psnr": "The PSNR of B and C is about the same; this is the student's mistake.",
    "mse": "PSNR is ten times the logarithm of one over the MSE: where one is the same, so is the other.",
}


def decibels(answer: object) -> Iterator[str]:
    items = answers.collection(answer)
    if items is None or len(items) != 3:
        yield "Give three answers, as in ('A', 'B', 'MSE'): two letters, then the number that tells these two images apart."
        return
    blind, whole, number = map(answers.word, items)
    yield from _chosen(blind, "b", BLIND, "The first answer is one of the letters A to D")
    yield from _chosen(whole, "c", SHOWS_ALL, "The second answer is one of the letters A to D")
    yield from _chosen(number, "ssim", TELLS, "The third answer is 'PSNR', 'MSE' or 'SSIM'")


# -- 04.tuning: how an attacker chooses a weight --------------------------------------------------------------------------

PLANS = {
    "a": "The attacker does not have the client's photograph. If they had it, they would need no attack.",
    "b": "That can be computed, and misleads: the gradient of a noisy picture can be as near as that of a clean one. Compare the distances "
    "in the titles with the pictures.",
    "c": "The loss contains the weight itself. A small weight makes it small, whatever the picture looks like. Restarts may be compared by "
    "their loss, since all of them have the same weight.",
}


def tuning(answer: object) -> Iterator[str]:
    items = answers.collection(answer) or [answer]
    if len(items) != 1:
        yield "Give one letter: which plan would you follow?"
        return
    yield from _chosen(answers.word(items[0]), "d", PLANS, "Give one of the letters A to D")


# -- 04.failure: what a failed attack proves --------------------------------------------------------------------------------

UNPROVED = {
    "b": "the closed form of lab 00 recovers the photograph from this very gradient. It is in there, and only this search did not find it",
    "d": "one attack was run. Others know more: a stronger optimiser, a prior of photographs, several gradients of the same image",
    "e": "no trained network was attacked here. Training changes what a gradient holds, for better or worse, and that has to be measured",
}
PROVED = {
    "a": "it says what was run, on what, and with which outcome, and no more",
    "c": "it compares two networks under one attack, which was repeated with other photographs and weights",
}


def failure(answer: object) -> Iterator[str]:
    proved = {letter: f"You may sign {letter.upper()}: {why}" for letter, why in PROVED.items()}
    unproved = {letter: f"Do not sign {letter.upper()}: {why}" for letter, why in UNPROVED.items()}
    yield from answers.sentences(answer, proved, unproved, "statements")


def _chosen(said: str, right: str, wrong: dict[str, str], ask: str) -> Iterator[str]:
    """Yield why an answer is wrong, or what may be answered where it is none of the choices."""
    if said != right:
        yield wrong.get(said, f"{ask}; yours is '{said}'.")


CHECKS = {"04.decibels": decibels, "04.tuning": tuning, "04.failure": failure}
