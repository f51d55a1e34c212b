from .loading import Evidence, load, run
from .measuring import measure
from .protocol import Experiment, Size, experiment, find, names, profile
from .trial import Trial, tiled

__all__ = [
    "Evidence", "Experiment", "Size", "Trial",
    "experiment", "find", "load", "measure", "names", "profile", "run", "tiled",
]  # fmt: skip
