"""The game played to its end in a real browser: JupyterLab on the loopback address, headless Chromium, clicks and keys."""

import re
import time

import nbformat
import pytest

from privlab.course.lab_12 import user_study

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
CODE = """\
import torch
from privlab.course.lab_12 import user_study
from privlab.course.lab_12.user_study import Pair, Study

pictures = torch.rand(3, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
of = Study([Pair(*three, f"person {i}") for i, three in enumerate(pictures)], seconds=30)
user_study.Game(of, "answers")
"""


@pytest.mark.check
def test_a_game_from_its_start_to_its_summary(tmp_path, jupyter):
    answers = tmp_path / "root" / "answers"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, tmp_path / "root" / "game.ipynb")
    with jupyter("game.ipynb") as page:
        page.menu("Run", "Run All Cells")
        page.until(lambda: page.button("Start"))
        assert "3 pairs of pictures, 30 seconds for each" in page.text() and not page.button("left")
        assert not answers.exists()
        page.button("Start").click()
        for number, choice in enumerate(("left", "right"), 1):
            page.until(lambda n=number: f"Pair {n} of 3." in page.text())
            reconstructions = [f"The {side} reconstruction, pair {number} of 3." for side in ("left", "right")]
            page.until(lambda wanted=reconstructions: page.alts(".jp-OutputArea img")[1:] == wanted)
            page.until(lambda: re.search(r"\b(1?\d|2[0-8]) s left", page.text()), 15)  # the clock runs
            assert page.text().count("full") == page.text().count("skip_4") == 0
            page.button(choice).click()
        page.until(lambda: "Pair 3 of 3." in page.text())
        time.sleep(0.5)  # what comes at once is taken for a double click
        assert page.driver.switch_to.active_element.text == "right"  # the focus has stayed on what was clicked
        page.press(Keys.TAB, held=Keys.SHIFT)
        assert page.driver.switch_to.active_element.text == "left"
        page.press(Keys.ENTER)
        page.until(lambda: "What this can show" in page.text())

        (path,) = answers.iterdir()
        played = user_study.read(path)
        chosen = ["left" if a.choice == a.left else "right" for a in played.answers]
        assert chosen == ["left", "right", "left"] and all(1.5 < a.seconds < 30 for a in played.answers[:2])
        assert str(user_study.summary([played])) in page.text() and "69.51%" in page.text() and page.button("New game")
        assert not page.button("left") and not page.button("Start")
        assert page.complaints() == []
