"""Labs as a reader runs them in JupyterLab: cell by cell, by keyboard. Each prediction is made and answered, each control moved, and its
picture seen to change."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from privlab.data import sources

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
LABS = Path(__file__).parents[2] / "labs"
WEEKLY = (
    "04_gradient_inversion", "05_april_closed_form", "09_fourteen_steps", "11_model_inversion", "12_resistant_architectures",
    "14_the_ledger",
)  # fmt: skip
NAMES = ["00_start_here", *(pytest.param(name, marks=pytest.mark.weekly) for name in WEEKLY)]

ERRORS = "return [...document.querySelectorAll('[data-mime-type=\"application/vnd.jupyter.error\"]')].map(e => e.textContent)"
ASKS = "return !!arguments[0].querySelector('.privlab-choice')"
ON_GUESS = "return document.activeElement.matches('.privlab-choice :is(.noUi-handle, input[type=radio], input[type=checkbox])')"
# The guess at hand: the number of a slider, or the words beside a circle or a box, and whether it is given.
GUESS = """
const e = document.activeElement, slider = e.closest('.widget-slider');
if (slider) return [String(parseFloat(slider.querySelector('.widget-readout').textContent)), true];
return [e.closest('label').textContent.trim(), e.checked];
"""
# What the answers to predictions say, as Markdown: one for each that was asked.
ANSWERS = """
const said = [...document.querySelectorAll('.jp-OutputArea .jp-RenderedMarkdown')].map(e => e.textContent.trim());
return said.filter(text => /^(Measured: |The answer: |This is not measured yet)/.test(text));
"""
# The boxes of `widgets.explore`: controls, and below them what they drew.
BOXES = """[...document.querySelectorAll('.jupyter-widgets.widget-vbox:not(.privlab-pad)')].filter(box =>
  box.querySelector(':scope > :is(.widget-slider, .widget-dropdown, .widget-checkbox, .widget-toggle-buttons)')
  && box.querySelector('.jp-OutputArea'))"""
CONTROLS = ".noUi-handle, select, input[type=checkbox], .widget-toggle-buttons"
DRAWN = f"const box = {BOXES}[arguments[0]]; return box.querySelector('.jp-OutputArea').innerHTML"
COUNTS = f"return {BOXES}.map(b => b.querySelectorAll('{CONTROLS}').length)"
FOCUS = f"""
const control = {BOXES}[arguments[0]].querySelectorAll('{CONTROLS}')[arguments[1]];
(control.querySelector('button:not(.mod-active)') || control).focus();
const e = document.activeElement, [low, high, now] = ['min', 'max', 'now'].map(name => e.getAttribute(`aria-value${{name}}`));
return [e.getAttribute('role') || e.tagName.toLowerCase(), low === high, now === high];
"""
# Whatever of a widget or a picture ends beyond the window, unless it stands in something that scrolls.
BEYOND = """
const scroll = e => e.clientWidth < e.scrollWidth && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
const held = e => e && (scroll(e) || held(e.parentElement));
const things = ['img', '.noUi-target', '.widget-readout', 'button', 'select'].map(name => `.jp-Notebook ${name}`).join();
const beyond = e => e.getBoundingClientRect().right > innerWidth + 1 && !(e.matches('img') && held(e));
return [...document.querySelectorAll(things)].filter(beyond).map(e => e.outerHTML.slice(0, 200));
"""
# The cell that is at hand: whether it is code, and its prompt.
ACTIVE = """
const cell = document.querySelector('.jp-Cell.jp-mod-active');
return [cell.matches('.jp-CodeCell') && !!cell.querySelector('.cm-content').textContent, cell];
"""
PROMPT = "return arguments[0].querySelector('.jp-InputPrompt').textContent"
# A button of a cell's output that has this name gets the focus; and what that output shows.
BUTTON = """
const found = [...arguments[0].querySelectorAll('.jp-OutputArea button')].find(e => e.textContent.trim() === arguments[1]);
if (found) found.focus();
return !!found;
"""
SHOWN = """
const drawn = [...arguments[0].querySelectorAll('.jp-OutputArea :is(img, svg)')].map(e => e.src || e.innerHTML);
return drawn.join() + arguments[0].querySelector('.jp-OutputArea').innerText;
"""


def run_cell(page):
    """Shift and Enter, which goes on to the next cell; of code, wait until it has run."""
    code, cell = page.js(ACTIVE)
    page.press(Keys.ENTER, held=Keys.SHIFT)
    page.until(lambda: page.js(ACTIVE)[1] != cell, 20)
    if code:
        page.until(lambda: page.js(PROMPT, cell).strip("[]: ").isdecimal(), 600)
    return cell


def guess(page):
    """Make the prediction of the cell that has just run, as the page shows it, and go on: Shift and Tab, an arrow or space, and j."""
    for _ in range(5):
        page.press(Keys.TAB, held=Keys.SHIFT)
        if page.js(ON_GUESS):
            break
    before = page.js(GUESS)
    slider = page.js("return document.activeElement.getAttribute('role')") == "slider"
    page.press(Keys.ARROW_RIGHT if slider else Keys.SPACE)
    page.until(lambda: page.js(GUESS) != before, 10)
    words, given = page.js(GUESS)
    assert given
    page.press("j")
    return words


def press_button(page, cell, name):
    """Press the button of this name in a cell's output, if there is one, by the space bar, and wait until what it shows is another."""
    if page.js(BUTTON, cell, name):
        before = page.js(SHOWN, cell)
        page.press(Keys.SPACE)
        page.until(lambda: page.js(SHOWN, cell) != before, 60)
        page.press("j")


def move(page, box, control):
    """One step of a control by key, once it has the focus (we put it there); waits until what its box shows is another."""
    before = page.js(DRAWN, box)
    kind, fixed, at_end = page.js(FOCUS, box, control)
    if kind != "slider" or not fixed:  # with one photograph there is no other to choose
        keys = {"slider": Keys.ARROW_LEFT if at_end else Keys.ARROW_RIGHT, "select": Keys.ARROW_DOWN}
        page.press(keys.get(kind, Keys.SPACE))
        page.until(lambda: page.js(DRAWN, box) not in ("", before), 60)


@pytest.mark.check
@pytest.mark.parametrize("name", NAMES)
def test_a_lab_by_keyboard(name, tmp_path, jupyter):
    shutil.copy(LABS / f"{name}.ipynb", tmp_path / "root")
    place = dict(PRIVLAB_DATA=str(sources.folder()), PRIVLAB_STORE=str(tmp_path / "store"), OMP_NUM_THREADS="1")
    with jupyter(f"{name}.ipynb", **place) as page:
        cells, guesses = nbformat.read(LABS / f"{name}.ipynb", 4).cells, []
        for _ in cells:
            cell = run_cell(page)
            assert len(page.js(ANSWERS)) <= len(guesses)  # no answer stands before its guess
            if page.js(ASKS, cell):
                guesses.append(guess(page))
            for button in ("Step", "Clear", "Send"):  # of a race; of a pad, which sends an empty sheet
                press_button(page, cell, button)
        assert page.js(ERRORS) == [] and guesses
        for answer, words in zip(page.js(ANSWERS), guesses, strict=True):
            said = (f"You said {words}", "That is what you said.", "Your guess is kept.")
            assert any(one in answer for one in said)
        kept = tmp_path / "root/guesses.json"
        page.until(lambda: kept.exists() and len(json.loads(kept.read_text())[name]) == len(guesses), 20)

        counts = page.js(COUNTS)
        explorers = sum(c.source.count(made) for c in cells for made in ("widgets.explore(", "morphing.Morph("))
        assert len(counts) == explorers and all(counts)
        for box, controls in enumerate(counts):
            for control in range(controls):
                move(page, box, control)
        assert page.js(ERRORS) == []
        alts = page.alts(".jp-OutputArea img")
        assert alts and all(alts)
        rules = "color-contrast", "image-alt", "button-name", "link-name", "label"
        assert page.barriers(*rules, within=".jp-OutputArea-output, .jp-MarkdownOutput") == []

        page.press("b", held=Keys.CONTROL)  # the list of files makes room
        page.resize(390)
        page.until(lambda: page.js(BEYOND) == [], 10)
        assert page.complaints() == []
