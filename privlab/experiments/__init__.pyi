from .loading import Evidence, load, run
from .measuring import measure
from .protocol import Experiment, Settings, Size, Values, experiment, find, names, profile
from .trial import Trial, tiled

__all__ = [
    "Evidence", "Experiment", "Settings", "Size", "Trial", "Values",
    "experiment", "find", "load", "measure", "names", "profile", "run", "tiled",
]  # fmt: skip
