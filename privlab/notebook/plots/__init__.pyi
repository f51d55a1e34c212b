from .architecture_drawing import morph_block
from .charts import dots, evidence, evidence_lines, heat, lines, published, roc, scatter
from .image_grids import images, side_by_side, tiles
from .picture import LOOKS, Picture, chart, render

__all__ = [
    "LOOKS", "Picture", "chart", "dots", "evidence", "evidence_lines", "heat", "images", "lines",
    "morph_block", "published", "render", "roc", "scatter", "side_by_side", "tiles",
]  # fmt: skip
