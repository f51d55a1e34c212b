"""Searches that are kept: one name for all that they depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GaussNewton, kept_run, label_recovery


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


def test_searches_that_differ_are_kept_apart_and_one_without_a_name_is_refused():
    apart = [GaussNewton(), GaussNewton(tolerance=0.5), GaussNewton(labels=label_recovery.bias_counts)]
    assert len({kept_run(attack, 0, "cpu").path for attack in apart}) == 3
    nameless = replace(gradient_inversion.annealed(10), schedule=lambda progress: 1.0)
    with pytest.raises(ValueError, match="(?s)attack=.*<lambda>.*write a function with def"):
        kept_run(nameless, 0, "cpu")
