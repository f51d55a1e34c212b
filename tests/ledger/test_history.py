"""Weeks of ledgers: their order, verdicts and figures run by run, and in which run each moved."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from privlab import ledger
from privlab.ledger import history
from privlab.ledger.papers import Claim
from privlab.ledger.records import Figure, record

CLAIMS = [
    Claim(
        f"lu2022.{name}",
        "lu2022",
        "Table 1",
        "05",
        "magnitude",
        "S.",
        f"psnr[{name}] > 20",
        profile="smoke",
        profile_why="W",
    )
    for name in ("steady", "falling")
]
FRESH = {"mode": "eval", "victim": "fresh", "lab": "05", "seed": 0, "device": "cpu"}


def week(folder, number, profile="smoke", **figures):
    """Write the run of one week, in which these figures were measured."""
    records = [record("psnr", [name], values, profile=profile, **FRESH) for name, values in figures.items()]
    made = ledger.summarise(records, profile, ran=["05"], claims=CLAIMS)
    made = ledger.Ledger(made.profile, f"2026-11-{number:02d}T00:00:00+00:00", made.judgements, made.records)
    ledger.write(folder / f"week{number}" / "ledger.json", made)
    return folder / f"week{number}"


@pytest.fixture
def weeks(tmp_path):
    """Four weeks, written in another order: one figure holds, one falls, one creeps, one is missing for a week."""
    steady = [40.0, 41.0, 42.0, 43.0]
    creep = [[30.0 + n + x for x in (0.0, 0.2, 0.4, 0.6)] for n in (0.0, 0.25, 0.5, 0.75)]
    week(tmp_path, 3, steady=steady, falling=[10.0, 11.0, 12.0, 11.0], creeping=creep[2], spare=[1.0, 2.0])
    week(tmp_path, 1, steady=steady, falling=[30.0, 31.0, 32.0, 31.0], creeping=creep[0], spare=[1.0, 2.0])
    week(tmp_path, 4, steady=steady, falling=[10.0, 11.0, 12.0, 11.0], creeping=creep[3], spare=[1.0, 2.0])
    week(tmp_path, 2, falling=[30.0, 31.0, 32.0, 31.0], creeping=creep[1], spare=[1.0, 2.0])
    return tmp_path


def found(folder):
    return {line.name: line for line in history.lines(history.read([folder]))}


def test_runs_are_in_the_order_of_their_dates(weeks):
    assert [run.label for run in history.read([weeks])] == ["week1", "week2", "week3", "week4"]
    assert [run.label for run in history.read([weeks / "week4", weeks / "week2/ledger.json"])] == ["week2", "week4"]
    assert len(history.read([weeks, weeks / "week4"])) == 4  # a run that is named twice is one run


def test_a_claim_shows_each_verdict_and_the_weeks_in_which_it_changed(weeks):
    lines = found(weeks)
    assert lines["lu2022.falling"].cells == ("reproduced", "reproduced", "not reproduced", "not reproduced")
    assert lines["lu2022.falling"].moved == ("week3",)
    assert lines["lu2022.steady"].moved == ("week2", "week3")  # nothing was recorded in the second


def test_a_figure_moves_once_and_is_then_what_it_is(weeks):
    line = found(weeks)["psnr[falling]"]
    assert [round(figure.centre) for figure in line.cells if isinstance(figure, Figure)] == [31, 31, 11, 11]
    assert line.moved == ("week3",)


def test_a_slow_drift_is_found_although_no_week_is_far_from_the_last(weeks):
    assert found(weeks)["psnr[creeping]"].moved == ("week3",)


def test_a_week_without_a_figure_is_a_gap_and_no_move(weeks):
    line = found(weeks)["psnr[steady]"]
    assert line.cells[1] is None and line.moved == ()


def test_the_page_has_what_claims_use_and_what_moved_and_the_rest_is_in_csv(weeks):
    runs = history.read([weeks])
    page = history.render(runs, "md")
    assert "| lu2022.falling | R R N N | week3 |" in page
    assert r"| lab 05: psnr\[falling\] | 31, 31, 11, 11 | 11 ± 0.82 (n=4) | week3 |" in page
    assert r"| lab 05: psnr\[steady\] | 41.5, ., 41.5, 41.5 |" in page
    assert "creeping" in page and "spare" not in page
    assert page.index("1. week1: 2026-11-01") < page.index("4. week4: 2026-11-04")
    rows = list(csv.DictReader(io.StringIO(history.render(runs, "csv"))))
    assert len(rows) == 4 * (2 + 4) and {r["name"] for r in rows} >= {"psnr[spare]"}
    (fell,) = [r for r in rows if r["name"] == "psnr[falling]" and r["run"] == "week3"]
    assert (fell["kind"], fell["centre"], fell["n"], fell["moved"]) == ("figure", "11.0", "4", "True")
    assert [r["moved"] for r in rows if r["name"] == "psnr[falling]"] == ["False", "False", "True", "False"]
    assert len(json.loads(history.render(runs, "json"))) == len(rows)


def test_latex_is_two_tabulars_with_every_name_escaped(weeks):
    (weeks / "week4").rename(weeks / "50%_week")
    text = history.render(history.read([weeks]), "tex")
    assert text.count(r"\begin{tabular}{lll}") == 1 and text.count(r"\begin{tabular}{llll}") == 1
    assert r"lu2022.falling & R R N N & week3 \\" in text
    assert all(line.count("%") == line.count(r"\%") for line in text.splitlines() if not line.startswith("%"))


def test_runs_of_one_name_are_told_apart_by_their_dates(weeks, tmp_path):
    again = week(tmp_path / "other", 9, steady=[40.0, 41.0]).rename(tmp_path / "other/week1")
    labels = [run.label for run in history.read([weeks / "week1", again])]
    assert len(set(labels)) == 2


def test_several_profiles_need_one_to_be_named(weeks):
    week(weeks, 5, profile="class", steady=[40.0, 41.0])
    with pytest.raises(ValueError, match=r"profile=None: the runs given are of the profiles smoke, class; give one"):
        history.read([weeks])
    assert [run.label for run in history.read([weeks], "class")] == ["week5"]
    with pytest.raises(ValueError, match=r"profile='gpu': the runs given are of the profiles class, smoke"):
        history.read([weeks], "gpu")
    with pytest.raises(ValueError, match=r"profile='huge'; try one of smoke, class, night, gpu, paper"):
        history.read([weeks], "huge")


def test_a_folder_without_runs_and_a_file_that_is_no_ledger_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no ledger.json, nor does a folder in it"):
        history.read([tmp_path])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ValueError, match=r"x.json is no ledger"):
        history.read([tmp_path / "x.json"])
    with pytest.raises(ValueError, match=r"form='pdf'; try one of md, json, csv, tex"):
        history.render([], "pdf")


def test_a_committed_baseline_is_a_history():
    """Real ledgers, with every kind of record in them."""
    committed = Path(__file__).parents[2] / "book/baselines/smoke.json"
    runs = history.read([committed])
    lines = history.lines(runs)
    assert sum(line.kind == "claim" for line in lines) == len(runs[0].ledger.judgements)
    assert sum(line.kind == "figure" for line in lines) == len(runs[0].ledger.records)
    assert not any(line.moved for line in lines)
