from . import atomic, machine, store, tasks
from .store import Run

__all__ = ["Run", "atomic", "machine", "store", "tasks"]
