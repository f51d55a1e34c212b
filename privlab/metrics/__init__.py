"""How near a recovered image is, how good a membership test, and what a defence costs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
