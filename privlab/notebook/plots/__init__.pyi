from .architecture_drawing import morph_block
from .charts import dots, heat, lines, scatter, spectrum
from .distributions import cloud, confusion, histogram, roc
from .evidence_charts import evidence, evidence_lines, published
from .image_grids import face, images, side_by_side, smooth, tiles
from .picture import Picture
from .tradeoff import tradeoff_chart

__all__ = [
    "Picture",
    "cloud",
    "confusion",
    "dots",
    "evidence",
    "evidence_lines",
    "face",
    "heat",
    "histogram",
    "images",
    "lines",
    "morph_block",
    "published",
    "roc",
    "scatter",
    "side_by_side",
    "smooth",
    "spectrum",
    "tiles",
    "tradeoff_chart",
]
