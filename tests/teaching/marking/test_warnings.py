"""Whoever reads the marks is told what an answer was not kept from: a means of the sandbox that is missing, and marks made as root."""

from __future__ import annotations

import csv
import json
import sys

import pytest

from privlab.teaching import marking
from privlab.teaching.marking import gradebook, sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot shut a process in")
ANSWER = """from privlab.notebook import checks
def my_psnr(a, b):
    return -10 * (a - b).square().mean().log10()
checks.verify("00.psnr", my_psnr)"""
WITHOUT = """
from privlab.teaching.marking import sandbox
libc = sandbox._libc()
class Older:
    def __getattr__(self, name):
        return getattr(libc, name)
    def syscall(self, number, *a):
        return -1 if "Landlock" in {lacks!r} and number in (444, 445, 446) else libc.syscall(number, *a)
    def prctl(self, what, *a):
        return -1 if "seccomp" in {lacks!r} and what == 22 else libc.prctl(what, *a)
    def capset(self, *a):
        return -1 if "capset" in {lacks!r} else libc.capset(*a)
sandbox._libc = Older
"""  # a kernel that has not got it, as the sandbox asks it
LACKING = {  # what is missing -> what the warning has to name
    "Landlock": ["read other files"],
    "seccomp": ["change or remove files", "start processes", "send signals", "use the network"],
    "capset": ["use the rights of root"],
    "Landlock, seccomp": ["read other files", "use the network"],
}
ROOT = "marked as root"


def marked(folder, patch, lacks=""):
    """The warning that is handed to `began`, and the table's rows, with graders on a kernel that lacks this."""
    (folder / "anna.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": ANSWER}]}))
    (folder / "ben.ipynb").write_text("no notebook")
    popen, heard = gradebook.subprocess.Popen, []

    def start(command, **settings):
        *python, code = command
        return popen(
            [*python, code.replace("grader.main()", f"exec({WITHOUT.format(lacks=lacks)!r}); grader.main()")],
            **settings,
        )

    patch.setattr(gradebook.subprocess, "Popen", start)
    marking.mark(folder, folder / "marks.csv", began=lambda count, warning: heard.append(warning))
    with open(folder / "marks.csv", newline="") as file:
        return heard[0], list(csv.DictReader(file))


@pytest.mark.parametrize("lacks", LACKING)
def test_the_table_says_what_the_system_cannot_hold(tmp_path, monkeypatch, lacks):
    warning, rows = marked(tmp_path, monkeypatch, lacks)
    assert all(what in warning for what in LACKING[lacks]) and "virtual machine" in warning
    assert [row["warning"] for row in rows] == [warning, warning]
    assert [row["marks"] for row in rows] == ["1", "0"]


@pytest.mark.parametrize("uid", [0, 1000])
def test_marks_made_as_root_are_told_as_such_and_others_have_no_such_column(tmp_path, monkeypatch, uid):
    monkeypatch.setattr(gradebook.os, "getuid", lambda: uid)
    warning, rows = marked(tmp_path, monkeypatch)
    if uid:
        assert warning == "" and all("warning" not in row for row in rows)
    else:
        assert (
            warning.startswith(ROOT)
            and "mark as a user who owns" in warning
            and {row["warning"] for row in rows} == {warning}
        )


def test_nothing_amiss_is_no_warning_and_each_thing_is_told():
    assert sandbox.warning([], root=False) == ""
    both = sandbox.warning(["use the network"], root=True)
    assert "use the network" in both and ROOT in both


def test_where_no_answer_can_be_shut_in_it_is_one_line(tmp_path, monkeypatch):
    broken = "from privlab.teaching.marking import sandbox; sandbox.close_in = None"
    monkeypatch.setitem(globals(), "WITHOUT", broken)
    with pytest.raises(OSError, match="no answer can be shut in here: .*; mark on another machine"):
        marked(tmp_path, monkeypatch)
    assert not (tmp_path / "marks.csv").exists()
