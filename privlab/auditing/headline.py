"""What an audit says first, and how its model was asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privlab.auditing.likeness import Likeness
from privlab.auditing.words import dB, percent

if TYPE_CHECKING:
    from privlab.auditing.report import Audit


def headline(audit: Audit) -> str:
    """The first thing to know of an audit: what was read, what was not, and how the model was asked."""
    asked = ways(audit)
    if leaks := audit.leaks:
        best = max(leaks, key=lambda s: s.psnr)
        count = len({s.image for s in leaks})
        return (
            f"Without a search, closed forms read {count} of {len(audit.levels)} images, each from its own gradient, above "
            f"{audit.settings['target']:g} dB or nearer than any picture that looks at no gradient. The best is {best.form}, at "
            f"{dB(best.psnr)}; 30 look clean.{asked}"
        )
    if _random(audit):
        return f"No verdict: what was asked of this model is random, and nothing was read from the draws that were looked at.{asked}"
    searched = f" The short search does, at {dB(audit.search.psnr)}." if _search_shows(audit) else ""
    untried = [form for form, why in audit.why.items() if "was not tried" in why]  # see patches.find
    tried = (
        f"No closed form that was tried (not {', '.join(untried)}: see why)"
        if untried
        else "No closed form of this book"
    )
    return (
        f"{tried} reads an image from one image's gradient of this model. That is no proof that it is safe: a longer "
        f"search, or algebra that we do not know, may.{searched}{asked}"
    )


def ways(audit: Audit) -> str:
    """What there is to say of how the model was asked; nothing where it was given as it is audited and draws nothing."""
    if not any(asked.way.random for asked in audit.asked) and len(audit.asked) == 1:
        return ""
    sentences = []
    for asked in audit.asked:
        way, words = asked.way, "As it was given" if asked.way.mode == "as given" else "In eval mode"
        if way.random:
            held = (
                "held still, as for an attacker who knows them"
                if way.still
                else "not to be held still: what follows is of one draw"
            )
            words += f" it draws at random: two gradients of image 0 differ by {percent(way.apart)} of their length; its draws are {held}"
        psnr = "no closed form applies" if math.isinf(asked.psnr) and asked.psnr < 0 else f"at most {dB(asked.psnr)}"
        sentences.append(f"{words}: {psnr}, {asked.images} of {len(audit.levels)} images read.")
    (reported,) = (asked.way.mode for asked in audit.asked if asked.reported)
    if len(audit.asked) > 1:
        sentences.append(
            f"The report is of the worse: {'eval mode' if reported == 'eval mode' else 'as it was given'}."
        )
    return " " + " ".join(sentences)


def _random(audit: Audit) -> bool:
    """Whether what the report is of is random, so that another draw may say more."""
    return any(asked.way.random for asked in audit.asked if asked.reported)


def _search_shows(audit: Audit) -> bool:
    s = audit.search
    if s.psnr is None:
        return False
    return s.psnr > audit.levels[0] or audit.blind[0].nearer(Likeness(s.psnr, s.ssim, s.lpips))
