"""Labs 05 and 06 as experiments: repeats of their own, the same start for what is compared, and attacks that are what they say."""

from unittest.mock import Mock

import pytest
import torch

from privlab.course.lab_06 import searches
from privlab.experiments.trial import Trial
from privlab.experiments.victims.april import victim

TINY = dict(width=96, depth=2, position_std=1.0)


def test_batches_are_of_different_classes_and_of_different_photographs():
    batches = [Trial.of(n, size=4) for n in range(30)]
    assert all(len(batch.labels.unique()) == 4 for batch in batches)
    assert len(torch.cat([batch.images for batch in batches]).unique(dim=0)) == 120


def test_alpha_by_rule_gives_both_terms_as_far_to_fall():
    trial = Trial.of(3)
    model = victim(trial, **TINY)
    leak = trial.leak(model)
    attack = searches.attack("april", 2, model, leak, 5)
    begin = next(attack.search(model, leak, seed=5)).losses
    assert begin["position"] + attack.terms[1].weight == pytest.approx(begin["gradients"], rel=1e-3)


def test_a_search_is_told_no_label_and_ends_with_its_last_images(own_store, monkeypatch):
    trial = Trial.of(4)
    monkeypatch.setattr(Trial, "search", searched := Mock(wraps=trial.search))
    result = searches.invert("dlg", trial, victim(trial, **TINY), 3, hide=["pos_embed"])
    assert result.snapshots[-1].step == 3 and searches.final(result).equal(result.snapshots[-1].images)
    _, _, leak, *_ = searched.call_args.args
    assert leak.labels is None and "pos_embed" not in leak.grads
