"""Labs 00 and 14 as experiments: a linear solve held against the mean of the other photographs, and draws that decide as they should."""

import numpy as np
import torch

from privlab import data, metrics
from privlab.course.lab_00 import experiments as start_here
from privlab.course.lab_14 import experiments as the_ledger


def test_the_closed_form_is_far_above_the_mean_of_the_others():
    values = dict(start_here.closed_form(0, "smoke"))
    photos = data.load("imagenet_samples")
    pictures = torch.cat([photos.one(i, size=224)[0] for i in range(20)])
    others = metrics.psnr(pictures[1:].mean(0, keepdim=True), pictures[:1]).item()
    assert abs(values["psnr[mean_photograph]"] - others) < 1e-3
    assert values["psnr[closed_form, one_image]"] > values["psnr[closed_form, one_image, bfloat16]"] > 25


def test_a_decision_by_hand():
    """1, 2, 3, 4: t = 3.87 against 2.35; and of two samples 2.5 apart with a standard error of 0.91, t = 2.74 against 1.94."""
    steps = np.array([1.0, 2.0, 3.0, 4.0])
    for compare, says in (("a[x] > 0", "holds"), ("a[x] < 0", "fails"), ("a[x] > 2", "")):
        assert the_ledger.decision(compare, {"a": steps}) == says
    pair = {"a": steps + 2.5, "b": steps[::-1]}  # paired: 5.5, 3.5 ... -0.5
    assert [the_ledger.decision("a[x] > b[x]", pair, apart) for apart in (False, True)] == ["", "holds"]
