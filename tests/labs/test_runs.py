"""The labs as they run at `smoke`: green, and so with a reader's own model, own photographs, and exercises that are left open."""

import ast
import json
from pathlib import Path

import jupytext
import nbformat
import pytest
from PIL import Image

from privlab import data
from privlab.data import faces as layouts
from privlab.data import sources
from privlab.runner import catalogue, pairing
from privlab.teaching import assignment

LABS = Path(__file__).parents[2] / "labs"


def outputs_of(page):
    return [o for cell in nbformat.read(page, as_version=4).cells for o in cell.get("outputs", [])]


def is_green(notebook, out):
    """A run left a result of a notebook without an error, and nothing in red, which frightens and carries a path of the machine."""
    result = json.loads((out / f"{notebook.lab.name}.json").read_text())
    assert result["status"] == "ok" and result["error"] is None
    outputs = outputs_of(out / f"{notebook.lab.name}.ipynb")
    assert len(outputs) > 3 and [o.text for o in outputs if o.get("name") == "stderr"] == []
    assert result["controls"] or notebook.lab.goes_deeper, "no control was moved"


def test_a_lab_is_green(smoke, lab):
    out, done = smoke
    assert done.returncode == 0 and (out / "index.html").exists(), done.stdout[-3000:] + done.stderr[-1000:]
    is_green(lab, out)


# One of what goes deeper is run by `make check`, all by `make weekly`, which has run them before the tests begin.


@pytest.mark.check
def test_one_that_goes_deeper_is_green(run_deeper, shelf):
    of_check = min(shelf["deeper"], key=lambda one: one.lab.costs["smoke"][0])
    is_green(of_check, run_deeper(of_check.lab.name))


@pytest.mark.weekly
def test_what_goes_deeper_is_green(run_deeper, deeper):
    is_green(deeper, run_deeper(deeper.lab.name))


# A reader's own model is measured under its own name, and no other figure moves. The guest, and the labs that it visits at once: beside
# their own networks, or a plain ViT where algebra needs a position embedding. Never one lab alone: it would have all cores, and sums in
# another order than in the run that it is held against.
WEEKLY = pytest.mark.weekly
VISITS = [
    pytest.param("mobilenetv3_small_050", ("01", "04"), id="shadow_models_and_a_search"),
    pytest.param("mobilenetv3_small_050", ("02", "03", "deeper/11_skip_connections"), id="others", marks=WEEKLY),
    pytest.param("vit_tiny_patch16_224", ("00", "05"), id="algebra", marks=WEEKLY),
]


def test_every_lab_that_takes_a_guest_is_visited():
    takes = [lab for lab in catalogue.everything(LABS) if "victim" in lab.parameters]
    visited = {lab for visit in VISITS for lab in visit.values[1]}
    assert {lab.name if lab.goes_deeper else lab.number for lab in takes} == visited


@pytest.mark.check
@pytest.mark.parametrize(("guest", "labs"), VISITS)
def test_a_guest_is_measured_under_its_own_name_and_changes_nothing_else(smoke, run_labs, tmp_path, guest, labs):
    done = run_labs(tmp_path, *labs, "-p", "victim", guest)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for lab in labs:
        (page,) = tmp_path.glob(f"{lab}*.ipynb")
        assert guest in str(outputs_of(page)), f"lab {lab} says nothing of its guest"
        (alone, threads), (visited, own) = live(smoke[0], lab), live(tmp_path, lab)
        assert alone, f"lab {lab} has measured nothing"
        assert visited == alone or threads != own


def live(out, lab):
    """What a lab's experiments measured in a run, file -> the values of its lines; and its threads, which change the last digits."""
    files, (result,) = (out / "live").glob(f"{lab}*/**/*.jsonl"), out.glob(f"{lab}*.json")
    values = {file.name: [json.loads(line)["values"] for line in file.read_text().splitlines()] for file in files}
    return values, json.loads(result.read_text())["threads"]


@pytest.fixture
def faces(smoke, tmp_path):
    """A data folder with what is fetched (by the run of all labs) and two sets of a reader's own, in their authors' layouts.
    The pictures are real, CIFAR-10's and ORL's; who and what is on them is made up. Only that the labs run on such files is tested.
    """
    folder, own = tmp_path / "data", tmp_path / "own"
    folder.mkdir()
    for fetched in sources.folder().iterdir():
        (folder / fetched.name).symlink_to(fetched)
    photos, orl = data.load("cifar10", "test"), data.load("orl")
    for k in range(1_700):
        file = own / f"utkface/{20 + k % 50}_{k % 2}_{k // 2 % 4}_{20170116174525000 + k}.jpg.chip.jpg"
        save(photos.pixels[k], file)
    for k in range(400):
        person = f"facescrub/{'actors' if k < 50 else 'actresses'}/faces/P_{k // 10}/{k}.png"
        save(orl.pixels[k], own / (person if k < 100 else f"ffhq/thumbnails128x128/00000/{k - 100:05d}.png"))
    for name, size in (("utkface", 64), ("facescrub", 32), ("ffhq", 32)):
        layouts.prepare(name, own / name, size, folder)
    return folder


def save(pixels, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.expand(3, -1, -1).permute(1, 2, 0).numpy()).save(file)


@pytest.mark.check
@pytest.mark.parametrize(("name", "labs"), [("utkface", ["03"]), pytest.param("facescrub", ["11", "12"], marks=WEEKLY)])
def test_a_lab_takes_the_readers_own_faces(faces, run_labs, tmp_path, name, labs):
    done = run_labs(tmp_path / "out", *labs, "-p", "faces", name, PRIVLAB_DATA=str(faces))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for lab in labs:  # it says so, in what it records, draws or prints
        (page,) = (tmp_path / "out").glob(f"{lab}_*.ipynb")
        assert name in str(outputs_of(page)), lab


def answers_used(source):
    """Names that an exercise leaves to the student and that a cell which checks nothing uses."""
    asked, used = set(), set()
    for cell in (cell for cell in pairing.notebook(source).cells if cell.cell_type == "code"):
        tree, tags = ast.parse(cell.source), cell.metadata.get("tags", [])
        if "exercise" in tags:
            asked |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            asked |= {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets}
        elif "solution" not in tags and "checks.verify" not in cell.source:
            used |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return asked & used


USING = [one.path for one in catalogue.everything(LABS) if answers_used(one.path)]


@pytest.mark.check
@pytest.mark.parametrize("path", [USING[0], *(pytest.param(path, marks=WEEKLY) for path in USING[1:])])
def test_an_edition_with_every_exercise_open_runs_to_its_end(path, execute_lab):
    found, _ = execute_lab(jupytext.writes(assignment.edition(path), "py:percent"))
    assert found["error"] is None, found["error"]
