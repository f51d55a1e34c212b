"""Was this picture in the training set? Signals, a network, and likelihood ratios."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
