from . import april, morph, parts, representations, skip_connections, zoo
from .zoo import build, sized

__all__ = ["april", "build", "morph", "parts", "representations", "sized", "skip_connections", "zoo"]
