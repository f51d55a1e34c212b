from .canvas import Canvas, Drawing
from .federated import batch, client_and_server, search_loop
from .inversion import three_parties
from .judging import plane, three_rulings, verdict
from .membership import in_and_out, keep_matrix, one_question, who_trains_on_what
from .narrowing import bottleneck
from .networks import generator_inversion, morph_block, probe, residual_stage, vit

__all__ = [
    "Canvas",
    "Drawing",
    "batch",
    "bottleneck",
    "client_and_server",
    "generator_inversion",
    "in_and_out",
    "keep_matrix",
    "morph_block",
    "one_question",
    "plane",
    "probe",
    "residual_stage",
    "search_loop",
    "three_parties",
    "three_rulings",
    "verdict",
    "vit",
    "who_trains_on_what",
]
