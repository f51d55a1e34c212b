"""The instructor's kit: one folder with all that a teacher takes to class, and an index.html that says what is in it.

What needs a run is taken from its largest size; what is not there, a run or the scripts of slides, is named in the index.
"""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from privlab.compute.atomic import make_folder, write_atomic
from privlab.ledger import evidence
from privlab.runner import catalogue, static_pages
from privlab.teaching import answer_key, lesson_plans, question_bank, slides, web_page
from privlab.teaching.marking import students

_MARKS = """\
# What counts in the gradebook; python -m privlab mark DIR --students gradebook.csv --scheme marks.toml
total = 100
column = "student"          # the title of the identifiers, as your LMS has it: "ID number"

[student]
from = "file"               # or "cell": the line "Student: 12345" in a notebook's first cell
# pattern = '_(\\d+)_'       # the identifier in the path of a file, where it does not stand before the first _

[weights]                   # of labs; take out those that you do not teach, as one that is not returned counts as 0
{weights}

[points]                    # of exercises, where it is not 1 (0 for those of deeper notebooks)
# "02.four_bugs" = 3
"""


_PART = re.compile(r"(key|notebooks|slides)/")  # of one lab


@dataclass
class Kit:
    """What was written: (path within the folder, what it is), a line for each thing that could not be, and what stays as it was."""

    parts: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def write(labs: Path, runs: Path, out: Path) -> Kit:
    """Write the kit of all labs into a folder; a gradebook and a marks.toml that are there are a teacher's, and stay.

    labs: the folder of the labs.  runs: the folder with runs of them, by size: runs/smoke, runs/class, ...; it may be missing.
    Raises FileNotFoundError where there is no lab; OSError where `out` cannot be written; ValueError where it is the folder of the labs.
    """
    shelf = catalogue.everything(labs)
    if out.resolve() in (labs.resolve(), runs.resolve()):
        raise ValueError(f"out={str(out)!r} holds the labs or their runs; choose another folder")
    make_folder(out)
    kit = Kit()

    def put(path: str, text: str, what: str, theirs: bool = False) -> None:
        content = text.encode("utf-8")
        if theirs and (out / path).exists() and (out / path).read_bytes() != content:
            kit.kept.append(path)
        else:
            write_atomic(out / path, content)
        kit.parts.append((path, what))

    vendor = labs.parent / "book/_static/vendor"
    formulas = (vendor / "mathjax").is_dir()
    if formulas:
        shutil.copytree(vendor / "mathjax", out / "key/vendor/mathjax", dirs_exist_ok=True)
    for path, title, text in (
        ("lesson_plans.html", "Lesson plans", lesson_plans.page()),
        ("questions.html", "Questions", question_bank.page()),
        ("rubric.html", "A rubric for written answers", rubric()),
    ):
        body = web_page.markdown(text.split("\n", 1)[1])
        put(path, web_page.page(title, body), title)
    put("questions.gift", question_bank.gift(), "the questions for an LMS (GIFT, as Moodle imports it)")
    main = [lab for lab in shelf if not lab.goes_deeper]
    weights = {lab.number: 1.0 for lab in main}
    put(
        "marks.toml",
        _MARKS.format(weights="\n".join(f'"{lab}" = 1' for lab in weights)),
        "what counts in the gradebook",
        theirs=True,
    )
    put("gradebook.csv", students.text([], students.Scheme(weights=weights)), "an empty gradebook", theirs=True)
    for lab in main:
        below = [one for one in catalogue.with_deeper(shelf, [lab]) if one != lab]
        put(f"key/{lab.name}.html", answer_key.page(lab, below, formulas), f"key to lab {lab.number}")
    scripts = all((vendor / part).is_dir() for part in ("reveal", "mathjax"))
    not_run = [lab.number for lab in main if not _executed(lab, runs, vendor if scripts else None, out, kit)]
    if not_run:
        kit.missing.append(
            f"notebooks and slides of labs {', '.join(not_run)}: no run below {runs.name} has them as they stand; "
            f"python -m privlab run {' '.join(not_run)} makes one"
        )
    if not scripts:
        kit.missing.append(
            "slides, and formulas in the key other than as TeX; python data_scripts/vendor.py fetches the scripts"
        )
    put("index.html", web_page.page("The instructor's kit", _index(kit, main, out.name)), "this list")
    return kit


def rubric() -> str:
    """The rubric for written answers, in Markdown."""
    return (resources.files("privlab.teaching") / "rubric.md").read_text(encoding="utf-8")


def best_run(lab: catalogue.Lab, runs: Path) -> Path | None:
    """The folder of the largest size in which the lab's present source ran to its end."""
    sizes = [runs / size for size in reversed(evidence.SIZES)]
    return next((run for run in sizes if static_pages.executed(lab, run) is not None), None)


def _executed(lab: catalogue.Lab, runs: Path, vendor: Path | None, out: Path, kit: Kit) -> bool:
    """The executed notebook of a lab, and with the scripts its slides; whether there is a run of it."""
    run = best_run(lab, runs)
    if run is None:
        return False
    write_atomic(out / f"notebooks/{lab.name}.ipynb", (run / f"{lab.name}.ipynb").read_bytes())
    kit.parts.append((f"notebooks/{lab.name}.ipynb", f"lab {lab.number}, executed at {run.name}"))
    if vendor:
        make_folder(out / "slides")
        slides.write(lab, run, vendor, out / "slides")
        kit.parts.append((f"slides/{lab.path.stem}.html", f"slides of lab {lab.number}, from {run.name}"))
    return True


def _index(kit: Kit, labs: list[catalogue.Lab], name: str) -> str:
    """Links to all parts: those of the whole course, then a paragraph for each lab.  name: of the kit's folder."""
    of = {lab.number: [part for part in kit.parts if _PART.match(part[0]) and lab.path.stem in part[0]] for lab in labs}
    general = [part for part in kit.parts if not _PART.match(part[0])]
    lines = "".join(f"<li>{_link(*part)}</li>" for part in general)
    each = "".join(
        f"<p><b>{html.escape(answer_key.title(lab))}</b><br>{' · '.join(_link(*part) for part in of[lab.number])}</p>"
        for lab in labs
    )
    how = f"<p>A browser cannot show a notebook: start <code>.venv/bin/jupyter lab {html.escape(name)}</code>, and open it there.</p>"
    missing = "".join(f"<li>{html.escape(line)}</li>" for line in kit.missing)
    some = any(path.endswith(".ipynb") for path, _ in kit.parts)
    return f"<ul>{lines}</ul><h2>Lab by lab</h2>{how if some else ''}{each}" + (
        f"<h2>Not in this kit</h2><ul>{missing}</ul>" if missing else ""
    )


def _link(path: str, what: str) -> str:
    return f'<a href="{html.escape(path)}">{html.escape(what)}</a>'
