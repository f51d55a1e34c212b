"""A reader's own model in the labs that take one: measured under its own name, and no other figure moves."""

import json
import re
from pathlib import Path

import nbformat
import pytest

LABS = Path(__file__).parents[2] / "labs"
# The guest, and the labs that it visits at once: beside their own networks, or, where algebra needs a position embedding, a
# plain ViT. Never one lab alone: it would have all cores, and sums in another order than in the run that it is held against.
VISITS = [
    pytest.param("mobilenetv3_small_050", ("01", "04"), id="shadow_models_and_a_search"),
    pytest.param(
        "mobilenetv3_small_050",
        ("02", "03", "deeper/11_skip_connections"),
        id="the_others",
        marks=pytest.mark.weekly,
    ),
    pytest.param("vit_tiny_patch16_224", ("00", "05"), id="algebra", marks=pytest.mark.weekly),
]


def test_every_lab_that_takes_a_guest_is_visited():
    takes = {
        path.name[:2] if path.parent == LABS else f"deeper/{path.stem}"
        for path in LABS.rglob("[0-9]*.py")
        if re.search(r'^victim = "', path.read_text(), re.MULTILINE)
    }
    assert takes == {lab for visit in VISITS for lab in visit.values[1]}


@pytest.mark.check
@pytest.mark.parametrize(("guest", "labs"), VISITS)
def test_a_guest_is_measured_under_its_own_name_and_changes_nothing_else(smoke, run_labs, tmp_path, guest, labs):
    done = run_labs(tmp_path, *labs, "-p", "victim", guest)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for lab in labs:
        (page,) = tmp_path.glob(f"{lab}*.ipynb")
        cells = nbformat.read(page, as_version=4).cells
        outputs = "".join(str(output) for cell in cells for output in cell.get("outputs", []))
        assert guest in outputs, f"lab {lab} says nothing of its guest"
        alone = live(smoke[0], lab)
        assert alone, f"lab {lab} has measured nothing"
        assert live(tmp_path, lab) == alone or threads(smoke[0], lab) != threads(tmp_path, lab)


def live(out, lab):
    """What a lab's experiments measured in a run: file -> the values of its lines."""
    files = (out / "live").glob(f"{lab}*/**/*.jsonl")
    return {file.name: [json.loads(line)["values"] for line in file.read_text().splitlines()] for file in files}


def threads(out, lab):
    """Of each process of a lab's run; on more or fewer of them the last digits are others."""
    (result,) = out.glob(f"{lab}*.json")
    return json.loads(result.read_text())["threads"]
