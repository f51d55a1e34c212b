"""Labs as a reader runs them in JupyterLab: cell by cell, by keyboard, each control moved and its picture seen to change."""

import shutil
from pathlib import Path

import nbformat
import pytest

from privlab.data import sources

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
LABS = Path(__file__).parents[2] / "labs"

# What is still to come: cells that run or wait, and the code cells that have run.
STATE = """
const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent);
return {waiting: prompts.filter(p => p.includes('*')).length, ran: prompts.filter(p => /\\d/.test(p)).length};
"""
ERRORS = """
const found = document.querySelectorAll('[data-mime-type="application/vnd.jupyter.error"]');
return [...found].map(e => e.textContent);
"""
ASKS = "return [...arguments[0].querySelectorAll('.widget-label')].some(e => e.textContent === 'your guess')"
SAID = (
    "return [...document.querySelectorAll('.jp-OutputArea')].filter(e => e.textContent.includes('. You said ')).length"
)
READOUT = "return document.activeElement.closest('.widget-slider').querySelector('.widget-readout').textContent"
# The boxes of `widgets.explore`: controls, and below them what they drew.
BOXES = "[...document.querySelectorAll('.jupyter-widgets.widget-vbox:not(.privlab-pad)')].filter(b => b.querySelector('.jp-OutputArea'))"
CONTROLS = ".noUi-handle, select, input[type=checkbox], .widget-toggle-buttons"
DRAWN = f"const box = {BOXES}[arguments[0]]; return box.querySelector('.jp-OutputArea').innerHTML"
COUNTS = f"return {BOXES}.map(b => b.querySelectorAll('{CONTROLS}').length)"
FOCUS = f"""
const control = {BOXES}[arguments[0]].querySelectorAll('{CONTROLS}')[arguments[1]];
(control.querySelector('button:not(.mod-active)') || control).focus();
"""
WHICH = """
const e = document.activeElement;
return [e.getAttribute('role') || e.tagName.toLowerCase(), ...['min', 'max', 'now'].map(name => e.getAttribute(`aria-value${name}`))];
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


def run_cell(page, seconds=120):
    """Shift and Enter, which goes on to the next cell; of code, wait until it has run."""
    code, cell = page.js(ACTIVE)
    page.press(Keys.ENTER, held=Keys.SHIFT)
    page.until(lambda: page.js(ACTIVE)[1] != cell, 20)
    if code:
        page.until(lambda: page.js(PROMPT, cell).strip("[]: ").isdecimal(), seconds)
    return cell


def guess(page):
    """Move the slider of the cell that has just run, and go on: back with Shift and Tab, an arrow, and j for the next cell."""
    for _ in range(5):
        page.press(Keys.TAB, held=Keys.SHIFT)
        if page.js("return document.activeElement.matches('.noUi-handle')"):
            break
    else:
        raise AssertionError("five times Shift and Tab, and no slider had the focus")
    before = page.js(READOUT)
    page.press(Keys.ARROW_RIGHT)
    page.until(lambda: page.js(READOUT) != before, 10)
    page.press("j")


def move(page, box, control):
    """One step of a control by key, once it has the focus (we put it there); waits until what its box shows is another."""
    before = page.js(DRAWN, box)
    page.js(FOCUS, box, control)
    kind, low, high, now = page.js(WHICH)
    if kind == "slider" and low == high:
        return  # with one photograph there is no other to choose
    keys = {"slider": Keys.ARROW_LEFT if now == high else Keys.ARROW_RIGHT, "select": Keys.ARROW_DOWN}
    page.press(keys.get(kind, Keys.SPACE))
    page.until(lambda: page.js(DRAWN, box) not in ("", before), 60)


OTHERS = [pytest.param(name, marks=pytest.mark.weekly) for name in ("05_april_closed_form", "09_fourteen_steps")]


@pytest.mark.check
@pytest.mark.parametrize("name", ["00_start_here", *OTHERS])
def test_a_lab_by_keyboard(name, tmp_path, jupyter):
    shutil.copy(LABS / f"{name}.ipynb", tmp_path / "root")
    place = dict(PRIVLAB_DATA=str(sources.folder()), PRIVLAB_STORE=str(tmp_path / "store"), OMP_NUM_THREADS="1")
    with jupyter(f"{name}.ipynb", **place) as page:
        cells, guesses = nbformat.read(LABS / f"{name}.ipynb", 4).cells, 0
        for _ in cells:
            cell = run_cell(page)
            if page.js(ASKS, cell):
                guess(page)
                guesses += 1
        assert page.js(STATE) == {"waiting": 0, "ran": sum(c.cell_type == "code" for c in cells)}
        assert page.js(ERRORS) == []
        assert guesses and page.js(SAID) == guesses

        counts = page.js(COUNTS)
        assert counts and all(counts)
        for box, controls in enumerate(counts):
            for control in range(controls):
                move(page, box, control)
        assert page.js(ERRORS) == []
        alts = page.alts(".jp-OutputArea img")
        assert alts and all(alts)
        assert (
            page.barriers(
                "color-contrast",
                "image-alt",
                "button-name",
                "link-name",
                "label",
                within=".jp-OutputArea-output, .jp-MarkdownOutput",
            )
            == []
        )

        page.press("b", held=Keys.CONTROL)  # the list of files makes room
        page.resize(390)
        page.until(lambda: page.js(BEYOND) == [], 10)
        assert page.complaints() == []
