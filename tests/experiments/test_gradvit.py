"""Batches under GradViT: what a repeat draws, and what its rows are."""

import torch

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
