from . import atomic, machine, reading, store, tasks
from .machine import device
from .store import Run

__all__ = ["Run", "atomic", "device", "machine", "reading", "store", "tasks"]
