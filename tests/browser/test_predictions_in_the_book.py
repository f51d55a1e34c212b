"""Predictions in the built book: what follows is hidden until there is a guess, by mouse, by keyboard, and not at all without scripts."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from privlab.notebook import widgets
from privlab.runner import static_pages

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
pytestmark = pytest.mark.check
STATIC = Path(__file__).parents[2] / "book" / "_static"
CONF = f"""\
extensions, html_theme, html_static_path = ["myst_nb"], "sphinx_book_theme", [{str(STATIC)!r}]
html_css_files, html_js_files = ["book.css"], [("book.js", {{"defer": "defer"}})]
nb_execution_mode, html_context = "off", {{"default_mode": "light"}}
"""
WORDS = [
    "TEASER ONE",
    "PICTURE ONE",
    "The answer: Swin.",
    "BETWEEN",
    "TEASER TWO",
    "Measured: 40 dB.",
    "MORE",
    "NEXT RESULT",
    "END",
    "FINAL",
]
SHOWN = "return arguments[0].filter(word => document.querySelector('article').innerText.includes(word))"
ANSWERS = "return [...document.querySelectorAll('.privlab-answer')].map(e => e.textContent)"


def output(value):
    data, metadata = InteractiveShell.instance().display_formatter.format(value)
    return nbformat.v4.new_output("display_data", data, metadata=metadata)


def code(*values):
    return nbformat.v4.new_code_cell("...", outputs=[output(value) for value in values])


@pytest.fixture(scope="module")
def headless():
    """As the runner has it: a comparison leaves a place on the page, for a guess that is made there."""
    with pytest.MonkeyPatch.context() as there:
        there.setenv("PRIVLAB_STRICT", "1")
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory, headless):
    """A lab of three predictions: one of four, a number, and some of three, whose comparison is none of its own."""
    place = tmp_path_factory.mktemp("small")
    text = nbformat.v4.new_markdown_cell
    which = widgets.choose("Which leaks < most?", ["ResNet", "Swin", "ViT"])
    far = widgets.predict("How far?", 0, 100, "dB")
    some = widgets.choose("Which leak?", ["a", "b", "c"], many=True)
    cells = [
        text("# A lab\n\n## The first"),
        code(which),
        text("TEASER ONE\n\n## The second"),
        code(widgets.Sentence("PICTURE ONE")),
        code(which.against("Swin")),
        text("BETWEEN"),
        code(far),
        text("TEASER TWO\n\n### The third\n\nAll of this waits."),
        code(far.against(40)),
        text("## The fourth"),
        code(some),
        text("MORE"),
        code(widgets.Sentence("NEXT RESULT")),
        text("END"),
        text("## The answer\n\nFINAL"),
    ]
    about = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=about)
    static_pages.rest(notebook)
    (place / "book").mkdir()
    (place / "book/conf.py").write_text(CONF)
    nbformat.write(notebook, place / "book/index.ipynb")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "book", "built"]
    subprocess.run(command, cwd=place, check=True)
    return place / "built/index.html"


def shown(reader):
    return reader.js(SHOWN, WORDS)


def button(reader, form, name):
    inside = f"(//form[contains(@class, 'privlab-prediction')])[{form}]//button[normalize-space()='{name}']"
    return reader.until(lambda: reader.find(inside), 10)


def test_a_guess_by_mouse_shows_what_follows_and_how_it_compares_and_is_kept(page, reader):
    reader.driver.get(page.as_uri())
    assert shown(reader) == ["BETWEEN", "END"]
    assert "The second" in reader.js("return document.querySelector('article').innerText")
    heading = "return document.querySelector('#the-third').checkVisibility()"
    assert not reader.js(heading)  # with all that it stands above
    reader.resize(1280, 250)
    top = "return document.querySelectorAll('form.privlab-prediction')[1].getBoundingClientRect().top"
    assert reader.js(top) > 250
    reader.js("location.hash = '#the-third'")  # as from the list of contents: the question comes first
    reader.until(lambda: 0 < reader.js(top) < 200, 5)
    reader.resize(1280, 1000)
    reader.js("window.scrollTo(0, 0)")
    guess = button(reader, 1, "That is my guess")
    guess.click()
    assert shown(reader) == ["BETWEEN", "END"]  # nothing was picked
    reader.find("//label[normalize-space()='ViT']").click()
    guess.click()
    assert shown(reader) == ["TEASER ONE", "PICTURE ONE", "The answer: Swin.", "BETWEEN", "END"]
    assert reader.js(ANSWERS) == ["You said ViT: what did you assume that does not hold here?", ""]
    reader.find("//a[.='See how it compares']").click()
    assert "#privlab-answer" in reader.driver.current_url

    reader.driver.get(page.as_uri())  # opened again
    assert shown(reader) == ["TEASER ONE", "PICTURE ONE", "The answer: Swin.", "BETWEEN", "END"]
    assert reader.find("//label[normalize-space()='ViT']/input").is_selected()
    reader.find("//label[normalize-space()='Swin']").click()
    button(reader, 1, "That is my guess").click()
    assert reader.js(ANSWERS) == ["You said Swin: right.", ""]
    button(reader, 1, "Hide what follows again").click()
    assert shown(reader) == ["BETWEEN", "END"]
    assert not reader.find("//label[normalize-space()='Swin']/input").is_selected()
    assert reader.complaints() == []


def test_guesses_by_keyboard(page, reader):
    reader.resize(390)
    reader.driver.get(page.as_uri())
    reader.js("document.querySelector('form.privlab-prediction input').focus()")
    reader.press(Keys.ARROW_DOWN)
    assert shown(reader) == ["BETWEEN", "END"]  # who moves among the options has not guessed yet
    reader.press(Keys.ENTER)
    assert "PICTURE ONE" in shown(reader) and reader.js(ANSWERS)[0] == "You said Swin: right."

    reader.js("document.querySelector('input[type=number]').focus()")
    for key in "101":
        reader.press(key)
    reader.press(Keys.ENTER)
    assert "Measured: 40 dB." not in shown(reader)  # beyond the range
    reader.press(Keys.BACKSPACE)
    reader.press(Keys.ENTER)
    assert "Measured: 40 dB." in shown(reader)
    assert reader.js(ANSWERS)[1] == "You said 10 dB. That is 30 dB away: what did you assume that does not hold here?"

    reader.press(Keys.TAB)  # its two buttons and its link, then the boxes to tick
    while reader.js("return document.activeElement.type") != "checkbox":
        reader.press(Keys.TAB)
    reader.press(Keys.SPACE)
    assert "NEXT RESULT" not in shown(reader)
    reader.press(Keys.ENTER)
    assert shown(reader) == WORDS
    assert reader.js("return document.documentElement.scrollWidth") <= 390


def test_it_can_be_shown_without_a_guess(page, reader):
    reader.driver.get(page.as_uri())
    button(reader, 2, "Show it without a guess").click()
    assert shown(reader) == ["BETWEEN", "TEASER TWO", "Measured: 40 dB.", "END"]
    assert reader.js(ANSWERS) == ["", ""]
    for theme in ("light", "dark"):
        reader.js("document.documentElement.dataset.theme = arguments[0]", theme)
        assert reader.barriers("label", "color-contrast", "button-name", within="article") == []


def test_the_answer_waits_for_all_of_them_and_leads_to_the_first_that_is_open(page, reader):
    reader.driver.get(page.as_uri())
    waits = "return document.querySelector('.privlab-waiting').checkVisibility()"
    for n in (3, 1):
        button(reader, n, "Show it without a guess").click()
        assert "FINAL" not in shown(reader) and reader.js(waits)
    reader.resize(1280, 250)
    reader.find("//p[@class='privlab-waiting']/a").click()
    top = "return document.querySelectorAll('form.privlab-prediction')[1].getBoundingClientRect().top"
    reader.until(lambda: -1 < reader.js(top) < 200, 5)
    button(reader, 2, "Show it without a guess").click()
    assert shown(reader) == WORDS and not reader.js(waits)


def test_paper_has_everything(page, reader):
    reader.driver.get(page.as_uri())
    reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert shown(reader) == WORDS


def test_without_scripts_everything_is_there(page, reader):
    reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    reader.driver.get(page.as_uri())
    text = reader.driver.find_element("css selector", "article").text
    assert all(word in text for word in WORDS) and "guess" not in text.replace("your guess, from 0 to 100", "")
    assert len(reader.driver.find_elements("css selector", "form.privlab-prediction input")) == 7


def test_a_guess_of_another_question_under_the_same_name_is_forgotten(page, reader):
    reader.driver.get(page.as_uri())
    for name, guess in (("which-leaks-most", "5"), ("how-far", '["Swin"]'), ("which-leak", '"a"')):
        reader.js(
            "localStorage.setItem(arguments[0], arguments[1])", f"privlab:index.html:{name}", f'{{"guess": {guess}}}'
        )
    reader.driver.get(page.as_uri())
    assert shown(reader) == ["BETWEEN", "END"] and reader.complaints() == []
