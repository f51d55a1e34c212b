"""One thread a process: on shared cores two threads of one small solve wait for each other more than they help."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the processes that tests start inherit it

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("privlab", deadline=None, print_blob=True)  # first calls import, fetch and compile
settings.load_profile("privlab")
