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


def test_a_legend_tells_the_reader_whose_dots_are_whose(figures):
    kept, mine = made(resnet=[10.0, 12.0], swin=[20.0, 24.0]), made("class", resnet=[11.0], swin=[22.0])
    plots.evidence(kept, mine, NAMES, xlabel="PSNR in dB", published={"ResNet": 11.3})
    plots.evidence(made(resnet=[10.0]), None, {"ResNet": "psnr[resnet]"}, xlabel="PSNR in dB")
    plots.evidence(kept, made(resnet=[11.0]), {"ResNet": "psnr[resnet]"}, xlabel="PSNR in dB")
    legends = [{text.get_text() for text in figure.legends[0].get_texts()} for figure in figures]
    assert legends[0] == {"committed: 2 repeats at night", "mean ± std", "your run, at class", "the paper"}
    assert "committed: 1 repeat at night" in legends[1]
    assert "your run" in legends[2]  # at the size of the evidence, so nothing needs to be said
    (ax,) = figures[0].axes
    assert ax.get_xlabel() == "PSNR in dB"
    of = {line.get_label(): line for line in ax.lines}
    committed, yours = of["committed: 2 repeats at night"], of["your run, at class"]
    assert committed.get_marker() != yours.get_marker() and committed.get_color() != yours.get_color()
    assert sorted({round(y) for y in yours.get_ydata()}) == [0, 1]
    gaps = [abs(a - b) for a in committed.get_ydata() for b in yours.get_ydata() if round(a) == round(b)]
    assert len(gaps) == 4 and min(gaps) > 0.4  # never one on the other, though the mean is where the reader's dot is


def test_the_papers_numbers_come_from_its_table():
    rows = {"CNN": "ResNet-50", "Swin": "Swin-T"}
    numbers = plots.published("zhang2024_table5", rows, metric="psnr", dataset="CIFAR10")
    assert numbers == {"CNN": 11.30, "Swin": 36.24}
    with pytest.raises(ValueError, match=r"0 rows of zhang2024_table5 with \{'metric': 'psnr'\} are called 'Mamba'"):
        plots.published("zhang2024_table5", {"Mamba": "Mamba"}, metric="psnr")
    with pytest.raises(
        ValueError, match=r"rows of lu2022_table1 with \{\} are called 'APRIL'; name one, by architecture"
    ):
        plots.published("lu2022_table1", {"APRIL": "APRIL"})
