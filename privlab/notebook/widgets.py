"""Live controls for a lab: a prediction to write down before a result is shown, and a function whose arguments become controls."""

from privlab.notebook.explore import explore
from privlab.notebook.predictions import choose, predict
from privlab.notebook.sentences import Sentence

__all__ = ["Sentence", "choose", "explore", "predict"]
