"""From the decorated function to the committed line: what is missing is measured, once, and what is killed goes on."""

import errno
import json
import math
import statistics
import tempfile
from dataclasses import replace
from functools import partial

import pytest
import torch

from privlab import experiments
from privlab.__main__ import main
from privlab.compute.tasks import Taken
from privlab.experiments import Size, measuring, protocol
from privlab.ledger import evidence

CODE = """
import os, time, torch
from privlab.experiments import Size, experiment

@experiment("invented.walk", smoke=Size(2, "invented"), class_=Size(6, "invented", settings=dict(seconds=0.05)))
def walk(repeat, seconds=0.0, device="cpu"):
    rng = torch.Generator().manual_seed(repeat)
    time.sleep(seconds)
    yield "psnr[a]", torch.randn((), generator=rng)
    yield "psnr[b]", 1.0
    yield "picture[a]", torch.full((2, 3, 3), repeat % 256, dtype=torch.uint8)
"""


@pytest.fixture
def walk(monkeypatch):
    protocol.names()  # imports all, or what is imported by a test would be forgotten with its registry
    monkeypatch.setattr(protocol, "_REGISTRY", {})
    scope = {}
    exec(CODE, scope)
    return scope["walk"]


def test_a_decorated_function_is_an_experiment(walk):
    assert walk.name == "invented.walk" and [*walk.sizes] == ["smoke", "class"] and walk.first("class") == 0
    assert len(walk.digest("smoke")) == 12 and walk.digest("smoke") != walk.digest("class")
    assert dict(walk(3, "smoke"))["psnr[b]"] == 1.0


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        (dict(night=Size(1, "x")), "no smoke"),
        (dict(smoke=Size(1, "x"), huge=Size(1, "x")), "'huge' is no size"),
        (dict(smoke=Size(0, "x")), "repeats=0"),
    ],
)
def test_what_is_no_experiment_is_named(sizes, says, walk):
    with pytest.raises(ValueError, match=says):
        experiments.experiment("invented.walk", **sizes)(walk.measure)
    with pytest.raises(ValueError, match="walk at smoke: settings: got an .* 'steps'; it takes seconds, device"):
        experiments.experiment("invented.walk", smoke=Size(1, "x", settings=dict(steps=3)))(walk.measure)


def test_an_unknown_name_has_a_nearest(walk):
    with pytest.raises(ValueError, match="did you mean 'invented.walk'"):
        experiments.find("invented.walks")
    with pytest.raises(ValueError, match="can be measured at smoke, class"):
        walk.digest("paper")
    with pytest.raises(ValueError, match="size='banana' is not a size; Known: smoke, class"):
        experiments.run(walk.name, "banana")


def test_the_same_function_under_another_address(walk):
    sizes = dict(smoke=Size(1, "x"), class_=Size(3, "y", first=7, seconds=0.1))
    run = walk.like("invented.run", given=dict(device="meta"), **sizes)
    assert experiments.find("invented.run") is run and run.data == walk.data and run.range("class") == range(7, 10)
    assert run.size("class").settings == dict(seconds=0.1) and run.measure.keywords == dict(device="meta")
    assert next(run(3, "smoke")) == next(walk(3, "smoke")) and run.digest("smoke") != walk.digest("smoke")


def test_what_is_missing_is_measured_once(walk, tmp_path):
    measure = partial(experiments.measure, [walk.name], "class", jobs=1, root=tmp_path, progress=False)
    assert measure().startswith("6 repeats at class: 6 done in ")
    assert measure() == "all 6 repeats at class are there: nothing to do"
    there = experiments.load(walk.name, root=tmp_path)
    assert there.size == "class" and there.complete and there.repeats == (0, 1, 2, 3, 4, 5)
    expected = [torch.randn((), generator=torch.Generator().manual_seed(n)).item() for n in range(6)]
    assert there["psnr[a]"].tolist() == expected and there.mean("psnr[b]") == 1.0
    assert there.spread("psnr[a]") == pytest.approx(statistics.stdev(expected)) and there.spread("psnr[b]") == 0.0
    assert there.above("psnr[a]", 0.0) == sum(v > 0 for v in expected) and there.above("psnr[b] - psnr[b]", 0.0) == 0
    with pytest.raises(KeyError, match=r"it has psnr\[a\], psnr\[b\]"):
        there["psnr[c]"]


def test_a_repeat_that_another_process_is_at_is_left_to_it_and_tried_again(walk, tmp_path):
    file, measure = evidence.path(walk.name, "class", tmp_path), partial(experiments.measure, [walk.name], "class")
    with measuring._alone(file, 1):
        with pytest.raises(Taken, match="repeat 1 of .*walk is being measured by another process"):
            measuring.repeat(walk.name, "class", 1, str(tmp_path))
        said = measure(jobs=1, minutes=2 / 60, root=tmp_path, progress=False)
        assert "5 done" in said and said.endswith(", 1 left for the next call")
    assert "1 done" in measure(jobs=1, root=tmp_path, progress=False)  # the other was killed without a line
    measuring.repeat(walk.name, "class", 1, str(tmp_path))  # and one that comes late finds it there
    assert [json.loads(line)["repeat"] for line in file.read_text().splitlines()] == [0, 2, 3, 4, 5, 1]
    assert not [*file.parent.glob(".*.[0-9].lock")]


def test_what_is_measured_is_registered_first_and_once(walk, tmp_path):
    for _ in range(2):
        experiments.measure([walk.name], "class", jobs=1, minutes=1e-9, root=tmp_path, progress=False)
    (entry,) = evidence.registrations(tmp_path)
    assert (entry.experiment, entry.size, entry.first, entry.repeats, entry.attempt) == (walk.name, "class", 0, 6, 0)
    experiments.measure([walk.name], "smoke", jobs=1, root=tmp_path, progress=False)
    assert len(evidence.registrations(tmp_path)) == 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (dict(device="banana"), "device='banana' is not a device of the labs"),
        (dict(device="cuda:9999"), "device='cuda:9999' is not on this machine"),
        (dict(jobs=0), "jobs=0 processes do no work"),
    ],
)
def test_what_cannot_be_done_registers_nothing(asked, says, walk, tmp_path):
    with pytest.raises(ValueError, match=says):
        experiments.measure([walk.name], "class", root=tmp_path, progress=False, **asked)
    assert not evidence.registrations(tmp_path)


def test_one_of_several_cards_is_for_one_process_and_no_cluster(walk, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    asked = {}
    monkeypatch.setattr(measuring.tasks, "fan_out", lambda work, title, **options: asked.update(options))
    experiments.measure([walk.name], "smoke", device="cuda:1", root=tmp_path)
    assert (asked["jobs"], asked["gpu"]) == (1, False)
    experiments.measure([walk.name], "smoke", device="cuda:1", jobs=3, root=tmp_path)
    assert asked["jobs"] == 3
    with pytest.raises(
        ValueError, match="device='cuda:1' is a card of one machine, and a cluster has several; give 'cuda'"
    ):
        experiments.measure([walk.name], "class", device="cuda:1", cluster="tcp://x", root=tmp_path)
    assert not evidence.registrations(tmp_path)


def test_a_line_names_the_device_that_computed_it(walk, tmp_path, monkeypatch):
    experiments.measure([walk.name], "smoke", jobs=1, device="auto", root=tmp_path, progress=False)
    there = evidence.read(walk.name, "smoke", None, tmp_path)
    assert {row.device for row in there} == {"cuda" if torch.cuda.is_available() else "cpu"}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    blind = replace(walk, measure=lambda repeat: walk.measure(repeat))
    lines = [measuring.row(each, "smoke", 0, {"psnr[a]": 1.0}, 1.0, "cuda") for each in (walk, blind)]
    assert [(line.device, line.versions.get("card")) for line in lines] == [("cuda", "a card"), ("cpu", None)]


def test_the_command_says_what_is_there_and_what_is_no_size_of_it(walk, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    for says in ("2 repeats at smoke: 2 done in", "all 2 repeats at smoke are there: nothing to do"):
        assert main(["measure", walk.name, "--size", "smoke", "--jobs", "1"]) == 0
        assert says in capsys.readouterr().out
    for asked in ([], ["--register"], ["--list"]):
        assert main(["measure", walk.name, "--size", "night", *asked]) == 2
        assert "size='night': invented.walk can be measured at smoke, class" in capsys.readouterr().err
    assert main(["measure", "invented*", "--size", "night"]) == 0  # of many those are meant that have the size


def test_patterns_may_overlap(walk, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    assert main(["measure", "invented*", walk.name, "--size", "smoke", "--jobs", "1"]) == 0
    assert "2 repeats at smoke: 2 done in" in capsys.readouterr().out
    assert main(["measure", walk.name, "*.walk", "--size", "smoke", "--list"]) == 0
    assert capsys.readouterr().out.count(walk.name) == 1


def test_a_further_try_says_where_it_may_begin(walk, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    register = ["measure", walk.name, "--size", "class", "--register"]
    assert main(register) == 0
    again = partial(experiments.experiment, "invented.walk", protocol=2, smoke=Size(1, "x"))
    again(class_=Size(6, "y"))(walk.measure)
    assert main(register) == 2 and "Size(..., first=6)" in capsys.readouterr().err
    again(class_=Size(6, "y", first=6))(walk.measure)
    assert main(register) == 0 and "walk at class, repeats 6 to 11" in capsys.readouterr().out


def test_a_further_try_is_registered_and_measured_beside_the_first(walk, tmp_path):
    measure = partial(experiments.measure, [walk.name], "class", jobs=1, root=tmp_path, progress=False)
    assert "6 done" in measure()
    more = Size(4, "invented", settings=dict(seconds=0.05), first=6)
    further = experiments.experiment("invented.walk", smoke=Size(2, "invented"), class_=more)(walk.measure)
    assert further.digest("class") == walk.digest("class") and "4 done" in measure()
    tries = evidence.registrations(tmp_path)
    assert [(entry.first, entry.repeats, entry.attempt) for entry in tries] == [(0, 6, 0), (6, 4, 1)]
    assert "nothing to do" in measure() and len(evidence.registrations(tmp_path)) == 2


def test_evidence_that_cannot_be_written_is_read_or_told_before_anything_is_measured(walk, tmp_path, monkeypatch):
    experiments.measure([walk.name], "class", jobs=1, root=tmp_path, progress=False)

    def closed(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(evidence, "FileLock", closed)
    monkeypatch.setattr(tempfile, "TemporaryFile", closed)
    assert "nothing to do" in experiments.measure([walk.name], "class", jobs=1, root=tmp_path, progress=False)
    monkeypatch.setattr(experiments.Experiment, "collected", None)
    with pytest.raises(OSError, match="cannot be added to .Read-only file system.; set PRIVLAB_EVIDENCE"):
        experiments.measure([walk.name], "smoke", jobs=1, root=tmp_path, progress=False)


@pytest.mark.check
def test_a_cluster_measures_what_this_machine_does(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVLAB_EVIDENCE", "far")  # the workers were started elsewhere
    name = "april_closed_form.theorems"
    far = experiments.measure([name], "smoke", cluster=cluster, progress=False)
    experiments.measure([name], "smoke", jobs=1, root=tmp_path / "here", progress=False)
    assert f"on the cluster at {cluster}" in far
    both = [evidence.read(name, "smoke", None, tmp_path / root) for root in ("far", "here")]
    assert [row.values for row in both[0]] == [row.values for row in both[1]]


def test_pictures_of_the_first_repeats_are_kept(walk, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    experiments.measure([walk.name], "class", jobs=1, progress=False)
    there = experiments.load(walk.name)
    assert there.picture("picture[a]", 2).shape == (2, 3, 3) and (there.picture("picture[a]", 2) == 2).all()
    with pytest.raises(KeyError, match="first 3 repeats"):
        there.picture("picture[a]", 5)
    later = experiments.experiment("invented.walk", smoke=Size(1, "x"), class_=Size(4, "x", first=100))(walk.measure)
    experiments.measure([later.name], "class", jobs=1, progress=False)
    there = experiments.load(later.name)
    assert (there.picture("picture[a]", 102) == 102).all()
    with pytest.raises(KeyError, match="first 3 repeats"):
        there.picture("picture[a]", 103)


def test_time_that_is_over_leaves_the_rest(walk, tmp_path):
    said = experiments.measure([walk.name], "class", jobs=1, minutes=0.1 / 60, root=tmp_path, progress=False)
    (plan,) = measuring.plans([walk.name], "class", tmp_path)
    assert 1 <= plan.there < 6 and plan.missing == (*range(plan.there, 6),) and plan.hours is not None
    assert f"{plan.there} done" in said and said.endswith(f", {6 - plan.there} left for the next call")


def test_a_live_run_has_a_repeat_that_the_evidence_has_not(walk, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path / "committed"))
    monkeypatch.delenv("PRIVLAB_LIVE", raising=False)
    mine = experiments.run(walk.name, "class", progress=False)
    assert mine.repeats == (6,) and mine["psnr[a]"].shape == (1,) and mine.picture("picture[a]").shape == (2, 3, 3)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_run_at_smoke_is_the_canary(walk, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path / "committed"))
    monkeypatch.setenv("PRIVLAB_LIVE", str(tmp_path / "live"))
    experiments.measure([walk.name], "smoke", jobs=1, progress=False)
    assert experiments.run(walk.name, "smoke", progress=False).repeats == (0,)
    (live,) = evidence.read(walk.name, "smoke", walk.digest("smoke"), tmp_path / "live")
    assert live.values == evidence.read(walk.name, "smoke", walk.digest("smoke"))[0].values


def test_a_run_at_night_measures_what_is_missing_and_goes_on(walk, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    sized = experiments.experiment("invented.walk", smoke=Size(1, "x"), night=Size(3, "y"))(walk.measure)
    measuring.repeat(sized.name, "night", 1_001, str(tmp_path))
    there = experiments.run(sized.name, "night", jobs=1, progress=False)
    assert there.repeats == (1_000, 1_001, 1_002) and there.complete
    lines = (tmp_path / "night" / f"{sized.name}.jsonl").read_text().splitlines()
    assert len(lines) == 3 and experiments.run(sized.name, "gpu", jobs=1, progress=False).size == "night"


def test_a_lab_asks_for_a_cluster_above_class_alone(walk, tmp_path, monkeypatch):
    """What `run --cluster` and the researcher's page say."""
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    monkeypatch.setenv("PRIVLAB_CLUSTER", "nonsense://x")
    monkeypatch.delenv("PRIVLAB_LIVE", raising=False)
    sizes = {"smoke": Size(1, "x"), "class_": Size(1, "y"), "night": Size(1, "z")}
    sized = experiments.experiment("invented.walk", **sizes)(walk.measure)
    assert [len(experiments.run(sized.name, size, progress=False)) for size in ("smoke", "class")] == [1, 1]
    with pytest.raises(ConnectionError, match="cluster='nonsense://x' does not answer"):
        experiments.run(sized.name, "night", progress=False)


def test_where_nothing_is_measured_the_evidence_is_empty(walk, tmp_path):
    there = experiments.load(walk.name, root=tmp_path)
    assert len(there) == 0 and not there.complete and there.size == "class" and math.isnan(there.mean("psnr[a]"))
    assert math.isnan(there.spread("psnr[a]")) and math.isnan(there.above("psnr[a]", 0.0))
    assert "nothing is measured yet" in repr(there)
    with pytest.raises(KeyError, match=r"there is no picture picture\[a\]: .*nothing is measured yet"):
        there.picture("picture[a]")


def test_an_exact_image_has_a_psnr_that_json_can_hold(walk, monkeypatch):
    monkeypatch.setattr(experiments.Experiment, "__call__", lambda *_: iter([("psnr[a]", math.inf)]))
    assert walk.collected(0, "smoke")[0] == {"psnr[a]": 320.0}


def test_a_value_that_is_no_number_and_a_name_yielded_twice_are_told(walk, tmp_path, monkeypatch):
    for values, says in (
        ([("psnr[a]", math.nan)], r"psnr\[a\]=nan .*give a finite number"),
        ([("psnr[a]", 1.0)] * 2, "yields 'psnr\\[a\\]' twice"),
    ):
        monkeypatch.setattr(experiments.Experiment, "__call__", lambda *_, values=values: iter(values))
        with pytest.raises(RuntimeError, match=says):
            experiments.measure([walk.name], "smoke", jobs=1, root=tmp_path, progress=False)
    assert not evidence.read(walk.name, "smoke", walk.digest("smoke"), tmp_path)
