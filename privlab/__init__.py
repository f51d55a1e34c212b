"""privlab: how does a vision model's architecture change what it leaks about its training data?

The floors, from the ground up: metrics, sources, data, papers and store; models and leak; training; attacks and defences;
ledger, plots and widgets; runner. A module imports from its own floor or from below it.
"""

__version__ = "0.1.0"
