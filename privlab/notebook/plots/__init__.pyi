from .architecture_drawing import blocks
from .distributions import cloud, confusion, gaussians, histogram, roc
from .image_grids import Picture, dots, heat, images, lines, scatter, side_by_side, spectrum
from .tradeoff import plane

__all__ = [
    "Picture",
    "blocks",
    "cloud",
    "confusion",
    "dots",
    "gaussians",
    "heat",
    "histogram",
    "images",
    "lines",
    "plane",
    "roc",
    "scatter",
    "side_by_side",
    "spectrum",
]
