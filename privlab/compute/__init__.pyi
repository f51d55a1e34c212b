from . import atomic, interrupts, machine, reading, store, tasks
from .store import Run

__all__ = ["Run", "atomic", "interrupts", "machine", "reading", "store", "tasks"]
