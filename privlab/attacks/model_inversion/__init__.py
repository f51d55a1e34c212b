"""What the people look like whom a classifier was trained to tell apart: PPA, GMI, KEDMI, PLG-MI, LOMMA."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
