"""The laboratory: what the labs measure, an experiment a function of one repeat, and its evidence a line a repeat."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
