"""Judgements as reports and notebooks show them."""

from dataclasses import replace

from privlab.ledger.judging import REPRODUCED, STAND_IN, Judgement
from privlab.ledger.papers import Claim, Printed
from privlab.ledger.rule import Figure

OURS = [Figure("psnr[a]", 40.0, 1.5, 4, 0, False, (38, 42)), Figure("psnr[b]", 20.0, None, 1, 0, False, None)]
IN_PRINT = [Printed("psnr[a]", 36.24, 5.21, "dB", "Table 5"), Printed("psnr[b]", 40.0, None, "dB", "Table 5")]


def judged(name="lu2022.one", verdict=REPRODUCED, scope=STAND_IN, p=None, **changes) -> Judgement:
    """A claim of this name, with changes to it, and its verdict."""
    claim = Claim(name, "Table 1", "05", "ordering", f"Statement of {name}.", "psnr[a] > psnr[b]")
    why = f"reason for {verdict}"
    return Judgement(replace(claim, **changes), "class", verdict, why, OURS, scope, "small networks", p)
