from . import attributes, identities, private_public, sources
from .images import NORMALISE, Images, Normalise, load, names
from .splits import four_way, in_out

__all__ = [
    "NORMALISE",
    "Images",
    "Normalise",
    "attributes",
    "four_way",
    "identities",
    "in_out",
    "load",
    "names",
    "private_public",
    "sources",
]
