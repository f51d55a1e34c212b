"""GitHub's workflows: well formed and safe by two linters and by our own rules, and what the weekly scripts do."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from privlab.__main__ import PARSER

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
OUTSIDERS = {"pull_request", "pull_request_target", "issue_comment", "workflow_run", "push"}
WORKFLOWS = [yaml.safe_load(path.read_text().replace("\non:", '\n"on":')) for path in FILES]  # YAML 1.1: on is true


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_may_only_read_ends_and_takes_nothing_that_can_change(workflow):
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job and "permissions" not in job
        assert "self-hosted" not in job["runs-on"] or not OUTSIDERS & {*workflow["on"]}, "strangers"
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in used)


def test_both_linters_are_content():
    schema = [BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *FILES]
    done = subprocess.run(schema, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    zizmor = [BIN / "zizmor", "--offline", "--quiet", "--no-exit-codes", "--format=json", *FILES]
    assert json.loads(subprocess.run(zizmor, capture_output=True, text=True, check=True).stdout) == []


def test_the_steps_of_the_workflows_are_commands_in_an_order_that_works():
    """An environment comes first, the labs run before the book that shows them and the tests that look at them; see also test_readme.py."""
    scripts = [step.get("run", "") for workflow in WORKFLOWS for step in steps(workflow)]
    targets = re.findall(r"^make (\w+)", "\n".join(scripts), re.MULTILINE)
    assert targets == ["env", "run", "run", "book", "check", "env", "env", "weekly"]
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    for target in phony:  # those of the guides, too
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)
    assert {*targets} <= {*phony}
    called = re.findall(r"-m privlab (.*?)(?: 2?>.*| \|.*)?$", "\n".join(scripts), re.MULTILINE)
    parsed = [PARSER.parse_args(shlex.split(words)).command for words in called]
    assert parsed == ["run", "report", "report"]


@pytest.mark.parametrize(("statuses", "end", "calls"), [([1, 1, 0], 0, 3), ([1, 1, 1, 1], 1, 4), ([2], 2, 1)])
def test_a_weekly_run_goes_on_where_a_lab_was_left_and_keeps_its_status(tmp_path, statuses, end, calls):
    """Its script, where `python` notes its arguments and ends with each status in turn."""
    script = next(s["run"] for s in steps(WORKFLOWS[1]) if s.get("name") == "every lab")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    takes = 'read -r s rest < statuses\necho "$rest" > statuses\nexit "$s"'
    python.write_text(f'#!/bin/bash\necho "$*" >> calls\n{takes}\n')
    python.chmod(0o755)
    (tmp_path / "statuses").write_text(" ".join(map(str, statuses)) + "\n")
    (tmp_path / "calls").write_text("")
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": os.defpath, "OUT": "runs/gpu/2026-W47"})
    called = (tmp_path / "calls").read_text().splitlines()
    assert done.returncode == end
    assert called == ["-m privlab run --deeper --profile gpu --resume --out runs/gpu/2026-W47"] * calls
