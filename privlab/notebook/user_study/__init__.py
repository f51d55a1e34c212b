"""The user study of Koh et al. 2024, section 11: which of two pictures is closer?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
