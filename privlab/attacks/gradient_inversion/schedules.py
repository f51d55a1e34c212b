"""How the step length falls (weights of a loss: `search.Term`): the part of the run that is over, 0 to 1 -> factor on the learning rate."""

import math


def constant(progress: float) -> float:
    """The same step length all along."""
    return 1.0


def staircase(progress: float) -> float:
    """A tenth at 3/8, 5/8 and 7/8 of the run each (Geiping et al. 2020)."""
    return 0.1 ** sum(progress >= drop for drop in (3 / 8, 5 / 8, 7 / 8))


def cosine(progress: float) -> float:
    """From 1 to 0 along half a cosine wave."""
    return (1 + math.cos(math.pi * progress)) / 2
