"""Named sets of images: where they come from, what is in them, and who is trained on what."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
