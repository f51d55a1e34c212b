"""Charts of evidence: what is committed, what the paper prints and what was measured live stand in one picture, and in its words."""

import numpy as np
import pytest

from privlab.experiments import Evidence
from privlab.notebook import plots

NAMES = {"ResNet": "psnr[resnet]", "Swin": "psnr[swin]"}


def made(size="night", **columns):
    table = {f"psnr[{name}]": np.array(values) for name, values in columns.items()}
    repeats = tuple(range(len(next(iter(table.values()), ()))))
    return Evidence("module.name", size, repeats, table, True, "two networks", False)


KEPT, MINE = made(resnet=[10.0, 12.0], swin=[20.0, 24.0]), made("class", resnet=[11.0], swin=[26.0])


def test_a_chart_tells_all_that_it_shows_and_a_row_may_be_a_difference_taken_repeat_by_repeat():
    rows = NAMES | {"gain": "psnr[swin] - psnr[resnet]"}
    alt = plots.evidence(KEPT, MINE, rows, xlabel="PSNR in dB", published={"ResNet": 11.3}).alt
    assert "ResNet: 11 ± 1.4, yours 11, the paper 11.3" in alt and "Swin: 22 ± 2.8, yours 26" in alt
    assert KEPT[rows["gain"]].tolist() == [10.0, 12.0] and "gain: 11 ± 1.4, yours 15" in alt
    assert "2 repeats of 2 names (two networks)" in alt


def test_a_live_run_alone_is_drawn_too_and_what_is_not_measured_is_named():
    alt = plots.evidence(made(), made("class", resnet=[13.0]), NAMES, xlabel="PSNR in dB").alt
    assert "ResNet: yours 13" in alt and "Swin" not in alt and "nothing is measured yet" in alt
    with pytest.raises(KeyError):
        plots.evidence(made(resnet=[1.0, 2.0]), None, NAMES, xlabel="PSNR in dB")
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.evidence(made(), None, NAMES, xlabel="PSNR in dB")


def test_lines_have_the_mean_along_an_axis_and_the_readers_own_points():
    series = {"Swin": {0.01: "psnr[resnet]", 0.1: "psnr[swin]"}}
    alts = [plots.evidence_lines(kept, MINE, series, xlabel="noise", ylabel="dB").alt for kept in (KEPT, made())]
    assert "Swin from 11 at 0.01 to 22 at 0.1" in alts[0] and "from 11 at 0.01 to 26" in alts[1]
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.evidence_lines(made(), None, series, xlabel="noise", ylabel="PSNR in dB")


def test_a_legend_tells_the_reader_whose_dots_are_whose(figures):
    plots.evidence(KEPT, MINE, NAMES, xlabel="PSNR in dB", published={"ResNet": 11.3})
    plots.evidence(KEPT, made(resnet=[11.0]), {"ResNet": "psnr[resnet]"}, xlabel="PSNR in dB")
    legends = [{text.get_text() for text in figure.legends[0].get_texts()} for figure in figures]
    assert legends[0] == {"committed: 2 repeats at night", "mean ± std", "your run, at class", "the paper"}
    assert "your run" in legends[1]  # at the size of the evidence, so nothing needs to be said
    at = {m: [y for line in figures[0].axes[0].lines if line.get_marker() == m for y in line.get_ydata()] for m in "o^"}
    gaps = [abs(a - b) for a in at["o"] for b in at["^"] if round(a) == round(b)]
    assert len(gaps) == 4 and min(gaps) > 0.4  # never one on the other, though the mean is where the reader's dot is


def test_the_papers_numbers_come_from_its_table():
    rows = {"CNN": "ResNet-50", "Swin": "Swin-T"}
    numbers = plots.published("zhang2024_table5", rows, metric="psnr", dataset="CIFAR10")
    assert numbers == {"CNN": 11.30, "Swin": 36.24}
    with pytest.raises(ValueError):
        plots.published("lu2022_table1", {"APRIL": "APRIL"})  # one for each architecture
