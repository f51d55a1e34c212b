"""Lab 00's experiment: a linear solve, held against the mean of the other photographs."""

import torch

from privlab import data, metrics
from privlab.course.lab_00 import experiments as start_here
from privlab.ledger import papers


def test_the_closed_form_is_far_above_the_mean_of_the_others():
    values = dict(start_here.closed_form(0, "smoke"))
    (claim,) = papers.claims("00")
    assert claim.experiments == ["start_here.closed_form"]
    photos = data.load("imagenet_samples")
    pictures = torch.cat([photos.one(i, size=224)[0] for i in range(20)])
    others = metrics.psnr(pictures[1:].mean(0, keepdim=True), pictures[:1]).item()
    assert abs(values["psnr[mean_photograph]"] - others) < 1e-3
    assert values["psnr[closed_form, one_image]"] > values["psnr[closed_form, one_image, bfloat16]"] > 25
    assert values["picture[photograph_recovered_rounded]"].shape == (112, 3 * 112, 3)
