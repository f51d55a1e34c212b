"""Sentences whose numbers come from what was measured, shown as Markdown: in a notebook as in the book."""

import math
import numbers
from string import Formatter
from typing import Any

MISSING = "…"  # in place of a number that is not measured yet


class Sentence(str):
    """Text that a notebook shows as Markdown, and plain Python without quotation marks."""

    __repr__ = str.__str__

    def _repr_markdown_(self) -> str:
        return str(self)


def text(template: str, *values: object, **names: object) -> Sentence:
    """A sentence with numbers put into it, as `str.format` does: text("Swin is {:.1f} dB ahead.", kept.mean("psnr[swin] - psnr[resnet]")).

    template: Markdown with a place, {} or {name}, for each value.  values, names: numbers or words; one-element arrays and tensors too. A
        float without a format shows four significant digits, an infinite one "∞". For NaN, which stands for what is not measured
        yet, three dots are shown, and a remark behind the sentence says what they mean. No formulas: the book shows them as typed.
    """
    told = _Numbers().vformat(template, values, names)
    return Sentence(told + f" *({MISSING}: not measured yet.)*" * (MISSING in told))


class _Numbers(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        value = value.item() if hasattr(value, "item") else value  # of an array or a tensor with one element
        if not isinstance(value, numbers.Real) or math.isfinite(value):
            return format(value, spec or ".4g" * isinstance(value, float))
        return MISSING if math.isnan(value) else "∞" if float(value) > 0 else "−∞"
