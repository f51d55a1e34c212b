"""privlab: how does a vision model's architecture change what it leaks about its training data?

The rooms, from the ground up: compute, data, models, metrics and leak, training, defences, ledger, attacks, notebook, auditing, runner,
teaching. A module imports from its own room or from below it; pyproject.toml has the contracts.

`privlab.audit(model, images, labels)` turns the whole book on one model of yours; see `privlab.auditing.stages`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
