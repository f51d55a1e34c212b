"""Slides follow a lab's own structure, and their file reads without a network."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from privlab import __main__ as cli
from privlab.teaching import slides

LONG = "This paragraph says one thing first. " + "Then it goes on for a good while, " * 8 + "and ends."
PICTURE = '<img src="data:image/png;base64,AAAA" alt="a line that falls">'


def html(content):
    return new_output("display_data", {"text/html": content, "text/plain": "a picture"})


def printed(text):
    return new_output("stream", name="stdout", text=text)


def kinds(made):
    return [(cell.metadata.slideshow.slide_type, cell.source) for cell in slides.deck(made).cells]


def test_headings_begin_slides_wherever_in_a_cell_they_stand():
    made = new_notebook(
        cells=[new_markdown_cell("# A lab\n\nShort.\n\n## A part\n\nMore.\n### A detail"), new_markdown_cell("On.")]
    )
    assert kinds(made) == [
        ("slide", "# A lab\n\nShort."),
        ("slide", "## A part\n\nMore."),
        ("subslide", "### A detail"),
        ("-", "On."),
    ]


@pytest.mark.parametrize(
    ("text", "slide", "notes"),
    [
        (f"## A part\n\nShort.\n\n{LONG}", "## A part\n\nShort.", LONG),
        (f"### Exercise 1: what?\n\n{LONG}", f"### Exercise 1: what?\n\n{LONG}", ""),
        (f"- {LONG}", f"- {LONG}", ""),
        (f"$$ a = b $$ {LONG}", f"$$ a = b $$ {LONG}", ""),
        (PICTURE + LONG, PICTURE + LONG, ""),
        ("Short.\n\n<details><summary>Hint</summary>Look\n\nthere.</details>", "Short.", ""),
        ("| profile | minutes |\n|---|---|", "", "| profile | minutes |\n|---|---|"),
        ("Go on with [lab 05](../05_lab.ipynb).", "Go on with lab 05.", ""),
    ],
)
def test_long_prose_is_for_the_speaker_and_hints_for_the_lab(text, slide, notes):
    assert slides.prose(text) == (slide, notes)


def test_code_is_hidden_and_of_outputs_what_an_audience_can_take_stays():
    def code(source, *outputs, **metadata):
        return new_code_cell(source, outputs=list(outputs), metadata=metadata)

    made = new_notebook(
        cells=[
            new_markdown_cell("## A part"),
            code("secret = 1"),
            code("draw()", html(PICTURE)),
            code("draw_again()", html(PICTURE)),
            code("say()", printed("two\nlines\n")),
            code("say_much()", printed("line\n" * 13)),
            code("guess.against(None)", printed("This is not measured yet. Your guess is kept.")),
            code("answer()", html(PICTURE), tags=["solution"]),
            code("checks.verify('05.rank', x)", html("<p>right</p>")),
        ]
    )
    assert kinds(made) == [("slide", "## A part"), ("-", "draw()"), ("subslide", "draw_again()"), ("-", "say()")]
    page = slides.page(made, "05_lab")
    assert "draw_again" not in page and page.count("a line that falls") == 2 and "lines" in page


def test_what_comes_out_of_a_prediction_is_on_the_next_slide():
    form = '<form class="privlab-prediction"></form>'
    outputs = {
        "ask()": html(form),
        "against()": printed("Right: two.\n"),
        "say()": printed("More.\n"),
        "ask_more()": html(form),
    }
    made = new_notebook(
        cells=[new_markdown_cell("## Predict"), *(new_code_cell(s, outputs=[o]) for s, o in outputs.items())]
    )
    made.cells.insert(2, new_markdown_cell("Now look."))
    kinds_ = ["slide", "-", "-", "subslide", "-", "-"]
    assert [kind for kind, _ in kinds(made)] == kinds_


def test_the_file_loads_nothing_from_outside():
    page = slides.page(new_notebook(cells=[new_markdown_cell(f"# A lab\n\n{LONG}\n\n$$ a $$")]), "05_lab")
    loads = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"([^\"]+)\"", page)
    assert sorted(loads) == [
        "vendor/mathjax/tex-svg-full.js",
        "vendor/reveal/notes.js",
        "vendor/reveal/reveal.css",
        "vendor/reveal/reveal.js",
    ]
    assert not re.search(r"import [^;]* from|@import|url\(\s*['\"]?(https?:)?//", page)
    assert '<aside class="notes">' in page and "Then it goes on" in page.split('<aside class="notes">')[1]


@pytest.fixture
def house(tmp_path):
    """A lab, a green run of it, and stand-ins for the scripts."""
    (tmp_path / "labs").mkdir()
    source = tmp_path / "labs/05_lab.py"
    source.write_text("# %% [markdown]\n# # 05 · a lab\n")
    for name in ("reveal/reveal.js", "mathjax/tex-svg-full.js"):
        (tmp_path / "book/_static/vendor" / name).parent.mkdir(parents=True)
        (tmp_path / "book/_static/vendor" / name).write_text("// a script\n")
    from nbformat import write

    from privlab.runner import catalogue, pairing

    lab = catalogue.Lab(source)
    (tmp_path / "run").mkdir()
    write(pairing.notebook(source), tmp_path / "run/05_lab.ipynb")
    (tmp_path / "run/05_lab.json").write_text(json.dumps({"status": "ok", "seconds": 1.0, "source": lab.digest}))
    return tmp_path


def asked(house, *more):
    return cli.main(["slides", "5", *more, "--labs", f"{house}/labs", "--run", f"{house}/run", "--out", f"{house}/out"])


def test_the_command_leaves_a_file_a_lab_and_the_scripts_beside_it(house, capsys):
    assert asked(house) == 0
    assert capsys.readouterr().out == f"wrote {house}/out/05_lab.html\n"
    assert "05 · a lab" in (house / "out/05_lab.html").read_text()
    assert all((house / "out/vendor" / name).is_file() for name in ("reveal/reveal.js", "mathjax/tex-svg-full.js"))
    shutil.rmtree(house / "book/_static/vendor/reveal")
    assert asked(house) == 2 and "data_scripts/vendor.py" in capsys.readouterr().err
    (house / "labs/05_lab.py").write_text("# %% [markdown]\n# # 05 · another\n")
    assert asked(house) == 2
    assert "has no successful result of the present 05_lab; try python -m privlab run 05" in capsys.readouterr().err
