"""What moved since a baseline: verdicts, figures within and beyond their spreads, and how often a false alarm is raised."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privlab import ledger
from privlab.ledger import comparison
from privlab.ledger.papers import Claim
from privlab.ledger.records import Machine, Record
from privlab.ledger.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, VERDICTS, Judgement

HERE = Machine("3.11.7", "2.15.0", "1.0.31", "0.1.0", "Linux", 2, 1, "x86_64, AVX2")


def record(values, key="a", metric="psnr", lab="05", **other) -> Record:
    about = {
        "profile": "smoke",
        "seed": 0,
        "device": "cpu",
        "mode": "eval",
        "victim": "fresh",
        "position_std": None,
        "unit": None,
    }
    about |= {"seconds": None, "note": "", "exact": 0, "machine": HERE}
    return Record(metric, (key,), tuple(map(float, values)), lab, **{**about, **other})


def judged(name="lu2022.one", verdict=REPRODUCED, share=0.97, compare="psnr[a] > psnr[b]") -> Judgement:
    claim = Claim(name, "lu2022", "Table 1", "05", "ordering", "S.", compare, profile="smoke", profile_why="W")
    return Judgement(claim, "smoke", verdict, f"reason for {verdict}", share)


def book(records=(), judgements=(), profile="smoke") -> ledger.Ledger:
    return ledger.Ledger(profile, "2026-11-22T16:26:09+00:00", tuple(judgements), tuple(records))


def words(now, before) -> dict[str, str]:
    return {shift.name: shift.what for shift in comparison.shifts(now, before)}


# -- verdicts ------------------------------------------------------------------------------------------------------------

ORDER = [NOT_REPRODUCED, INCONCLUSIVE, REPRODUCED]


@pytest.mark.parametrize("old", VERDICTS)
@pytest.mark.parametrize("new", [*VERDICTS, None])
def test_every_step_from_one_verdict_to_another(old, new):
    now = [] if new is None else [judged(verdict=new)]
    changes = comparison.verdicts(now, [judged(verdict=old)])
    stopped = old != NOT_RUN and new in (NOT_RUN, None)
    both = old in ORDER and new in ORDER
    worse = both and ORDER.index(new) < ORDER.index(old)
    better = both and ORDER.index(new) > ORDER.index(old)
    expected = ["worse"] * worse + ["no longer run"] * stopped + ["better"] * better
    assert [change.what for change in changes] == expected
    assert comparison.compare(book(judgements=now), book(judgements=[judged(verdict=old)])).status == int(
        worse or stopped
    )


def test_the_worse_goes_first_and_a_claim_that_was_rewritten_says_so():
    before = [judged("lu2022.a", NOT_REPRODUCED), judged("lu2022.b"), judged("lu2022.c")]
    now = [judged("lu2022.a"), judged("lu2022.b", INCONCLUSIVE, compare="psnr[a] > 99")]
    found = comparison.verdicts(now, before)
    assert [(c.what, c.claim) for c in found] == [
        ("worse", "lu2022.b"),
        ("no longer run", "lu2022.c"),
        ("better", "lu2022.a"),
    ]
    assert found[0].why == "reason for inconclusive; and what it compares was changed"
    assert (found[0].before, found[0].now) == ("reproduced (97.0%)", "inconclusive (97.0%)")
    assert found[1].why == "not on the list of claims" and "changed" not in found[2].why


# -- figures -------------------------------------------------------------------------------------------------------------


def test_each_fate_of_a_figure_has_its_word():
    before = [record([30, 31, 32, 33], k) for k in ("equal", "within", "moved", "single", "otherwise", "gone")]
    now = [
        record([30, 31, 32, 33], "equal"),
        record([30.5, 31.5, 32.5, 33.5], "within"),
        record([10, 11, 12, 13], "moved"),
        record([31], "single"),
        record([30, 31, 32, 33], "otherwise", victim="trained 2 epochs"),
        record([1, 2], "new"),
    ]
    assert words(now, before) == {
        "psnr[equal]": comparison.EQUAL,
        "psnr[within]": comparison.WITHIN,
        "psnr[moved]": comparison.MOVED,
        "psnr[single]": comparison.NO_SPREAD,
        "psnr[otherwise]": comparison.OTHERWISE,
        "psnr[gone]": comparison.GONE,
        "psnr[new]": comparison.NEW,
    }
    same_name = [record([1, 2, 3, 4], "equal", lab="06")]  # of another lab: another figure
    assert [s.what for s in comparison.shifts(same_name, before[:1])] == [comparison.GONE, comparison.NEW]


def test_repeats_that_all_agree_have_no_spread_to_judge_by():
    assert words([record([0.5] * 4)], [record([1.0] * 4)]) == {"psnr[a]": comparison.NO_SPREAD}
    assert words([record([0.5, 0.5, 0.5, 0.6])], [record([1.0] * 4)]) == {
        "psnr[a]": comparison.MOVED
    }  # one side has one


def test_the_p_value_is_welch_s():
    a, b = [3.0, 4.5, 5.5, 6.0, 9.0], [1.0, 1.5, 1.75]
    (shift,) = comparison.shifts([record(a)], [record(b)])
    assert shift.p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, rel=1e-12)


def test_errors_are_compared_in_logs():
    """A thousandfold smaller error hides behind the spread of plain means, and shows in logs."""
    before, now = [1e-3, 4e-3, 9e-2, 2e-2], [1e-7, 5e-7, 8e-6, 2e-6]
    assert words([record(now, metric="mse", unit="pixels")], [record(before, metric="mse", unit="pixels")]) == {
        "mse[a]": comparison.MOVED
    }
    assert words([record(now)], [record(before)]) == {"psnr[a]": comparison.WITHIN}


def test_equal_figures_do_not_make_a_moved_one_harder_to_see():
    """p = .03 is enough for one figure that differs, beside however many that do not; beside nine that differ it is not."""
    odd = record([1, 2, 3, 4]), record([3.5, 4.9, 5.1, 7])
    alike = [record([5, 6, 7, 8], f"k{i}") for i in range(500)]
    (first, *_) = comparison.shifts([odd[1], *alike], [odd[0], *alike])
    assert 0.02 < first.p < 0.05 and first.what == comparison.MOVED
    others = [record([5.1, 6.2, 6.9, 8], f"k{i}") for i in range(9)]
    assert comparison.shifts([odd[1], *others], [odd[0], *alike[:9]])[0].what == comparison.WITHIN


def simulated(rng, shift=0.0, figures=60) -> list[Record]:
    """A run: figures of every kind, each with its own level, spread and number of repeats, fixed by its number alone."""
    fixed = np.random.default_rng(1)
    made = []
    for number in range(figures):
        n, level, spread = fixed.choice([2, 3, 4, 5, 8, 10]), fixed.uniform(-5, 30), fixed.uniform(0.01, 4)
        draw = [rng.standard_normal, lambda k: rng.standard_t(4, k), lambda k: rng.uniform(-1.7, 1.7, k)][number % 3]
        values = level + spread * (draw(n) + (shift if number < 10 else 0))
        if number % 4 == 3:
            made.append(record(np.exp(values), f"k{number}", "mse", unit="pixels"))
        else:
            made.append(record(values, f"k{number}"))
    return made


@pytest.fixture(scope="module")
def alarms():
    """For each of 200 pairs of runs in which nothing moved: how many figures were said to have moved."""
    rng = np.random.default_rng(0)
    return [
        sum(s.what == comparison.MOVED for s in comparison.shifts(simulated(rng), simulated(rng))) for _ in range(200)
    ]


def test_where_nothing_moved_one_run_in_twenty_raises_an_alarm_at_most(alarms):
    share = sum(map(bool, alarms)) / len(alarms)
    assert share <= comparison.ALARM + 2 * math.sqrt(comparison.ALARM * (1 - comparison.ALARM) / len(alarms))


def test_at_one_level_for_each_figure_every_run_would(monkeypatch):
    """What the correction is for: without it, 60 figures at 5% raise two a run."""
    monkeypatch.setattr(comparison, "_limit", lambda ps, alarm: alarm)
    rng = np.random.default_rng(0)
    found = [s.what for _ in range(5) for s in comparison.shifts(simulated(rng), simulated(rng))]
    assert found.count(comparison.MOVED) > 5


def test_a_real_shift_is_found_and_few_others_with_it():
    """Ten figures of 60 move by four standard deviations, ten runs over."""
    rng = np.random.default_rng(3)
    moved = [
        int(s.name.strip("psnrme[]k"))
        for _ in range(10)
        for s in comparison.shifts(simulated(rng, shift=4.0), simulated(rng))
        if s.what == comparison.MOVED
    ]
    right = sum(number < 10 for number in moved)
    assert right / 100 > 0.5  # those of two and three repeats cannot be seen
    assert (len(moved) - right) / len(moved) <= 0.1


# -- what should be equal to the bit, and what cannot be ------------------------------------------------------------------


def test_chance_is_told_from_a_change_of_code():
    before = [record([30.0, 31.0]), record([5.0, 6.0], "b")]
    now = [record([30.0, 31.0000001]), record([5.0, 6.0], "b")]
    assert "1 figure (lab 05) not equal to the bit although seed, device and versions are" in str(
        comparison.compare(book(now), book(before))
    )
    for changed in (
        {"seed": 1},
        {"machine": replace(HERE, torch="2.16.0")},
        {"machine": replace(HERE, device_name="H200")},
        {"machine": replace(HERE, threads=2)},
    ):
        elsewhere = [replace(r, **changed) for r in now]
        assert "not equal to the bit" not in str(comparison.compare(book(elsewhere), book(before)))


def test_another_kernel_or_more_cores_change_no_figure():
    now = [record([30.0, 31.5], machine=replace(HERE, platform="Linux 99", cpus=64))]
    assert comparison.shifts(now, [record([30.0, 31.0])])[0].same


def test_the_head_names_the_versions_that_differ():
    before = [record([30.0, 31.0]), record([30.0, 31.0], "b", machine=replace(HERE, python="3.12.1"))]
    now = [replace(r, seed=1, machine=replace(r.machine, torch="2.16.0", timm="1.1.0")) for r in before]
    head = comparison.compare(book(now), book(before)).head
    assert head[0] == "Against the baseline of 2026-11-22T16:26:09+00:00, profile smoke."
    assert head[1] == "Not the same: seed 0 -> 1; torch 2.15.0 -> 2.16.0; timm 1.0.31 -> 1.1.0."
    assert head[2].startswith("With another seed")
    assert len(comparison.compare(book(before), book(before)).head) == 1


def test_runs_of_two_profiles_are_not_compared():
    with pytest.raises(
        ValueError, match=r"baseline: it was run at the profile gpu, this at smoke; compare runs of one profile"
    ):
        comparison.compare(book(), book(profile="gpu"))


# -- the page and the status ---------------------------------------------------------------------------------------------


def test_only_the_strict_status_fails_where_figures_moved_and_verdicts_did_not():
    still = [judged()]
    before = [record([30, 31, 32, 33])]
    moved = comparison.compare(book([record([10, 11, 12, 13])], still), book(before, still))
    within = comparison.compare(book([record([30.2, 31.1, 32, 33])], still), book(before, still))
    gone = comparison.compare(book([], still), book(before, still))
    otherwise = comparison.compare(book([record([30, 31, 32, 33], mode="train")], still), book(before, still))
    assert [d.status for d in (moved, within, gone, otherwise)] == [0, 0, 0, 0]
    assert [d.strict for d in (moved, within, gone, otherwise)] == [1, 0, 1, 1]
    worse = comparison.compare(book(before, [judged(verdict=INCONCLUSIVE)]), book(before, still))
    assert (worse.status, worse.strict) == (1, 1)


def test_the_page_is_one_table_with_a_sum():
    before = [record([30, 31, 32, 33], k) for k in ("a", "b", "c", "d", "e")]
    now = [record([10, 11, 12, 13], "a"), record([30, 31, 32, 33.5], "b"), record([30, 31, 32, 33], "c")]
    page = str(comparison.compare(book(now, [judged(verdict=INCONCLUSIVE)]), book(before, [judged()])))
    lines = page.splitlines()
    assert lines[2:4] == ["| what | name | before | now | why |", "| --- | --- | --- | --- | --- |"]
    assert lines[4].startswith("| worse | `lu2022.one` | reproduced (97.0%) | inconclusive (97.0%) | reason for")
    assert lines[5].startswith(r"| moved | lab 05 `psnr[a]` | 31.5 ± 1.3 (n=4) | 11.5 ± 1.3 (n=4) | p = ")
    assert lines[6].startswith("| no longer recorded | lab 05 `psnr[d]` and 1 more | 31.5 ± 1.3 (n=4) |")
    assert "3 figures in both runs: 1 equal to the bit, 1 within their spread, 1 moved; 2 no longer recorded." in page
    nothing = str(comparison.compare(book(before, [judged()]), book(before, [judged()])))
    assert "No verdict moved. 5 figures in both runs: 5 equal to the bit." in nothing and "|" not in nothing
