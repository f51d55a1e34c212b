"""Colours as WCAG sees them."""

from matplotlib.colors import to_rgb
from matplotlib.typing import ColorType


def luminance(colour: ColorType) -> float:
    """Relative luminance, 0 (black) to 1 (white)."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: ColorType, other: ColorType) -> float:
    """1 (none) to 21; of text, WCAG asks 4.5, and 7 at its strictest."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
