"""How many threads OpenMP has here, and how they wait for each other: said before torch, NumPy or scikit-learn brings it.

Threads of one process wait for each other by spinning. Beside another program, one of them often waits for a thread that has no core:
left alone, two threads on two cores then take several times as long as one. What is set below costs a quiet machine a few per cent;
`make bench` has both columns ("threads").
"""

import os

import psutil

from privlab.compute import machine

# Looks of a waiting thread before it sleeps, some half a millisecond. libgomp's own 300,000 make a crowd slow; 1,000 leave a thread
# asleep between two small operations, and make a quiet machine slow.
SPINS = "20000"
LOOK = 0.1  # seconds


def settle() -> None:
    """Set OMP_NUM_THREADS and GOMP_SPINCOUNT of this process and of those that it starts; what a user has set stays.

    As many threads as there are cores that nobody uses just now, of those that this process may use, and at least one.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if "OMP_NUM_THREADS" not in os.environ:
        idle = (psutil.cpu_count() or 1) * (1 - psutil.cpu_percent(LOOK) / 100)
        os.environ["OMP_NUM_THREADS"] = str(max(1, min(machine.cores(), round(idle))))
