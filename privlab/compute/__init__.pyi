from . import files, machine, store, tasks
from .machine import device
from .store import Run

__all__ = ["Run", "device", "files", "machine", "store", "tasks"]
