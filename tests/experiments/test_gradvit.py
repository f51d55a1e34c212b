"""Batches under GradViT: what a repeat draws, and what its rows are."""

from types import SimpleNamespace

import torch

from privlab.course.lab_07 import experiments as lab
from privlab.experiments.victims import batches


def test_batches_are_nested_of_different_classes_and_new_in_every_repeat():
    eight, two = batches.client(0, 8), batches.client(0, 2)
    assert torch.equal(eight.images[:2], two.images) and len(set(eight.labels.tolist())) == 8
    firsts = torch.cat([batches.client(n, 1).images for n in range(8)])
    assert len(firsts.unique(dim=0)) == 8


def test_a_family_holds_its_batch_and_the_guess_is_one_for_all():
    trial = batches.client(0, 2)
    model = batches.vit(trial.number, 1.0, width=256)
    _, (start,), known = batches.family(model, trial.leak(model), trial.images, [trial.number])
    assert start.shape == trial.images.shape
    torch.testing.assert_close(known["nearest_point"], trial.images.double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(known["guess"][0], known["guess"][1])


def test_each_size_attacks_the_batch_that_a_client_of_this_size_has(monkeypatch):
    asked = []
    monkeypatch.setattr(lab, "search", lambda trial, *_: asked.append(trial) or SimpleNamespace(images=trial.images))
    dict(lab.batches.measure(3, steps=1, sizes=[1, 2], distractors=8, width=96))
    for trial, size in zip(asked, [1, 2, 1, 2], strict=True):
        own = batches.client(3, size)
        assert trial.number == own.number and trial.images.equal(own.images) and trial.labels.equal(own.labels)
