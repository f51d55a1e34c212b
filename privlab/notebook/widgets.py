"""Live controls for a lab: a prediction to write down before a result is shown, a function whose arguments become controls, and a search
to watch.
"""

from privlab.notebook.explore import explore
from privlab.notebook.predict import choose, predict
from privlab.notebook.sentences import Sentence
from privlab.notebook.watch import watch

__all__ = ["Sentence", "choose", "explore", "predict", "watch"]
