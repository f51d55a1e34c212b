"""Where results are kept, and who computes them: the run store, tasks on worker processes, this machine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
