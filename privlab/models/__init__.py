"""The victims: timm's networks, the papers' architectures, and the surgery that turns one into another."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
