from .architecture_drawing import morph_block
from .charts import confusion, dots, heat, histogram, lines, roc, scatter, spectrum, tradeoff_chart
from .evidence_charts import evidence, evidence_lines, published
from .image_grids import images, side_by_side, tiles
from .picture import Picture

__all__ = [
    "Picture",
    "confusion",
    "dots",
    "evidence",
    "evidence_lines",
    "heat",
    "histogram",
    "images",
    "lines",
    "morph_block",
    "published",
    "roc",
    "scatter",
    "side_by_side",
    "spectrum",
    "tiles",
    "tradeoff_chart",
]
