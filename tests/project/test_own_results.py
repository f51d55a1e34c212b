"""The tables of the book's own results: means and deviations of committed repeats, and what is missing is said."""

import statistics

import own_results
import pytest

from privlab import experiments
from privlab.ledger import evidence


def test_a_cell_is_the_mean_and_the_deviation_of_the_repeats():
    digest = experiments.find("gradient_inversion.second_order").digest("class")
    lines = evidence.read("gradient_inversion.second_order", "class", digest, within=range(8))
    values = [line.values["psnr[adam, swin]"] for line in lines]
    cell = f"{statistics.mean(values):.3g} ± {statistics.stdev(values):.2g}"
    kept = experiments.load("gradient_inversion.second_order", "class")
    assert own_results._cell(kept, "psnr[adam, swin]") == cell
    assert own_results._cell(kept, "psnr[adam, nobody]") == ""


def test_what_is_not_measured_is_said_and_has_no_row():
    table = own_results.Table(
        "T", "A.", "gradient_inversion.second_order", {"Swin": "swin", "nobody": "nobody"}, {"Adam": "psnr[adam, {}]"}
    )
    text = "\n".join(own_results._section(table))
    assert "| Swin | " in text and "| nobody |" not in text and "Not measured yet: nobody." in text


@pytest.mark.parametrize("table", own_results.TABLES, ids=lambda t: t.title)
def test_where_repeats_are_there_a_row_is(table):
    kept = experiments.load(table.experiment)
    rows = [key for key in table.rows.values() if next(iter(table.columns.values())).format(key) in kept]
    assert rows or not len(kept)
