"""Charts and grids of images, each with a description for those who do not see it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
