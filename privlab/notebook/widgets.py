"""Live controls for a lab: a prediction to write down before a result is shown, a function whose arguments become controls, a search to
watch, and the verdicts on a lab's claims.
"""

from privlab.notebook.explore import Explorer as explore
from privlab.notebook.predict import choose, predict
from privlab.notebook.sentences import Sentence
from privlab.notebook.verdicts import Verdicts, verdicts
from privlab.notebook.watch import Watch as watch

__all__ = ["Sentence", "Verdicts", "choose", "explore", "predict", "verdicts", "watch"]
