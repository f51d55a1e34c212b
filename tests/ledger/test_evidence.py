"""Files of evidence: what is written whole comes back, what is not is left out; ranges are registered once and never moved."""

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


def test_what_is_not_whole_or_not_ours_is_left_out_and_the_rest_comes_back_in_the_order_of_repeats(tmp_path):
    for number in (1_001, -1, 1_000):
        evidence.append(NAME, "night", replace(ROW, repeat=number), tmp_path)
    with open(evidence.path(NAME, "night", tmp_path), "ab") as file:
        file.write(b'[1]\nnull\n<<<<<<< HEAD\n{"repeat": 1002}\n\xff\xfe\n{"repeat": 1003, "dig')  # the last by a kill
    evidence.append(NAME, "night", replace(ROW, repeat=1_004), tmp_path)
    evidence.append(NAME, "night", replace(ROW, repeat=1_005, digest="other"), tmp_path)
    evidence.append(NAME, "night", replace(ROW, when=99.0, values={"psnr[cifar10, swin]": 7.0}), tmp_path)
    rows = evidence.read(NAME, "night", "abc", tmp_path)
    assert [r.repeat for r in rows] == [-1, 1_000, 1_001, 1_004] and rows[2] == replace(ROW, repeat=1_001)
    assert rows[1].values == {"psnr[cifar10, swin]": 7.0}, "of two lines the earlier counts"
    assert [len(of) for _, of in sorted(evidence.lines(NAME, "night", "abc", tmp_path).items())] == [1, 2, 1, 1]
    assert not evidence.read(NAME, "class", "abc", tmp_path)


@pytest.mark.parametrize("values", [{"psnr[a]": float("nan")}, {"psnr[a]": float("inf")}, {"PSNR[a]": 1.0}])
def test_what_is_no_evidence_is_not_written(values, tmp_path):
    with pytest.raises(ValueError, match="of repeat 1000: give a finite number, named as in psnr"):
        evidence.append(NAME, "night", replace(ROW, values=values), tmp_path)
    assert not evidence.path(NAME, "night", tmp_path).exists()


def write_many(root, first):
    for number in range(first, first + 40):
        evidence.append(NAME, "night", replace(ROW, repeat=number, values={"psnr[a]": 1.0}), root)


def test_two_writers_at_once_leave_whole_lines(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(write_many, [(tmp_path, 1_000), (tmp_path, 1_020)], chunksize=1)
    lines = evidence.path(NAME, "night", tmp_path).read_bytes()
    assert all(json.loads(line) for line in lines.splitlines()) and lines.count(b"\n") == 80
    assert len(evidence.read(NAME, "night", "abc", tmp_path)) == 60


def test_a_range_is_registered_once_and_a_further_try_starts_behind_it(tmp_path):
    assert evidence.register([TWELVE], tmp_path) == [TWELVE] and evidence.register([TWELVE], tmp_path) == []
    for first in (1_000, 1_011):
        with pytest.raises(ValueError, match="a further try begins at 1012"):
            evidence.register([replace(TWELVE, first=first, repeats=3)], tmp_path)
    evidence.append(NAME, "night", replace(ROW, repeat=1_015, digest="older"), tmp_path)  # measured, whatever it was
    with pytest.raises(ValueError, match="begins at 1016"):
        evidence.register([replace(TWELVE, first=1_012)], tmp_path)
    (second,) = evidence.register([replace(TWELVE, first=1_016)], tmp_path)
    (third,) = evidence.register([replace(TWELVE, first=1_028, digest="new")], tmp_path)
    assert [r.attempt for r in (TWELVE, second, third)] == [0, 1, 2]
    assert evidence.registrations(tmp_path) == [TWELVE, second, third]


def test_the_folder_is_the_named_one_that_of_a_checkout_or_that_of_a_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", "~/evidence")
    assert evidence.folder() == Path.home() / "evidence"
    monkeypatch.delenv("PRIVLAB_EVIDENCE")
    monkeypatch.setattr(evidence, "__file__", str(tmp_path / "privlab/ledger/evidence.py"))
    assert evidence.folder() == tmp_path / "privlab/evidence"  # where the build puts it, see pyproject.toml
    (tmp_path / "book/evidence").mkdir(parents=True)
    assert evidence.folder() == tmp_path / "book/evidence"
