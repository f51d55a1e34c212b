"""Charts of evidence: what is committed, what the paper prints and what was measured live stand in one picture, and in its words."""

import numpy as np
import pytest

from privlab.experiments import Evidence
from privlab.notebook import plots

NAMES = {"ResNet": "psnr[resnet]", "Swin": "psnr[swin]"}


def made(size="night", **columns):
    table = {f"psnr[{name}]": np.array(values) for name, values in columns.items()}
    repeats = tuple(range(len(next(iter(table.values()), ()))))
    return Evidence("module.name", size, repeats, table, True, "two networks", False, 1.0, {})


def test_a_chart_tells_all_that_it_shows():
    kept, mine = made(resnet=[10.0, 12.0], swin=[20.0, 24.0]), made("class", resnet=[13.0], swin=[26.0])
    alt = plots.evidence(kept, mine, NAMES, xlabel="PSNR in dB", published={"ResNet": 11.3}).alt
    assert "ResNet: 11 ± 1.4, yours 13, the paper 11.3" in alt and "Swin: 22 ± 2.8, yours 26" in alt
    assert "2 repeats of 2 names (two networks)" in alt


def test_a_row_may_be_a_difference_taken_repeat_by_repeat():
    kept, mine = made(resnet=[10.0, 12.0], swin=[20.0, 24.0]), made("class", resnet=[13.0], swin=[26.0])
    assert kept["psnr[swin] - psnr[resnet]"].tolist() == [10.0, 12.0]
    rows = {"gain": "psnr[swin] - psnr[resnet]", "nothing": "psnr[swin] - psnr[vit]"}
    assert "gain: 11 ± 1.4, yours 13" in plots.evidence(kept, mine, {"gain": rows["gain"]}, xlabel="dB").alt
    with pytest.raises(KeyError, match=r"psnr\[vit\] is not measured"):
        kept[rows["nothing"]]


def test_a_live_run_alone_is_drawn_too():
    alt = plots.evidence(made(), made("class", resnet=[13.0]), NAMES, xlabel="PSNR in dB").alt
    assert "ResNet: yours 13" in alt and "Swin" not in alt and "nothing is measured yet" in alt


def test_what_is_not_measured_is_named():
    with pytest.raises(KeyError, match=r"psnr\[swin\] is not measured by module.name; it has psnr\[resnet\]"):
        plots.evidence(made(resnet=[1.0, 2.0]), None, NAMES, xlabel="PSNR in dB")
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.evidence(made(), None, NAMES, xlabel="PSNR in dB")


def test_lines_have_the_mean_along_an_axis_and_the_readers_own_points():
    kept, mine = made(a=[10.0, 12.0], b=[20.0, 24.0]), made("class", a=[13.0], b=[26.0])
    series = {"Swin": {0.01: "psnr[a]", 0.1: "psnr[b]"}}
    picture = plots.evidence_lines(kept, mine, series, xlabel="noise", ylabel="PSNR in dB", log="x")
    assert "Swin from 11 at 0.01 to 22 at 0.1" in picture.alt
    assert "from 13 at" in plots.evidence_lines(made(), mine, series, xlabel="noise", ylabel="PSNR in dB").alt
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.evidence_lines(made(), None, series, xlabel="noise", ylabel="PSNR in dB")
