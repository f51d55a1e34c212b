"""The ledger: a lab's page, records read back from executed notebooks, and ledger.json written, read and rendered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from privlab import ledger
from privlab.ledger import papers, runs
from privlab.ledger.records import MIME
from privlab.ledger.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED

FRESH = {"mode": "eval", "victim": "fresh"}


def page(profile: str = "smoke") -> ledger.Page:
    made = ledger.Page("05", profile=profile, seed=1)
    made.record("mse", ["closed_form", "arch_a", "cifar10"], [1e-9, 2e-9, 4e-9, 1e-9], **FRESH, unit="pixels")
    made.record("mse", ["closed_form", "arch_b"], [0.5, 3.0, 20.0, 0.7], **FRESH, unit="pixels")
    made.record(
        "psnr",
        ["subspace", "random_std1_patch4", "float32"],
        torch.tensor([105.4, 102.8, 95.3, 103.7]),
        **FRESH,
        position_std=1,
    )
    made.record("relative_residual", ["theorem_1", "float64"], 1e-15, **FRESH)
    return made


def test_a_page_keeps_what_is_recorded_and_says_so(capsys):
    made = page()
    assert [r.name for r in made.records] == [
        "mse[closed_form, arch_a, cifar10]",
        "mse[closed_form, arch_b]",
        "psnr[subspace, random_std1_patch4, float32]",
        "relative_residual[theorem_1, float64]",
    ]
    assert {(r.lab, r.profile, r.seed, r.device, r.mode) for r in made.records} == {("05", "smoke", 1, "cpu", "eval")}
    assert capsys.readouterr().out.splitlines()[2] == (
        "recorded psnr[subspace, random_std1_patch4, float32] = 101.8 ± 4.5 (n=4); eval mode, victim fresh, position std 1"
    )


@pytest.mark.parametrize(
    ("name", "word"), [("Swin", "swin"), ("ResNet-101", "resnet_101"), ("resnet18.a1_in1k", "resnet18_a1_in1k")]
)
def test_the_name_of_a_network_becomes_a_key(name, word):
    page = ledger.Page("01", profile="smoke")
    page.record("acc", [ledger.key(name)], [0.5], mode="eval", victim="fresh")
    assert ledger.key(name) == word


def test_a_cell_run_again_replaces_what_it_recorded():
    made = page()
    made.record("relative_residual", ["theorem_1", "float64"], [2e-15], **FRESH)
    assert len(made.records) == 4 and made.records[3].values == (2e-15,)


def test_a_page_judges_the_claims_of_its_lab():
    found = {j.claim.id: j for j in page().judgements()}
    assert found.keys() == {c.id for c in papers.claims("05")}
    assert found["lu2022.theorem1.linear_system"].verdict == REPRODUCED
    assert found["lu2022.figure1.architecture_b_blocks_closed_form"].verdict == REPRODUCED
    assert found["lu2022.section42.fixed_embedding_protects"].verdict == NOT_REPRODUCED
    assert found["privlab.subspace.frozen_random_std1_patch4"].verdict == REPRODUCED
    assert found["privlab.subspace.rank_rule"].verdict == INCONCLUSIVE  # the lab runs, and recorded nothing for it
    assert found["privlab.patch_embedding.float32_base"].verdict == NOT_RUN


def test_a_page_shows_them_all_or_one_paper_s():
    shown = page().show()
    assert len(shown.judgements) == len(papers.claims("05"))
    assert shown._repr_html_().count('scope="row"') == len(shown.judgements)
    assert "Lab 05, profile smoke" in repr(shown)
    assert {j.claim.paper for j in page().show("privlab").judgements} == {"privlab"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"lab": "5"}, r"lab='5'; give its two digits as text"),
        ({"lab": 5}, r"lab=5; give its two digits"),
        ({"profile": "huge"}, r"profile='huge'; try one of smoke, class, night, gpu, paper"),
    ],
)
def test_a_page_out_of_form_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ledger.Page(**{"lab": "05", "profile": "smoke", **arguments})


@pytest.mark.parametrize(("card", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_cuda_or_the_cpu(monkeypatch, card, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: card)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")
    assert ledger.Page("05", profile="smoke", device="auto").device == device


# -- notebooks -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    """A lab in small, run by a real kernel and read back from its file."""
    cells = [
        "from privlab import ledger\npage = ledger.Page('05', profile='smoke', seed=3)",
        "page.record('psnr', ['closed_form', 'x'], [40.0, float('inf')], mode='eval', victim='fresh', position_std=0.02)\n"
        "page.record('mse', ['closed_form', 'x'], [1e-9, 2e-9], mode='train', victim='trained 5 epochs', unit='normalised')",
        "page.show()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    root = Path(runs.__file__).parents[2]
    NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(root)}}).execute()
    return nbformat.reads(nbformat.writes(notebook), as_version=4)


def test_records_come_back_from_an_executed_notebook(executed):
    psnr, mse = ledger.collect(executed)
    assert (psnr.name, psnr.values, psnr.exact, psnr.seed) == ("psnr[closed_form, x]", (40.0, 320.0), 1, 3)
    assert (psnr.position_std, psnr.mode, mse.mode, mse.victim, mse.unit) == (
        0.02,
        "eval",
        "train",
        "trained 5 epochs",
        "normalised",
    )
    assert psnr.machine.torch == torch.__version__


def test_a_notebook_shows_a_line_a_record_and_a_table_of_verdicts(executed):
    nbformat.validate(executed)
    lines = [o["data"]["text/plain"] for o in executed.cells[1]["outputs"]]
    assert len(lines) == 2 and lines[0].startswith("recorded psnr[closed_form, x] = 180 ± 2e+02 (n=2, 1 of them exact)")
    shown = executed.cells[2]["outputs"][0]["data"]
    assert "<caption" in shown["text/html"] and "not recorded" in shown["text/html"]
    assert shown["text/plain"].startswith("Lab 05, profile smoke")


def test_a_name_recorded_twice_in_a_notebook_is_named(executed):
    twice = nbformat.from_dict({**executed, "cells": [*executed.cells, executed.cells[1]]})
    with pytest.raises(ValueError, match=r"lab 05 records psnr\[closed_form, x\] twice; give one of them another key"):
        ledger.collect(twice)


def test_other_outputs_are_passed_over():
    outputs = [
        nbformat.v4.new_output("stream", text="hello"),
        nbformat.v4.new_output("display_data", {"text/plain": "x"}),
    ]
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("1", outputs=outputs)]
    assert ledger.collect(nbformat.v4.new_notebook(cells=cells)) == []
    broken = nbformat.v4.new_output("display_data", {MIME: {"metric": "psnr"}})
    with pytest.raises(ValueError, match=r"does not fit this privlab .*; run the lab again"):
        ledger.collect(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[broken])]))


# -- ledger.json ---------------------------------------------------------------------------------------------------------


def test_a_ledger_judges_the_whole_book():
    made = ledger.summarise(page().records, "smoke", ran=["00", "05"])
    found = {j.claim.id: j for j in made.judgements}
    assert [j.claim for j in made.judgements] == papers.claims()
    assert found["lu2022.introduction.gradients_reveal"].reason == "not recorded: psnr[closed_form, one_image]"
    alone = ledger.summarise(page().records, "smoke", claims=papers.claims("00"))
    assert [(j.verdict, j.reason) for j in alone.judgements] == [(NOT_RUN, "lab 00 was not run")]


def test_a_ledger_survives_its_file(tmp_path):
    made = ledger.summarise(page().records, "smoke")
    ledger.write(tmp_path / "run" / "ledger.json", made)
    assert ledger.read(tmp_path / "run" / "ledger.json") == made
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made.when)


def test_a_ledger_keeps_printed_numbers_and_the_verdict_of_its_day(tmp_path):
    printed = papers.Printed("psnr[a]", 36.24, 5.21, "dB", "Table 5")
    claim = papers.Claim(
        "zhang2024.x", "zhang2024", "Table 5", "05", "magnitude", "S.", "psnr[a] > 30", profile="smoke", profile_why="W",
        numbers=(printed,), note="N", holds_on_printed_numbers=True,
    )  # fmt: skip
    lab = ledger.Page("05", profile="smoke")
    lab.record("psnr", ["a"], [40, 41, 42], **FRESH)
    made = ledger.summarise(lab.records, "smoke", claims=[claim])
    ledger.write(tmp_path / "ledger.json", made)
    again = ledger.read(tmp_path / "ledger.json")
    assert again.judgements[0].claim == claim and again.judgements[0].verdict == REPRODUCED


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda c: c.update(format=7),
            r"ledger.json is no ledger that can be read here \(it has the format 7, this privlab reads 1\)",
        ),
        (lambda c: c.pop("format"), r"is no ledger that can be read here \(it has no field 'format'\); run the labs"),
        (lambda c: c.pop("records"), r"is no ledger that can be read here \(it has no field 'records'\); run the labs"),
        (lambda c: c["judgements"][0]["claim"].update(colour=1), r"is no ledger that can be read here .*colour"),
        (lambda c: c["records"][0].pop("machine"), r"is no ledger that can be read here"),
    ],
)
def test_a_file_of_another_version_is_named(tmp_path, change, message):
    path = tmp_path / "ledger.json"
    ledger.write(path, ledger.summarise(page().records, "smoke"))
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        ledger.read(path)


def test_a_file_that_is_missing_or_cut_off_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ledger.json does not exist; a run of the labs writes it"):
        ledger.read(tmp_path / "ledger.json")
    (tmp_path / "ledger.json").write_text("[]")
    with pytest.raises(
        ValueError, match=r"ledger.json is no ledger that can be read here \(it has no field 'format'\)"
    ):
        ledger.read(tmp_path / "ledger.json")
    (tmp_path / "ledger.json").write_text('{"format": 1, "judg')
    with pytest.raises(ValueError, match=r"ledger.json is no ledger that can be read here"):
        ledger.read(tmp_path / "ledger.json")


HOSTILE = (None, [], {}, "x", -1, True, [[]], {"a": []}, 1e300, 10**400)


@pytest.mark.parametrize("word", HOSTILE, ids=lambda word: repr(word)[:12])
def test_a_ledger_with_another_type_anywhere_is_read_or_one_line(tmp_path, word):
    lab = ledger.Page("05", profile="smoke")
    lab.record("psnr", ["closed_form", "one_image"], [40, 41, 42], **FRESH)
    claim = next(c for c in papers.claims() if c.numbers)
    path = tmp_path / "ledger.json"
    ledger.write(path, ledger.summarise(lab.records, "smoke", claims=[claim], labs={"05": {"seconds": 1.0}}))
    whole = json.loads(path.read_text())
    for place in list(places(whole)):
        content = json.loads(path.read_text())
        at = content
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = word
        (tmp_path / "damaged.json").write_text(json.dumps(content))
        try:
            ledger.read(tmp_path / "damaged.json")
        except ValueError as error:
            assert str(error).startswith(str(tmp_path / "damaged.json")), place
            assert str(error).endswith("; run the labs again") and "\n" not in str(error)


def places(content):
    """The way to each value inside: a list of keys and indices."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for step, value in inside:
        yield [step]
        yield from ([step, *rest] for rest in places(value))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.update(profile="smok"), "it has the profile 'smok', not one of smoke, class"),
        (lambda c: c.update(when="last week"), "Invalid isoformat string"),
        (lambda c: c["judgements"][0].update(verdict="fine"), "it has the verdict 'fine', not one of"),
        (lambda c: c["judgements"][0]["claim"].update(compare="a >"), "a >"),
        (lambda c: c["records"][0].update(values=[]), "has no values"),
        (lambda c: c["records"][0].update(values=[1e300, 1]), "too large for a spread"),
    ],
)
def test_a_ledger_that_no_run_can_have_written_is_named(tmp_path, change, why):
    path = tmp_path / "ledger.json"
    ledger.write(path, ledger.summarise(page().records, "smoke"))
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"is no ledger that can be read here \(.*\); run the labs again") as caught:
        ledger.read(path)
    assert why in str(caught.value)
