"""Files of evidence: what is written whole comes back, what is not is told; ranges are registered once and never moved."""

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from privlab.ledger import evidence
from privlab.ledger.evidence import Registration, Repeat

NAME = "gradient_inversion.architectures"
ROW = Repeat(1_000, "abc", {"psnr[cifar10, swin]": 24.5}, 3.0, 100.0, versions={"torch": "2"})
TWELVE = Registration(NAME, "night", 1, "abc", 1_000, 12, "twelve photographs", False, "2026-11-23")


def lines(root):
    return evidence.path(NAME, "night", root).read_bytes()


def test_what_is_appended_comes_back_in_the_order_of_repeats(tmp_path):
    for number in (1_002, 1_000, 1_001, -1):
        evidence.append(NAME, "night", replace(ROW, repeat=number), tmp_path)
    rows = evidence.read(NAME, "night", "abc", tmp_path)
    assert [r.repeat for r in rows] == [-1, 1_000, 1_001, 1_002] and rows[1] == ROW
    asked = evidence.read(NAME, "night", "abc", tmp_path, range(1_000, 1_002))
    assert [r.repeat for r in asked] == [1_000, 1_001]
    assert lines(tmp_path).count(b"\n") == 4
    assert evidence.read(NAME, "class", "abc", tmp_path) == ()


def test_what_is_not_whole_or_not_ours_is_left_out(tmp_path):
    evidence.append(NAME, "night", ROW, tmp_path)
    with open(evidence.path(NAME, "night", tmp_path), "ab") as file:
        file.write(
            b'[1]\nnull\n{"repeat": "x"}\n\xff\xfe\n'
            b'{"repeat": 1001, "digest": "abc", "values": {"psnr[a]": NaN}, "seconds": 1, "when": 1}\n'
        )
        file.write(b'{"repeat": 1003, "dig')  # a kill
    evidence.append(NAME, "night", replace(ROW, repeat=1_004), tmp_path)
    evidence.append(NAME, "night", replace(ROW, repeat=1_005, digest="other"), tmp_path)
    evidence.append(NAME, "night", replace(ROW, when=99.0, values={"psnr[cifar10, swin]": 7.0}), tmp_path)
    rows = evidence.read(NAME, "night", "abc", tmp_path)
    assert [r.repeat for r in rows] == [1_000, 1_004]
    assert rows[0].values == {"psnr[cifar10, swin]": 7.0}, "of two lines the earlier counts"
    assert [len(of) for of in evidence.lines(NAME, "night", "abc", tmp_path).values()] == [2, 1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(values={"psnr[a]": float("nan")}), r"psnr\[a\]=nan of repeat 1000 is no number"),
        (dict(values={"psnr[a]": float("inf")}), "is no number"),
        (dict(values={"psnr[a]": True}), "is no number"),
        (dict(values={"psnr": 1.0}), "'psnr' is no name"),
        (dict(values={"PSNR[a]": 1.0}), "is no name"),
        (dict(values={}), "0 values: no repeat"),
        (dict(repeat=True), "repeat=True"),
    ],
)
def test_what_is_no_evidence_is_not_written(change, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        evidence.append(NAME, "night", replace(ROW, **change), tmp_path)
    assert not evidence.path(NAME, "night", tmp_path).exists()


def write_many(root, first):
    for number in range(first, first + 40):
        evidence.append(NAME, "night", replace(ROW, repeat=number, values={"psnr[a]": 1.0}), root)


def test_two_writers_at_once_leave_whole_lines(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(tmp_path, first)) for first in (1_000, 1_020)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert all(json.loads(line) for line in lines(tmp_path).splitlines()) and lines(tmp_path).count(b"\n") == 80
    rows = evidence.read(NAME, "night", "abc", tmp_path)
    assert len(rows) == 60


def test_a_range_is_registered_once_and_a_further_try_starts_behind_it(tmp_path):
    assert evidence.register([TWELVE], tmp_path) == (TWELVE,) and evidence.register([TWELVE], tmp_path) == ()
    for first in (1_000, 1_011):
        with pytest.raises(ValueError, match="a further try begins at 1012"):
            evidence.register([replace(TWELVE, first=first, repeats=3)], tmp_path)
    evidence.append(NAME, "night", replace(ROW, repeat=1_015, digest="older"), tmp_path)  # measured, whatever it was
    with pytest.raises(ValueError, match="begins at 1016"):
        evidence.register([replace(TWELVE, first=1_012)], tmp_path)
    (second,) = evidence.register([replace(TWELVE, first=1_016)], tmp_path)
    (third,) = evidence.register([replace(TWELVE, first=1_028, digest="new")], tmp_path)
    assert [r.level for r in (TWELVE, second, third)] == [0.05, 0.025, 0.0125]
    assert evidence.registrations(tmp_path) == (TWELVE, second, third)


@pytest.mark.parametrize(
    "change",
    [dict(first=990), dict(repeats=0), dict(first=1_990), dict(size="class"), dict(size="gpu"), dict(size="day")],
)
def test_ranges_of_sizes_do_not_overlap(change):
    with pytest.raises(ValueError, match="range|is not a size"):
        replace(TWELVE, **change)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "[" * 100_000], ids=["beyond every float", "too deep"])
def test_a_corrupt_number_is_a_line_that_cannot_be_read(number, tmp_path):
    evidence.append(NAME, "night", ROW, tmp_path)
    with open(evidence.path(NAME, "night", tmp_path), "a") as file:
        file.write(f'{{"repeat": 1001, "digest": "abc", "values": {{"psnr[a]": {number}}}, "seconds": 1, "when": 1}}\n')
    rows = evidence.read(NAME, "night", "abc", tmp_path)
    assert len(rows) == 1


@pytest.mark.parametrize("content", ["{", "[1]", "1", "[" * 100_000, '{"experiment": "a.b"}', "<<<<<<< HEAD"])
def test_a_broken_registration_is_named(content, tmp_path):
    (tmp_path / "registered.jsonl").write_text(content)
    with pytest.raises(ValueError, match=r"registered\.jsonl cannot be read"):
        evidence.registrations(tmp_path)


def test_the_folder_may_be_named_from_home(monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", "~/evidence")
    assert evidence.folder() == Path.home() / "evidence"


def test_an_installed_wheel_has_its_evidence_in_the_package(tmp_path, monkeypatch):
    monkeypatch.delenv("PRIVLAB_EVIDENCE", raising=False)
    monkeypatch.setattr(evidence, "__file__", str(tmp_path / "privlab/ledger/evidence.py"))
    assert evidence.folder() == tmp_path / "privlab/evidence"  # where the build puts it, see pyproject.toml
    (tmp_path / "book/evidence").mkdir(parents=True)
    assert evidence.folder() == tmp_path / "book/evidence"
