"""From the decorated function to the committed line: what is missing is measured, once, and what is killed goes on."""

import inspect
import json
import math
import statistics

import pytest
import torch
from filelock import FileLock

from privlab import experiments
from privlab.__main__ import main
from privlab.compute.tasks import Taken
from privlab.experiments import Size, experiment, measuring, protocol
from privlab.ledger import evidence


@pytest.fixture
def walk(monkeypatch, tmp_path):
    protocol.names()  # imports all, or what is imported by a test would be forgotten with its registry
    monkeypatch.setattr(protocol, "_REGISTRY", {})
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    monkeypatch.delenv("PRIVLAB_LIVE", raising=False)
    monkeypatch.setenv("PRIVLAB_JOBS", "1")

    @experiment("invented.walk", data=())
    @Size("smoke", 2, "invented")
    @Size("class", 6, "invented")
    def walk(repeat, device="cpu"):
        yield "psnr[a]", torch.randn((), generator=torch.Generator().manual_seed(repeat))
        yield "psnr[b]", 1.0
        yield "picture[a]", torch.full((2, 3, 3), repeat % 256, dtype=torch.uint8)

    return walk


def measured(size="class", **more):
    return experiments.measure(["invented.walk"], size, **{"jobs": 1, "progress": False, **more})


def again(walk, *sizes, name="invented.walk"):
    """The same function under an address, at other sizes."""
    return experiment(name, data=())((Size("smoke", 1, "x"), *sizes, walk.function))


def test_each_function_takes_the_settings_of_all_its_sizes():
    for one in map(experiments.find, protocol.names()):
        assert [*one.sizes] == [size for size in evidence.SIZES if size in one.sizes]  # from the cheapest up
        takes = inspect.signature(one.function).parameters
        for size in one.sizes.values():
            rest = {name: value for name, value in size.settings.items() if one.on and name not in takes}
            inspect.signature(one.function).bind(0, **{k: v for k, v in size.settings.items() if k not in rest})
            assert not rest or inspect.signature(one.on).bind(0, **rest)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda walk: experiments.find("invented.walks"), "did you mean 'invented.walk'"),
        (lambda walk: walk.digest("paper"), "can be measured at smoke, class"),
        (lambda walk: experiments.run(walk.name, "banana"), "size='banana' is not a size; Known: smoke, class"),
        (lambda walk: measured(device="banana"), "device='banana' is not"),
    ],
)
def test_what_cannot_be_done_is_told_and_registers_nothing(walk, call, says):
    with pytest.raises((ValueError, OSError), match=says):
        call(walk)
    assert not evidence.registrations()


def test_what_is_missing_is_registered_and_measured_once(walk, tmp_path):
    assert measured().startswith("6 repeats at class: 6 done in ")
    assert measured() == "all 6 repeats at class are there: nothing to do" and "2 done" in measured("smoke")
    (entry,) = evidence.registrations()  # smoke is never judged
    assert (entry.experiment, entry.size, entry.first, entry.repeats, entry.attempt) == (walk.name, "class", 0, 6, 0)
    there = experiments.load(walk.name)
    assert there.size == "class" and there.complete and there.repeats == (0, 1, 2, 3, 4, 5)
    expected = [torch.randn((), generator=torch.Generator().manual_seed(n)).item() for n in range(6)]
    assert there["psnr[a]"].tolist() == expected and there.mean("psnr[b]") == 1.0
    assert there.spread("psnr[a]") == pytest.approx(statistics.stdev(expected)) and there.spread("psnr[b]") == 0.0
    assert there.above("psnr[a]", 0.0) == sum(v > 0 for v in expected) and there.above("psnr[b] - psnr[b]", 0.0) == 0
    with pytest.raises(KeyError, match=r"it has psnr\[a\], psnr\[b\]"):
        there["psnr[c]"]


def test_a_repeat_that_another_process_is_at_is_left_to_it_and_tried_again(walk, tmp_path):
    file = evidence.path(walk.name, "class")
    file.parent.mkdir()
    with FileLock(file.with_name(f".{file.name}.1.lock")):
        with pytest.raises(Taken, match="repeat 1 of .*walk is being measured by another process"):
            measuring.repeat(walk.name, "class", 1, str(tmp_path))
        said = measured(minutes=2 / 60)
        assert "5 done" in said and said.endswith(", 1 left for the next call")
    assert "1 done" in measured()  # the other was killed without a line
    measuring.repeat(walk.name, "class", 1, str(tmp_path))  # and one that comes late finds it there
    assert [json.loads(line)["repeat"] for line in file.read_text().splitlines()] == [0, 2, 3, 4, 5, 1]


def test_the_command_says_what_is_there_and_what_is_no_size_of_it(walk, capsys):
    for says in ("2 repeats at smoke: 2 done in", "all 2 repeats at smoke are there: nothing to do"):
        assert main(["measure", walk.name, "*.walk", "--size", "smoke", "--jobs", "1"]) == 0  # patterns may overlap
        assert says in capsys.readouterr().out
    for asked in ([], ["--register"], ["--list"]):
        assert main(["measure", walk.name, "--size", "night", *asked]) == 2
        assert "size='night': invented.walk can be measured at smoke, class" in capsys.readouterr().err
    assert main(["measure", "invented*", "--size", "night"]) == 0  # of many those are meant that have the size
    for asked, says in (
        ("--register", "registered: invented.walk at class, repeats 0 to 5"),
        ("--list", "invented.walk"),
    ):
        assert main(["measure", walk.name, "--size", "class", asked]) == 0
        assert says in capsys.readouterr().out
    assert not evidence.read(walk.name, "class", walk.digest("class"))


def test_a_further_try_begins_behind_the_first_and_is_measured_beside_it(walk, capsys, tmp_path):
    assert "6 done" in measured()
    again(walk, Size("class", 4, "invented", first=4))
    assert main(["measure", walk.name, "--size", "class", "--register"]) == 2
    assert "Size(..., first=6)" in capsys.readouterr().err
    further = again(walk, Size("class", 4, "invented", first=6))
    assert further.digest("class") == walk.digest("class") and "4 done" in measured()
    tries = evidence.registrations()
    assert [(entry.first, entry.repeats, entry.attempt) for entry in tries] == [(0, 6, 0), (6, 4, 1)]
    there = experiments.load(walk.name)
    assert there.repeats == (6, 7, 8, 9) and (there.picture("picture[a]") == 6).all()
    assert sorted(file.name[0] for file in tmp_path.rglob("*.png")) == ["0", "1", "2", "6", "7", "8"]


def test_a_cluster_is_used_where_no_jobs_are_named_and_has_cards_that_this_machine_does_not_see(walk, monkeypatch):
    monkeypatch.setenv("PRIVLAB_CLUSTER", "nonsense://x")
    with pytest.raises(ConnectionError, match="cluster='nonsense://x' does not answer"):
        measured(jobs=None, device="cuda:9999")
    assert "6 done" in measured()


def test_a_live_run_is_a_new_repeat_and_at_smoke_the_canary(walk, tmp_path, monkeypatch):
    mine = experiments.run(walk.name, "class")
    assert mine.repeats == (6,) and mine["psnr[a]"].shape == (1,) and mine.picture("picture[a]").shape == (2, 3, 3)
    assert not list(tmp_path.rglob("*.jsonl"))
    monkeypatch.setenv("PRIVLAB_LIVE", str(tmp_path / "live"))
    measured("smoke")
    assert experiments.run(walk.name, "smoke").repeats == (0,)
    (live,) = evidence.read(walk.name, "smoke", walk.digest("smoke"), tmp_path / "live")
    assert live.values == evidence.read(walk.name, "smoke", walk.digest("smoke"))[0].values


def test_where_nothing_is_measured_the_evidence_is_empty_and_a_night_measures_what_is_missing(walk, tmp_path):
    there = experiments.load(walk.name)
    assert len(there) == 0 and not there.complete and there.size == "class" and math.isnan(there.mean("psnr[a]"))
    assert math.isnan(there.spread("psnr[a]")) and math.isnan(there.above("psnr[a]", 0.0))
    with pytest.raises(KeyError, match=r"there is no picture picture\[a\].*nothing is measured yet"):
        there.picture("picture[a]")
    again(walk, Size("class", 1, "y"), Size("night", 3, "z"))
    measuring.repeat(walk.name, "night", 1_001, str(tmp_path))
    there = experiments.run(walk.name, "gpu")  # which it does not have
    assert there.size == "night" and there.repeats == (1_000, 1_001, 1_002) and there.complete


def test_a_value_that_json_cannot_hold_and_a_name_yielded_twice(walk, monkeypatch):
    for values, says in (
        ([("psnr[a]", math.nan)], r"psnr\[a\]=nan .*give a finite number"),
        ([("psnr[a]", 1.0)] * 2, "yields 'psnr\\[a\\]' twice"),
    ):
        monkeypatch.setattr(experiments.Experiment, "__call__", lambda *_, values=values: iter(values))
        with pytest.raises(RuntimeError, match=says):
            measured("smoke")
    assert not evidence.read(walk.name, "smoke", walk.digest("smoke"))
    monkeypatch.setattr(experiments.Experiment, "__call__", lambda *_: iter([("psnr[a]", math.inf)]))
    assert walk.measured(0, "smoke")[0].values == {"psnr[a]": 320.0}  # an exact image, as JSON can hold it
