"""The labs as they stand: paired, without outputs, of one anatomy, and green at `smoke` with every claim of theirs judged."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from privlab import data, ledger
from privlab.data import attributes, identities, sources
from privlab.ledger import papers
from privlab.ledger.verdicts import NOT_RUN, VERDICTS
from privlab.runner import catalogue, pairing

ROOT = Path(__file__).parents[2]
LABS = sorted((ROOT / "labs").glob("[0-9]*.py"))
MEMORY_GB = 2.0  # Binder gives no more


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Every lab at smoke, two at once, in a folder of its own."""
    out = tmp_path_factory.mktemp("runs") / "smoke"
    return out, run_labs(out)


def run_labs(out, *labs_and_parameters, **environment):
    command = [sys.executable, "-m", "privlab", "run", *labs_and_parameters, "--profile", "smoke", "--jobs", "2"]
    return subprocess.run(
        [*command, "--out", str(out)],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=2300,
    )  # fmt: skip


def named(path):
    return path.stem


def lines(code):
    """Lines of code as a reader counts them: no blank ones, and none that only speaks to the formatter."""
    return sum(1 for line in code.replace("# fmt: skip", "").splitlines() if line.strip())


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_lab_is_green_within_its_memory(run, path):
    out, done = run
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    result = json.loads((out / f"{path.stem}.json").read_text())
    assert result["status"] == "ok" and result["error"] is None
    assert result["peak_gb"] < MEMORY_GB
    promised = catalogue.Lab(path).costs["smoke"]
    assert result["peak_gb"] < 1.2 * promised.gb, "the lab's first cell promises less memory than it takes"


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_lab_says_nothing_in_red(run, path):
    """A warning in a page of the book frightens its reader, and carries a path of the machine that built it."""
    cells = nbformat.read(run[0] / f"{path.stem}.ipynb", as_version=4).cells
    outputs = [o for cell in cells for o in cell.get("outputs", [])]
    assert len(outputs) > 10 and [o.text for o in outputs if o.get("name") == "stderr"] == []


def test_the_book_shows_every_lab_as_it_ran(run, tmp_path):
    """`make book` after `make run`, in a copy: -W, so no warning, and none of a picture without words for who cannot see it."""
    for name in ("book", "labs"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_build", "_generated", "__pycache__")
        )
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "book", "built"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PRIVLAB_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=clean | {"PRIVLAB_RUN": str(run[0])}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for path in LABS:
        page = (tmp_path / f"built/_generated/labs/{path.stem}.html").read_text()
        assert "as it is before it runs" not in page and "<img" in page, path.stem
        assert all(alt.strip() for alt in re.findall(r'<img[^>]*?alt="([^"]*)"', page))
        assert len(re.findall(r"<img\b", page)) == len(re.findall(r'<img[^>]*?\balt="', page)), path.stem


# Labs that take a model of the reader's: beside their own networks, or, where algebra needs a position embedding, a plain ViT.
GUESTS = dict.fromkeys(("01", "02", "03", "04", "11"), "mobilenetv3_small_050") | dict.fromkeys(
    ("00", "05"), "vit_tiny_patch16_224"
)


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    """The records of the labs that take a guest, run with one: lab -> records."""
    found = []
    for guest in sorted(set(GUESTS.values())):
        out = tmp_path_factory.mktemp("guests") / guest
        labs = [lab for lab, its in GUESTS.items() if its == guest]
        done = run_labs(out, *labs, "-p", "victim", guest)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        found += ledger.read(out / "ledger.json").records
    return {lab: [r for r in found if r.lab == lab] for lab in GUESTS}


def test_every_lab_that_takes_a_guest_is_visited():
    assert {path.name[:2] for path in LABS if re.search(r"^victim = ", path.read_text(), re.MULTILINE)} == set(GUESTS)


@pytest.mark.parametrize("lab", sorted(GUESTS))
def test_a_guest_is_measured_under_its_own_name_and_changes_nothing_else(run, visited, lab):
    guest = GUESTS[lab]
    own = {r.name: r.values for r in ledger.read(run[0] / "ledger.json").records if r.lab == lab}
    theirs = {r.name: r.values for r in visited[lab]}
    new = {name for name in theirs if guest in name}
    assert new and not new & own.keys()
    rest = {name: values for name, values in theirs.items() if name not in new}
    assert rest == ({} if lab == "00" else own)  # in lab 00 it stands in place of the lab's own


@pytest.fixture
def faces(run, tmp_path):
    """A data folder with what is fetched (by `run`) and two sets of a reader's own, in their authors' layouts.

    The pictures are real, CIFAR-10's and ORL's; who and what is on them is made up. Only that the labs run on such files is tested.
    """
    folder, own = tmp_path / "data", tmp_path / "own"
    folder.mkdir()
    for known in sources.folder().iterdir():
        (folder / known.name).symlink_to(known)
    photos, orl = data.load("cifar10", "test"), data.load("orl")
    for k in range(1_700):
        file = own / f"utkface/{20 + k % 50}_{k % 2}_{k // 2 % 4}_{20170116174525000 + k}.jpg.chip.jpg"
        save(photos.pixels[k], file)
    for k in range(400):
        person = f"facescrub/{'actors' if k < 50 else 'actresses'}/faces/P_{k // 10}/{k}.png"
        save(orl.pixels[k], own / (person if k < 100 else f"ffhq/thumbnails128x128/00000/{k - 100:05d}.png"))
    attributes.prepare("utkface", own / "utkface", to=folder, progress=False)
    for name in ("facescrub", "ffhq"):
        identities.prepare(name, own / name, 32, to=folder, progress=False)
    return folder


def save(pixels, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.expand(3, -1, -1).permute(1, 2, 0).numpy()).save(file)


@pytest.mark.parametrize(("name", "labs"), [("utkface", ["03"]), ("facescrub", ["11", "12"])])
def test_a_lab_takes_the_readers_own_faces(faces, tmp_path, name, labs):
    done = run_labs(tmp_path / "out", *labs, "-p", "faces", name, PRIVLAB_DATA=str(faces))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert {r.lab for r in ledger.read(tmp_path / "out/ledger.json").records if name in r.keys} == set(labs)


@pytest.mark.parametrize("path", LABS, ids=named)
def test_every_claim_of_a_lab_is_judged(run, path):
    found = ledger.read(run[0] / "ledger.json")
    judged = {j.claim.id: j for j in found.judgements}
    for claim in papers.claims(path.name[:2]):
        judgement = judged[claim.id]
        assert judgement.verdict in VERDICTS
        if claim.profile == "smoke":
            assert judgement.verdict != NOT_RUN and "not recorded" not in judgement.reason, (
                f"{claim.id}: {judgement.reason}"
            )


def test_the_summary_is_printed(run):
    text = run[1].stdout
    for word in ("peak GB", "reproduced", "the paper", "verdict", *(path.stem for path in LABS)):
        assert word in text


@pytest.mark.parametrize("path", LABS, ids=named)
def test_every_control_was_moved(run, path):
    assert json.loads((run[0] / f"{path.stem}.json").read_text())["controls"]


@pytest.mark.parametrize("path", LABS, ids=named)
def test_the_committed_notebook_is_the_paired_one_and_empty(path):
    committed = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    made = pairing.notebook(path)
    assert [c.id for c in committed.cells] == [c.id for c in made.cells]
    assert [c.source for c in committed.cells] == [c.source for c in made.cells]
    assert len({c.id for c in committed.cells}) == len(committed.cells)
    assert not any(c.get("outputs") or c.get("execution_count") for c in committed.cells)


@pytest.mark.parametrize("path", LABS, ids=named)
def test_anatomy(path):
    lab = pairing.notebook(path)
    text = "\n".join(c.source for c in lab.cells if c.cell_type == "markdown")
    code = [c.source for c in lab.cells if c.cell_type == "code"]
    for heading in (
        "you can",
        "*You need*",
        "Words that are new here",
        "predict",
        "The paper, and here",
        "What we did differently",
        "Summary",
    ):
        assert heading in text, heading
    assert "Where to read on" in text and text.count("<details><summary>Hint") >= 3
    assert sum("checks.verify(" in c for c in code) >= 3 and any("page.show()" in c for c in code)
    assert set(catalogue.Lab(path).costs) == {"smoke", "laptop", "gpu", "paper"}
    lengths = [lines(c) for c in code]
    assert statistics.median(lengths) <= 7 and max(lengths) <= 25
    exercises = [i for i, c in enumerate(lab.cells) if "exercise" in c.metadata.get("tags", [])]
    assert all("solution" in lab.cells[i + 1].metadata.get("tags", []) for i in exercises)
    assert not re.search(r"\bTODO\b|\bFIXME\b", text)
