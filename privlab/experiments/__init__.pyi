from .loading import Evidence, load, run
from .measuring import measure
from .protocol import Experiment, Size, experiment, find, names, profile

__all__ = ["Evidence", "Experiment", "Size", "experiment", "find", "load", "measure", "names", "profile", "run"]
