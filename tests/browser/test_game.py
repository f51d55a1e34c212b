"""The game played to its end in a real browser: JupyterLab on the loopback address, headless Chromium, clicks and keys."""

import nbformat
import pytest
import torch

from privlab.course.lab_12 import user_study

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
CODE = (
    'from privlab.course.lab_12 import user_study\n\nuser_study.Game(user_study.load("study.safetensors"), "answers")'
)
LEFT = "return getComputedStyle(document.querySelector('.privlab-clock')).getPropertyValue('--privlab-left')"


@pytest.mark.check
def test_a_game_from_its_start_to_its_summary(tmp_path, jupyter):
    pictures = torch.rand(3, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    of, answers = user_study.Study([*pictures], ("full", "skip_4"), seconds=30), tmp_path / "root" / "answers"
    of.save(tmp_path / "root" / "study.safetensors")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, tmp_path / "root" / "game.ipynb")
    with jupyter("game.ipynb") as page:
        page.menu("Run", "Run All Cells")
        page.until(lambda: page.button("Start"))
        assert "3 pairs of pictures, 30 seconds for each" in page.text() and not answers.exists()
        page.button("Start").click()
        for number, choice in enumerate(("left", "right"), 1):
            page.until(lambda n=number: f"Pair {n} of 3." in page.text())
            reconstructions = [f"The {side} reconstruction, pair {number} of 3." for side in ("left", "right")]
            page.until(lambda wanted=reconstructions: page.alts(".jp-OutputArea img")[1:] == wanted)
            page.until(lambda: int(page.js(LEFT)) < 29, 15)  # the clock runs
            assert page.text().count("full") == page.text().count("skip_4") == 0
            page.button(choice).click()
        page.until(lambda: "Pair 3 of 3." in page.text())
        assert page.driver.switch_to.active_element.text == "right"  # the focus has stayed on what was clicked
        page.press(Keys.TAB, held=Keys.SHIFT)
        page.press(Keys.ENTER)
        page.until(lambda: "Everybody in this folder" in page.text())
        ((played,), _) = user_study.games(of, answers)
        assert [*played.choice] == [played[side][n] for n, side in enumerate(("left", "right", "left"))]
        assert user_study.summary(of, [played]) in page.text() and page.button("New game") and page.complaints() == []
