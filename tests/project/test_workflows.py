"""GitHub's workflows: well formed, safe by a linter's and by our own rules, and made of commands that exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from privlab import __main__ as cli

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
OUTSIDERS = {"pull_request", "pull_request_target", "issue_comment", "workflow_run", "push"}


def read(text: str) -> dict:
    return yaml.safe_load(text.replace("\non:", '\n"on":'))  # YAML 1.1 takes a bare `on` for true


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def scripts(workflow: dict) -> list[str]:
    return [step["run"] for step in steps(workflow) if "run" in step]


def unsafe(text: str) -> list[str]:
    """What breaks the rules of this house in a workflow."""
    workflow = read(text)
    triggers = workflow["on"] if isinstance(workflow["on"], dict) else {workflow["on"]: None}
    found = []
    if workflow.get("permissions") != {"contents": "read"}:
        found.append("permissions")
    if "concurrency" not in workflow:
        found.append("concurrency")
    for job in workflow["jobs"].values():
        if "timeout-minutes" not in job:
            found.append("timeout")
        if "permissions" in job:
            found.append("permissions of a job")
        if "self-hosted" in job["runs-on"] and triggers.keys() & OUTSIDERS:
            found.append("strangers on our own machine")
    for step in steps(workflow):
        if "uses" in step and not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]):
            found.append("an action that can change")
        if "checkout" in step.get("uses", "") and step.get("with", {}).get("persist-credentials") is not False:
            found.append("credentials left on the disk")
        if "${{" in step.get("run", ""):
            found.append("a text of others in a script")
    return found


def schema(*files: Path) -> set[str]:
    """Names of the files that break GitHub's schema, as check-jsonschema has it built in."""
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", "-o", "json", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    wrong = {Path(error["filename"]).name for error in [*report["errors"], *report.get("parse_errors", [])]}
    assert bool(wrong) == bool(done.returncode), done.stdout + done.stderr
    return wrong


def zizmor(folder: Path) -> dict[str, set[str]]:
    """{rule: names of the files that break it}, by the linter's default persona, without a network."""
    command = [
        BIN / "zizmor",
        "--offline",
        "--quiet",
        "--no-exit-codes",
        "--format=json",
        *sorted(folder.glob("*.yml")),
    ]
    findings = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    broken: dict[str, set[str]] = {}
    for finding in findings:
        names = {re.search(r"\w+\.yml", str(place["symbolic"]["key"])).group() for place in finding["locations"]}
        broken.setdefault(finding["ident"], set()).update(names)
    return broken


# -- the workflows as they are -------------------------------------------------------------------------------------------


def test_the_two_workflows_are_there():
    assert [path.name for path in FILES] == ["smoke.yml", "weekly.yml"]
    smoke, weekly = (read(path.read_text()) for path in FILES)
    assert smoke["on"].keys() == {"push", "pull_request"} and weekly["on"].keys() == {"schedule", "workflow_dispatch"}
    assert weekly["jobs"]["gpu"]["runs-on"] == ["self-hosted", "gpu"]


def test_each_push_is_checked_without_running_the_labs_twice_and_each_week_runs_every_test():
    smoke, weekly = (scripts(read(path.read_text())) for path in FILES)
    assert smoke.index("make run PROFILE=smoke") < smoke.index("make check")  # which finds the run in runs/smoke
    assert "make weekly" in weekly and not {"make test", "make check"} & {*weekly, *smoke[:-1]}


def test_both_linters_are_content():
    assert schema(*FILES) == set()
    assert zizmor(FILES[0].parent) == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rules_of_this_house_hold(path):
    assert unsafe(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_the_scripts_call_exists(path):
    make = (ROOT / "Makefile").read_text()
    for script in scripts(read(path.read_text())):
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0, script
        for target in re.findall(r"^make (\w+)", script, re.MULTILINE):
            assert re.search(rf"^{target}:", make, re.MULTILINE)
        for line in re.findall(r"-m privlab ([^|\n]+)", script):
            words = shlex.split(line)
            assert cli._parser().parse_args(words).command == words[0]


# -- and broken ones -----------------------------------------------------------------------------------------------------

CHECKOUT = re.search(r"actions/checkout@\w{40}", FILES[0].read_text()).group()
BROKEN = {  # what is replaced in smoke.yml or weekly.yml, and who has to see it
    "misspelt": ("smoke", "    runs-on: ubuntu-latest", "    run-on: ubuntu-latest", {"schema"}),
    "no_steps": ("smoke", "    steps:\n", "    stages:\n", {"schema"}),
    "unknown_trigger": ("weekly", "  workflow_dispatch:", "  on_monday:", {"schema"}),
    "title": (
        "smoke",
        "run: make env",
        'run: echo "${{ github.event.pull_request.title }}"',
        {"template-injection", "house"},
    ),
    "target": ("smoke", "  pull_request:", "  pull_request_target:", {"dangerous-triggers"}),
    "write": ("smoke", "permissions:\n  contents: read", "permissions: write-all", {"house"}),
    "by_tag": ("smoke", CHECKOUT, "actions/checkout@v5", {"house"}),
    "stranger": ("smoke", CHECKOUT, "somebody/checkout@v5", {"unpinned-uses", "house"}),
    "credentials": ("smoke", "persist-credentials: false", "fetch-depth: 1", {"artipacked", "house"}),
    "forks": ("weekly", "  workflow_dispatch:", "  pull_request:", {"house"}),
    "endless": ("weekly", "    timeout-minutes: 1200\n", "", {"house"}),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Each broken workflow, and who saw it."""
    folder = tmp_path_factory.mktemp("workflows")
    seen: dict[str, set[str]] = {}
    for name, (which, old, new, _) in BROKEN.items():
        text = (FILES[0].parent / f"{which}.yml").read_text()
        assert old in text, name
        (folder / f"{name}.yml").write_text(text.replace(old, new, 1))
        seen[name] = set()
    for name in schema(*folder.glob("*.yml")):
        seen[Path(name).stem].add("schema")
    whole = [folder / f"{name}.yml" for name in BROKEN if "schema" not in seen[name]]
    for path in set(folder.glob("*.yml")) - set(whole):
        path.unlink()  # zizmor reads what is well formed
    for rule, names in zizmor(folder).items():
        for name in names:
            seen[Path(name).stem].add(rule)
    for path in whole:
        if unsafe(path.read_text()):
            seen[path.stem].add("house")
    return seen


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_workflow_is_seen(broken, name):
    assert BROKEN[name][-1] <= broken[name]


# -- what the weekly scripts do ------------------------------------------------------------------------------------------


def weekly(tmp_path, step: str, statuses: list[int], **environment: str) -> tuple[int, list[str]]:
    """Run one script of the weekly job where `python` notes its arguments and ends with each status in turn."""
    script = next(
        s["run"] for s in steps(read((ROOT / ".github/workflows/weekly.yml").read_text())) if s.get("name") == step
    )
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(
        '#!/bin/bash\necho "$*" >> calls\nread -r status rest < statuses\necho "$rest" > statuses\nexit "$status"\n'
    )
    python.chmod(0o755)
    (tmp_path / "statuses").write_text(" ".join(map(str, statuses)) + "\n")
    (tmp_path / "calls").write_text("")
    names = {
        "PATH": "/usr/bin:/bin",
        "OUT": "runs/gpu/2026-W47",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        **environment,
    }
    done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=names)
    return done.returncode, (tmp_path / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("statuses", "end", "calls"),
    [([0], 0, 1), ([1, 1, 0], 0, 3), ([1, 1, 1, 1], 1, 4), ([2], 2, 1), ([130], 130, 1)],
)
def test_a_run_goes_on_where_a_lab_was_left_and_keeps_its_status(tmp_path, statuses, end, calls):
    status, called = weekly(tmp_path, "every lab", statuses)
    assert status == end
    assert called == ["-m privlab run --deeper --profile gpu --resume --out runs/gpu/2026-W47"] * calls


@pytest.mark.parametrize("status", [0, 1])
def test_the_report_decides(tmp_path, status):
    ended, called = weekly(tmp_path, "what moved since the committed evidence", [status])
    assert ended == status
    assert called == [
        "-m privlab report --evidence runs/gpu/evidence --before book/evidence --out runs/gpu/2026-W47/ledger.md"
    ]


def test_what_was_measured_here_stays_and_each_line_is_kept_once(tmp_path):
    for folder, lines in (("book", "one\ntwo\n"), ("runs/gpu", "two\nmine\n")):
        file = tmp_path / folder / "evidence/gpu/lab.one.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(lines)
    (tmp_path / "book/evidence/registered.jsonl").write_text("entry\n")
    for _ in range(2):
        assert weekly(tmp_path, "the evidence, committed and of earlier weeks", [])[0] == 0
        assert (tmp_path / "runs/gpu/evidence/gpu/lab.one.jsonl").read_text() == "two\nmine\none\n"
        assert (tmp_path / "runs/gpu/evidence/registered.jsonl").read_text() == "entry\n"


def test_each_week_trains_anew_and_its_attempts_go_on(tmp_path):
    (tmp_path / "runs/store/2026-W46/victim").mkdir(parents=True)
    for _ in range(2):
        assert weekly(tmp_path, "the week's folder", [0], GITHUB_OUTPUT=str(tmp_path / "output"))[0] == 0
        out, store = (tmp_path / "output").read_text().splitlines()[-2:]
        assert out.startswith("out=runs/gpu/20") and store == out.replace("out=runs/gpu", "store=runs/store")
        place = tmp_path / store.removeprefix("store=")
        assert list((tmp_path / "runs/store").iterdir()) == ([place] if place.exists() else [])
        (place / "victim").mkdir(parents=True, exist_ok=True)
    assert (place / "victim").exists()
    workflow = read((ROOT / ".github/workflows/weekly.yml").read_text())
    step = next(s for s in steps(workflow) if s.get("name") == "every lab")
    assert step["env"]["PRIVLAB_STORE"] == "${{ steps.week.outputs.store }}"
