"""Schematic drawings for a lab, made by code: each is one call, reads on light and dark ground and on a telephone, and describes itself."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
