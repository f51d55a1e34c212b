from .architecture_drawing import morph_block
from .charts import dots, heat, lines, roc, scatter
from .evidence_charts import evidence, evidence_lines, published
from .image_grids import images, side_by_side, tiles
from .picture import LOOKS, Picture, chart, render

__all__ = [
    "LOOKS",
    "Picture",
    "chart",
    "dots",
    "evidence",
    "evidence_lines",
    "heat",
    "images",
    "lines",
    "morph_block",
    "published",
    "render",
    "roc",
    "scatter",
    "side_by_side",
    "tiles",
]
