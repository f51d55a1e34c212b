"""Searches that labs keep: one name for all that they depend on, done once, and not begun after the deadline."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import kept_run, search_once
from privlab.leak import observe


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))


def test_a_kept_search_is_done_once_and_not_begun_after_the_deadline():
    attack, calls = gradient_inversion.tag(3), []
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    leak = observe(model, torch.rand(1, 3, 2, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([1]))

    def search(**keep):
        calls.append(keep)
        return attack.run(model, leak, progress=False, **keep)

    store, later = kept_run(attack, 0, "cpu", victim="linear"), time.monotonic() + 60
    with pytest.raises(TimeoutError, match="this part's time is over; what was found is kept: run the lab again"):
        search_once(store, time.monotonic() - 1, search)
    first = search_once(store, later, search)
    again = search_once(store, time.monotonic() - 1, search)  # the deadline is for what is left to do
    assert len(calls) == 1 and calls[0]["store"] is store and 0 < calls[0]["budget"] <= 60
    plain = search_once(None, time.monotonic() - 1, search)
    assert calls[1] == dict(store=None, budget=None)
    assert torch.equal(first.images, again.images) and torch.equal(first.images, plain.images)


def test_the_name_of_a_kept_search_holds_all_that_it_depends_on(monkeypatch):
    def path(steps=3, seed=0, device="cpu", **about):
        return kept_run(gradient_inversion.tag(steps), seed, device, **about).path

    paths = {path(), path(4), path(seed=1), path(device="cuda"), path(image=2), path(image=3)}
    assert len(paths) == 6 and path(image=3) in paths
    monkeypatch.setattr(gradient_inversion.results, "FORMAT", 0)
    assert path() not in paths
