from . import atomic, interrupts, machine, reading, store, tasks, threads
from .machine import device
from .store import Run

__all__ = ["Run", "atomic", "device", "interrupts", "machine", "reading", "store", "tasks", "threads"]
