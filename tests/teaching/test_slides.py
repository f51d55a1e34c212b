"""Slides follow a lab's own structure, and their file reads without a network."""

import json
import re
import shutil

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from privlab import __main__ as cli
from privlab.runner import catalogue, pairing
from privlab.teaching import slides

LONG = "This paragraph says one thing first. " + "Then it goes on for a good while, " * 8 + "and ends."
PICTURE = '<img src="data:image/png;base64,AAAA" alt="a line that falls">'


def code(source, text="", **metadata):
    """A cell that has printed a text, or else drawn a picture."""
    drawn = new_output("display_data", {"text/html": PICTURE, "text/plain": "a picture"})
    shown = new_output("stream", name="stdout", text=text) if text else drawn
    return new_code_cell(source, outputs=[shown], metadata=metadata)


@pytest.mark.parametrize(
    ("text", "slide", "notes"),
    [
        (f"## A part\n\nShort.\n\n{LONG}", "## A part\n\nShort.", LONG),
        (f"### Exercise 1: what?\n\n{LONG}", f"### Exercise 1: what?\n\n{LONG}", ""),
        ("Short.\n\n<details><summary>Hint</summary>Look\n\nthere.</details>", "Short.", ""),
        ("Go on with [lab 05](../05_lab.ipynb).", "Go on with lab 05.", ""),
    ],
)
def test_long_prose_is_for_the_speaker_and_hints_for_the_lab(text, slide, notes):
    assert slides.prose(text) == (slide, notes)


def test_headings_begin_slides_code_is_hidden_and_of_outputs_what_an_audience_can_take_stays():
    cells = [
        new_markdown_cell("# A lab\n\nShort.\n\n## A part\n\nMore.\n### A detail"),
        new_code_cell("secret = 1"),
        code("draw()"),
        code("draw_again()"),
        code("say()", "two\nlines\n"),
        code("say_much()", "line\n" * 13),
        code("guess.against(None)", "This is not measured yet. Your guess is kept."),
        code("answer()", tags=["solution"]),
        code("checks.verify('05.rank', x)"),
    ]
    made = slides.deck(new_notebook(cells=cells))
    assert [(cell.metadata.slideshow.slide_type, cell.source) for cell in made.cells] == [
        ("slide", "# A lab\n\nShort."),
        ("slide", "## A part\n\nMore."),
        ("subslide", "### A detail"),
        ("-", "draw()"),
        ("subslide", "draw_again()"),
        ("subslide", "say()"),
    ]


def test_the_command_leaves_a_file_that_loads_nothing_from_outside(tmp_path, capsys):
    for name in ("labs", "run", "book/_static/vendor/reveal", "book/_static/vendor/mathjax"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "book/_static/vendor/reveal/reveal.js").write_text("// a script\n")
    lab = catalogue.Lab(tmp_path / "labs/05_lab.py")
    lab.path.write_text(f"# %% [markdown]\n# # 05 · a lab\n#\n# {LONG}\n#\n# $$ a $$\n\n# %%\nunseen_code = 1\n")
    write(pairing.notebook(lab.path), tmp_path / "run/05_lab.ipynb")
    (tmp_path / "run/05_lab.json").write_text(json.dumps({"status": "ok", "seconds": 1.0, "source": lab.digest}))
    words = ["slides", "5", *(f"--{name}={tmp_path}/{name}" for name in ("labs", "run", "out"))]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path}/out/05_lab.html\n"
    page = (tmp_path / "out/05_lab.html").read_text()
    loads = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"([^\"]+)\"", page)
    scripts = ("mathjax/tex-svg-full.js", "reveal/notes.js", "reveal/reveal.css", "reveal/reveal.js")
    assert sorted(loads) == [f"vendor/{name}" for name in scripts]
    assert not re.search(r"import [^;]* from|@import|url\(\s*['\"]?(https?:)?//", page) and "unseen_code" not in page
    assert "05 · a lab" in page and "Then it goes on" in page.split('<aside class="notes">')[1]
    assert (tmp_path / "out/vendor/reveal/reveal.js").is_file()

    lab.path.write_text("# %% [markdown]\n# # 05 · another\n")
    assert cli.main(words) == 2
    assert "has no successful result of the present 05_lab; try python -m privlab run 05" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "book/_static/vendor/reveal")
    assert cli.main(words) == 2 and "data_scripts/vendor.py" in capsys.readouterr().err
