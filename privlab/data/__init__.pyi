from . import attributes, faces, private_public, sources
from .images import NORMALISE, Images, Normalise, load, names
from .splits import four_way, in_out

__all__ = [
    "NORMALISE",
    "Images",
    "Normalise",
    "attributes",
    "faces",
    "four_way",
    "in_out",
    "load",
    "names",
    "private_public",
    "sources",
]
