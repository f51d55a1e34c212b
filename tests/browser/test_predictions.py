"""A choice in JupyterLab: made by keyboard, kept beside the notebook, and there again when the lab is opened anew."""

import json

import nbformat
import pytest

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
CODE = """\
from privlab.notebook import widgets
long = "a ViT with a learned position embedding, twelve blocks and a long name"
guess = widgets.choose("Which leak?", ["ResNet", "Swin", long], many=True)
guess"""
ONE = """one = widgets.choose("Which leaks most?", ["ResNet", "Swin"])\none"""
READY = "return [...document.querySelectorAll('.jp-OutputArea input')].length"
TICKED = "return [...document.querySelectorAll('.jp-OutputArea input')].map(e => e.checked)"
FOCUS = "document.querySelectorAll('.jp-OutputArea input')[arguments[0]].focus()"
# Options that are cut off, or whose mark does not stand beside them.
CUT = """
const labels = [...document.querySelectorAll('.privlab-choice .widget-label-basic, .privlab-choice .widget-radio-box label')];
const wrong = e => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth
  || Math.abs(e.querySelector('input').getBoundingClientRect().top - e.getBoundingClientRect().top) > 8;
return [labels.length, labels.filter(wrong).map(e => e.textContent)];
"""


@pytest.mark.check
def test_a_choice_by_keyboard_is_kept(tmp_path, jupyter):
    cells = [nbformat.v4.new_code_cell(code) for code in (CODE, ONE)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "root" / "04_race.ipynb")
    with jupyter("04_race.ipynb", OMP_NUM_THREADS="1") as page:
        page.menu("Run", "Run All Cells")
        page.until(lambda: page.js(READY) == 5)
        for place in (1, 2, 4):
            page.js(FOCUS, place)
            page.press(Keys.SPACE)
        file = tmp_path / "root" / "guesses.json"
        page.until(lambda: file.exists() and "which-leaks-most" in file.read_text(), 20)
        there = json.loads(file.read_text())["04_race"]
        assert there["which-leak"]["guess"][0] == "Swin" and len(there["which-leak"]["guess"]) == 2
        assert there["which-leaks-most"]["guess"] == "Swin"

        page.menu("Run", "Run All Cells")  # as when the lab is opened again
        page.until(lambda: page.js(TICKED) == [False, True, True, False, True])
        assert page.barriers("label", "color-contrast", within=".jp-OutputArea-output") == []
        page.press("b", held=Keys.CONTROL)
        page.resize(390)
        page.until(lambda: page.js(CUT) == [5, []], 10)
