"""Searches that are kept: one name for all that they depend on."""

from __future__ import annotations

import pytest

from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import kept_run


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))


def test_the_name_of_a_kept_search_holds_all_that_it_depends_on(monkeypatch):
    def path(steps=3, seed=0, device="cpu", **about):
        return kept_run(gradient_inversion.tag(steps), seed, device, **about).path

    paths = {path(), path(4), path(seed=1), path(device="cuda"), path(image=2), path(image=3)}
    assert len(paths) == 6 and path(image=3) in paths
    monkeypatch.setattr(gradient_inversion.results, "FORMAT", 0)
    assert path() not in paths
