"""The photographs behind a gradient: by search (`dlg` to `gradvit`, Gauss-Newton) and in closed form."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
