"""One thread a process: on shared cores two threads of one small solve wait for each other more than they help."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; the processes that tests start inherit it

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("privlab", deadline=None, print_blob=True)  # first calls import, fetch and compile
settings.load_profile("privlab")


@pytest.fixture
def figures(monkeypatch):
    """The matplotlib figures behind the pictures that a test draws."""
    from privlab import plots  # not at the top: few tests draw

    seen = []
    render = plots._picture
    monkeypatch.setattr(plots, "_picture", lambda figure, alt: seen.append(figure) or render(figure, alt))
    return seen
