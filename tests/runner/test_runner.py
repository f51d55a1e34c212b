"""Several labs at once in processes of their own: what is kept, what follows a failure, stopping and going on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from privlab.compute import machine
from privlab.ledger import evidence
from privlab.runner import catalogue, runner
from privlab.runner.progress import Board
from privlab.runner.runner import Plan

LONG = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)"  # it says where it is, and stays
HEAD = """\
# %% [markdown]
# # {name}
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | {minutes} | {gb} GB |

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

"""


def write(folder: Path, name: str, *cells: str, minutes: float = 0.1, gb: float = 0.2) -> None:
    folder.mkdir(exist_ok=True)
    text = HEAD.format(name=name, minutes=minutes, gb=gb) + "".join(f"# %%\n{cell}\n\n" for cell in cells)
    (folder / f"{name}.py").write_text(text)


def plan(folder: Path, out: Path, **other) -> Plan:
    return Plan(tuple(catalogue.labs(folder)), out, **other)


class Lines(Board):
    """A board without a terminal that keeps its lines, and opens a gate when a lab fails."""

    def __init__(self, gate: Path | None = None) -> None:
        super().__init__(live=False)
        self.lines: list[str] = []
        self.gate = gate

    def say(self, line: str) -> None:
        self.lines.append(line)
        if self.gate and "FAILED" in line:
            self.gate.touch()


def started(pid: Path) -> psutil.Process:
    """The kernel that has written its number into a file, once it has."""
    for _ in range(600):
        if pid.exists() and pid.read_text():
            break
        time.sleep(0.1)
    return psutil.Process(int(pid.read_text()))


ENVIRONMENT = ["OMP_NUM_THREADS", "PYTHONHASHSEED", "PRIVLAB_STRICT", "MPLBACKEND", "PRIVLAB_JOBS", "PRIVLAB_CLUSTER"]


@pytest.fixture(scope="module")
def two_at_once(tmp_path_factory):
    """Three labs, two at a time: the second fails, and the first waits for that before it ends."""
    folder = tmp_path_factory.mktemp("book")
    labs, out = folder / "labs", folder / "run"
    gate = folder / "failed"
    wait = f"import os, time\ntime.sleep(3)\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.1)"
    write(labs, "00_slow", wait, "print(os.getpid())")
    write(labs, "01_bad", "1 / 0")
    write(labs, "02_env", f"import os\nfor name in {ENVIRONMENT}:\n    print(os.environ[name])\nprint(hash('a'))")
    board = Lines(gate)
    made = plan(labs, out, jobs=2, seed=7, cluster="tcp://127.0.0.1:9")
    return made, runner.run(made, board), board.lines


def kept(made: Plan, name: str):
    return nbformat.read(made.out / f"{name}.ipynb", as_version=4)


def test_a_failed_lab_leaves_the_others_alone(two_at_once):
    made, results, _ = two_at_once
    assert {name: result["status"] for name, result in results.items()} == {
        "00_slow": "ok",
        "01_bad": "failed",
        "02_env": "ok",
    }
    assert results["01_bad"]["error"] == "In [3], under '01_bad': ZeroDivisionError: division by zero"
    assert kept(made, "01_bad").cells[-1].outputs[0].ename == "ZeroDivisionError"


def test_results_are_in_the_order_of_the_labs_and_lines_in_the_order_of_events(two_at_once):
    _, results, lines = two_at_once
    assert list(results) == ["00_slow", "01_bad", "02_env"]
    started = [line.split()[0] for line in lines if line.endswith("started")]
    ended = [line.split()[0] for line in lines if not line.endswith("started")]
    assert set(started[:2]) == {"00_slow", "01_bad"} and started[2] == "02_env"
    assert ended[0] == "01_bad"  # it ended while the first still ran: they ran at once
    assert any("01_bad  FAILED" in line and line.endswith("ZeroDivisionError: division by zero") for line in lines)


def test_each_result_is_written_beside_its_notebook(two_at_once):
    made, results, _ = two_at_once
    for lab in made.labs:
        written = json.loads((made.out / f"{lab.name}.json").read_text())
        assert written == results[lab.name]
        assert written["source"] == lab.digest and written["package"] == lab.package and written["parameters"] == {}
        assert (written["profile"], written["seed"], written["device"]) == (
            "smoke",
            7,
            "auto",
        )
        assert written["seconds"] > 0 and written["peak_gb"] > 0
        assert (
            written["versions"]["python"] == ".".join(map(str, sys.version_info[:3])) and "torch" in written["versions"]
        )
    assert results["00_slow"]["seconds"] > 3


def test_a_lab_gets_its_share_of_cores_and_repeatable_surroundings(two_at_once):
    made, _, _ = two_at_once
    threads, hash_seed, strict, backend, jobs, cluster, hashed = kept(made, "02_env").cells[-1].outputs[0].text.split()
    assert int(threads) == int(jobs) == max(1, machine.cores() // 2) == made.threads
    assert cluster == made.cluster
    assert (hash_seed, strict, backend) == ("0", "1", "module://matplotlib_inline.backend_inline")
    same = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert hashed == same.stdout.strip()


def test_a_relative_place_is_seen_from_where_the_run_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVLAB_STORE", "models")
    monkeypatch.setenv("PRIVLAB_DATA", "~/photographs")
    write(
        tmp_path / "labs",
        "00_places",
        "from privlab import compute, data\nprint(compute.store.folder(), data.sources.folder())",
    )
    made = plan(tmp_path / "labs", tmp_path / "out")
    runner.run(made, Lines())
    printed = kept(made, "00_places").cells[-1].outputs[0].text.split()
    assert printed == [str(tmp_path / "models"), str(Path.home() / "photographs")]


def test_resume_runs_what_failed_and_what_changed(two_at_once):
    made, before, _ = two_at_once
    labs = made.labs[0].path.parent
    assert runner.saved(made, made.labs[0], "ok") == before["00_slow"]
    assert (
        runner.saved(made, made.labs[1], "ok") is None
        and runner.saved(made, made.labs[1], "failed") == before["01_bad"]
    )
    for changed in (
        plan(labs, made.out, seed=8),
        plan(labs, made.out, seed=7, device="cpu"),
        plan(labs, made.out, profile="gpu"),
    ):
        assert runner.saved(changed, changed.labs[0], "ok") is None
    write(labs, "01_bad", "1 / 1")
    write(labs, "02_env", "'changed'")
    board = Lines()
    after = runner.run(plan(labs, made.out, jobs=2, seed=7, resume=True), board)
    assert [line for line in board.lines if "not run again" in line] == [
        f"00_slow  not run again: it is complete in {made.out}"
    ]
    assert after["00_slow"] == before["00_slow"]
    assert after["01_bad"]["status"] == after["02_env"]["status"] == "ok"
    assert kept(made, "02_env").cells[-1].source == "'changed'"


def test_resume_runs_what_was_made_by_other_code_or_other_versions(tmp_path, monkeypatch):
    labs, out = tmp_path / "labs", tmp_path / "run"
    write(labs, "97_any", "from privlab.data import splits")
    write(labs, "98_other", "1")
    runner.run(plan(labs, out, jobs=2), Lines())
    house = tmp_path / "privlab"
    shutil.copytree(catalogue._HOUSE, house, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(catalogue, "_HOUSE", house)

    def again() -> list[bool]:
        return [runner.saved(made, lab, "ok") is not None for made in [plan(labs, out)] for lab in made.labs]

    assert again() == [True, True]  # the same code elsewhere
    (house / "metrics/plane.py").write_text("# no lab of these imports it\n")
    assert again() == [True, True]
    with open(house / "data/splits.py", "a") as module:
        module.write("# changed\n")
    assert again() == [False, True]  # only the lab that uses it
    monkeypatch.setattr(runner, "_versions", lambda: {"torch": "9"})
    assert again() == [False, False]


def test_resume_runs_what_shows_evidence_that_grew(tmp_path, monkeypatch):
    labs, out = tmp_path / "labs", tmp_path / "run"
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path / "evidence"))
    write(labs, "97_named", "'walks.short'")
    write(labs, "98_made", "f'walks.{1}'")
    write(labs, "99_every", "'ledger.judgements()'")
    runner.run(plan(labs, out, jobs=2), Lines())

    def again() -> list[bool]:
        return [runner.saved(made, lab, "ok") is not None for made in [plan(labs, out)] for lab in made.labs]

    def measured(experiment: str) -> None:
        evidence.append(experiment, "class", evidence.Repeat(0, "d", {"psnr[a]": 1.0}, 1.0, 1.0))

    assert again() == [True, True, True]
    measured("runs.short")
    assert again() == [True, True, False]
    measured("walks.long")
    assert again() == [True, False, False]
    evidence.register([evidence.Registration("walks.short", "class", 1, "d", 0, 1, "invented", False, "2026-01-01")])
    assert again() == [False, False, False]


def test_a_lab_that_measures_has_seen_what_it_added(tmp_path, monkeypatch):
    labs, out, root = tmp_path / "labs", tmp_path / "run", tmp_path / "evidence"
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(root))
    file = evidence.path("walks.short", "night", root)
    write(
        labs,
        "97_named",
        f"from pathlib import Path\nPath({str(file.parent)!r}).mkdir(parents=True)",
        f"open({str(file)!r}, 'w').write('a line')",
    )
    made = plan(labs, out, profile="night")
    assert runner.run(made, Lines())["97_named"]["status"] == "ok"
    assert runner.saved(made, made.labs[0], "ok")
    file.write_text("another")
    assert not runner.saved(made, made.labs[0], "ok")


def test_a_lab_whose_cell_of_parameters_is_missing_says_so_in_one_line(tmp_path):
    write(tmp_path / "labs", "00_any", "1")
    broken = plan(tmp_path / "labs", tmp_path / "run")
    broken.labs[0].path.write_text("# %%\n1\n")
    result = runner.run(broken, Lines())["00_any"]
    assert result["status"] == "failed"
    assert result["error"] == '00_any.py has 0 cells tagged "parameters"; it needs one, with profile, seed, device'
    assert json.loads((tmp_path / "run/00_any.json").read_text())["status"] == "failed"


def test_a_process_that_dies_is_a_failed_lab(tmp_path):
    write(tmp_path / "labs", "00_any", "1")
    broken = plan(tmp_path / "labs", tmp_path / "run")
    broken.key(broken.labs[0])  # read, and then gone
    broken.labs[0].path.unlink()
    result = runner.run(broken, Lines())["00_any"]
    assert result["status"] == "failed"
    assert result["error"].startswith("the process of the lab ended with status 1: FileNotFoundError: ")


def test_a_lab_that_is_edited_while_it_runs_is_not_taken_for_the_new_one(tmp_path):
    write(
        tmp_path / "labs",
        "00_any",
        "import pathlib\nlab = pathlib.Path('00_any.py')\nlab.write_text(lab.read_text() + '# late')",
    )
    made = plan(tmp_path / "labs", tmp_path / "run")
    assert runner.run(made, Lines())["00_any"]["status"] == "ok"
    later = plan(tmp_path / "labs", tmp_path / "run")
    assert runner.saved(later, later.labs[0], "ok") is None


def test_ctrl_c_stops_the_kernels_and_resume_goes_on(tmp_path):
    labs, out = tmp_path / "labs", tmp_path / "run"
    write(labs, "00_quick", "1")
    write(
        labs,
        "01_long",
        "import os, pathlib, time\n"
        "again = pathlib.Path('pid').exists()\n"
        "pathlib.Path('pid').write_text(str(os.getpid()))",
        "time.sleep(0 if again else 600)",
    )
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # also where these tests run in the background
    command = [sys.executable, "-c", hears + "from privlab.__main__ import main; raise SystemExit(main())"]
    command += ["run", "--labs", str(labs), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    kernel = started(labs / "pid")
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command with --resume continues" in complained and "Traceback" not in complained
    assert "00_quick  ok" in said
    for _ in range(100):
        if not kernel.is_running():
            break
        time.sleep(0.1)
    assert not kernel.is_running()
    assert not (out / "01_long.json").exists()

    made = plan(labs, out, resume=True)
    board = Lines()
    results = runner.run(made, board)
    assert board.lines[0].startswith("00_quick  not run again")
    assert results["01_long"]["status"] == "ok"


@pytest.mark.check
@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_a_lab_hears_its_runner_where_that_runs_deaf_in_the_background_of_a_script(tmp_path):
    labs = tmp_path / "labs"
    write(labs, "00_long", LONG)
    request = dict(source=str(labs / "00_long.py"), out=str(tmp_path / "out.ipynb"), parameters={}, timeout=None)
    deaf = ["sh", "-c", 'trap "" INT; exec "$0" -m privlab.runner.execution', sys.executable]
    lab = subprocess.Popen(deaf, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lab.stdin.write(json.dumps(request))
    lab.stdin.close()
    kernel = started(labs / "pid")
    lab.send_signal(signal.SIGINT)
    assert lab.wait(60) == 130
    gone, alive = psutil.wait_procs([kernel], timeout=60)
    assert gone and not alive


@pytest.mark.check
def test_labs_do_not_outlive_a_runner_that_was_killed(tmp_path):
    labs = tmp_path / "labs"
    write(labs, "00_long", LONG)
    command = [sys.executable, "-m", "privlab", "run", "--labs", str(labs), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kernel = started(labs / "pid")
    family = [kernel, *kernel.parents()[:1], *kernel.children(recursive=True)]
    place = Path(kernel.environ()["JUPYTER_RUNTIME_DIR"])
    assert place.name.startswith("privlab-") and place.exists()
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive and not place.exists()


HOSTILE = [
    b"",
    b'{"status": "o',
    b"[]",
    b"{}",
    b"null",
    b"3",
    b'"ok"',
    b'{"status": "ok", "seconds": [], "error": null}',
    b"\xff\xfe",
    b"[" * 99_999,
]


@pytest.mark.parametrize("content", HOSTILE)
def test_a_damaged_result_is_named_and_its_lab_run_again(tmp_path, monkeypatch, content):
    write(tmp_path / "labs", "00_any", "1")
    made = plan(tmp_path / "labs", tmp_path / "run", resume=True)
    note = tmp_path / "run" / "00_any.json"
    note.parent.mkdir()
    note.write_bytes(content)
    (lab,) = made.labs
    assert runner.saved(made, lab, "ok", "failed") is None
    wrong = runner.damage(made, lab)
    assert wrong.startswith(f"{note} is no result of a lab that can be read here (") and wrong.endswith(
        "); run the lab again"
    )
    again = []
    monkeypatch.setattr(runner, "_one", lambda plan, lab, *_: again.append(lab.name))
    board = Lines()
    runner.run(made, board)
    assert again == ["00_any"]
    assert board.lines[0] == f"00_any  is run again: {wrong.rpartition(';')[0]}"


def test_a_folder_in_the_place_of_a_result_is_one_line(tmp_path):
    write(tmp_path / "labs", "00_any", "1")
    (tmp_path / "run" / "00_any.json").mkdir(parents=True)
    with pytest.raises(
        OSError, match=r"00_any.json is a folder, where a file of the run goes; remove it and run the lab"
    ):
        runner.run(plan(tmp_path / "labs", tmp_path / "run"), Lines())


def test_other_parameters_have_a_folder_of_their_own():
    """Where a name had to be changed for it, others could have the same."""
    assert runner.folder("gpu", {"part_minutes": 30}) == Path("runs/gpu-part_minutes-30")
    long = ["x" * 200, "x" * 201]
    values = ["a/b", "a_b", "a b", [8], "[8]", "", 8, "8", None, "None", {"a": 1}, "{1}", *long]
    places = [runner.folder("smoke", {"victim": value}) for value in values]
    assert len({*places}) == len(values)
    assert all(re.fullmatch(r"runs/[\w.-]{,130}", str(place)) for place in places)


def test_the_rough_cost(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "memory", lambda: (4.0, 3.0))
    for i, (minutes, gb) in enumerate([(10, 1.5), (2, 2.0), (3, 0.5)]):
        write(tmp_path, f"0{i}_lab", minutes=minutes, gb=gb)
    one, two = (runner.cost(plan(tmp_path, tmp_path, jobs=jobs)) for jobs in (1, 2))
    assert one == "rough cost: 15 min, at most 2.0 GB of memory (3.0 of 4.0 GB are free)"
    assert (
        two.splitlines()[0] == "rough cost: 10 min, at most 3.5 GB of memory (3.0 of 4.0 GB are free)"
    )  # never below its longest lab
    assert two.splitlines()[1] == "warning: the labs may need 3.5 GB, but 3.0 GB are free; fewer --jobs need less"
    assert (
        runner.cost(plan(tmp_path, tmp_path, profile="gpu"))
        == "these labs state no cost for gpu: 00_lab, 01_lab, 02_lab"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"jobs": 0}, "jobs=0 runs nothing"),
        ({"timeout": 0}, "timeout=0 gives a cell no time"),
        ({"seed": -1}, "seed=-1 is not a seed that every generator takes; give one from 0 to 4294967295"),
        ({"seed": 2**32}, "seed=4294967296 is not a seed that every generator takes"),
    ],
)
def test_a_plan_that_cannot_be(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        Plan((), tmp_path, **wrong)


def test_a_long_lab_is_heard_of_where_no_bar_can_be_drawn(monkeypatch):
    board, clock = Lines(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    board.told = clock[0]
    board.start("05_april")
    board.cell("05_april", 7, 31, "Where the pixels hide")
    board.tick()
    assert board.lines == ["05_april  started"]
    clock[0] += 31
    board.tick()
    board.tick()
    assert board.lines[1:] == ["05_april  31 s, cell 7/31, Where the pixels hide"]
