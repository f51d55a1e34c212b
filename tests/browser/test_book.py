"""The built book in Chromium, from its files and without a network: what a reader sees, turns, searches, and reaches by keyboard."""

from pathlib import Path

import pytest

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WIDTHS = (1280, 390)
LABS = sorted(path.stem for path in (Path(__file__).parents[2] / "labs").glob("[0-9]*.py"))
pytestmark = pytest.mark.check


@pytest.fixture
def book(built_book):
    """The whole book, each lab as it ran."""
    return built_book


def open_page(reader, page):
    """A page of the book, once its formulas and controls stand."""
    reader.driver.get(page.as_uri())
    reader.until(lambda: reader.js("return document.readyState") == "complete", 30)
    reader.js(
        "window.settled = false; Promise.resolve(window.MathJax?.startup?.promise).then(() => window.settled = true)"
    )
    reader.until(lambda: reader.js("return window.settled"), 60)


# Whatever sticks out of the window and is neither cut off nor scrolled by something around it.
BEYOND = """
const held = e => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' || held(e.parentElement));
const beyond = e => e.getBoundingClientRect().right > innerWidth + 1 && !held(e);
return [...document.querySelectorAll('main *')].filter(beyond).map(e => e.outerHTML.slice(0, 200));
"""


# What has to be scrolled sideways to be read to its end.
SCROLLS = """
const hidden = e => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX);
const code = e => e.matches('.cell_input pre');
return [...document.querySelectorAll('main *')].filter(e => e.clientWidth && hidden(e))
  .map(e => [code(e), e.textContent.trim().slice(0, 200)]);
"""
# Every fold of the page is opened, and the longest line that a lab may have stands in each cell of code, plain and folded.
LONGEST = """
document.querySelectorAll('details').forEach(e => { e.open = true; });
document.querySelectorAll('.cell_input pre').forEach(e => { e.append('\\n' + 'm'.repeat(88)); });
"""


def test_code_fits_a_desk_and_nothing_but_code_scrolls_on_a_telephone(book, reader):
    page = book / "_generated/labs/05_april_closed_form.html"
    for width in WIDTHS:
        reader.resize(width)
        open_page(reader, page)
        reader.js(LONGEST)
        assert len(reader.driver.find_elements("css selector", ".cell_input pre")) > 20
        scrolled = reader.js(SCROLLS)
        assert [text for is_code, text in scrolled if width == max(WIDTHS) or not is_code] == [], width
        assert width == max(WIDTHS) or any(is_code for is_code, _ in scrolled)  # or the look finds nothing


def test_a_lab_is_at_most_twenty_screens_with_all_results_shown(book, reader):
    reader.resize(1280)
    for page in sorted((book / "_generated/labs").glob("*.html")):
        open_page(reader, page)
        reader.show_what_is_hidden()
        assert reader.js("return document.documentElement.scrollHeight") <= 20 * 900, page.name


def test_every_page_on_a_desk_and_on_a_telephone(book, reader):
    pages = [path for path in sorted(book.rglob("*.html")) if "_static" not in path.parts]
    assert len(pages) > 35
    for width in WIDTHS:
        reader.resize(width)
        for page in pages:
            open_page(reader, page)
            where = (page.name, width)
            assert reader.js("return document.documentElement.scrollWidth") <= width, (where, reader.js(BEYOND))
            assert reader.js(BEYOND) == [], where
            assert reader.complaints() == [], where
            assert reader.requests_outside() == [], where


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_and_everything_has_a_name(book, reader, theme):
    for name in (
        "index",
        "glossary",
        "findings",
        "_generated/ledger",
        "_generated/coverage",
        "benchmarks",
        "_generated/holds/02",
        "teaching/lab_02",
        "_generated/labs/05_april_closed_form",
        "_generated/api/privlab.attacks.gradient_inversion",
        "references",
        "own_results",
        "reference",
        "claims/lu2022",
        "claims/privlab",
    ):
        open_page(reader, book / f"{name}.html")
        reader.js("document.documentElement.dataset.theme = arguments[0]", theme)
        rules = (
            "color-contrast",
            "image-alt",
            "svg-img-alt",
            "label",
            "select-name",
            "button-name",
            "link-name",
            "document-title",
            "html-has-lang",
            "definition-list",
            "aria-roles",
            "aria-required-children",
        )
        # What a fold hides lies, for axe, on the page's ground and not on its own; and a fold that opens fades in
        reader.js("for (const fold of document.querySelectorAll('details')) fold.open = true")
        reader.js("for (const fading of document.getAnimations()) fading.finish()")
        assert reader.barriers(*rules, within="main") == [], name


@pytest.mark.parametrize("lab", LABS)
def test_each_prediction_hides_what_follows_until_it_is_made(book, reader, lab):
    open_page(reader, book / f"_generated/labs/{lab}.html")
    hidden = "return document.querySelectorAll('.privlab-later').length"
    before = reader.js(hidden)
    forms = reader.driver.find_elements("css selector", "form.privlab-prediction")
    assert before and forms
    for form in forms:
        field = form.find_element("css selector", "input")
        field.send_keys(field.get_attribute("min")) if field.get_attribute("type") == "number" else field.click()
        form.find_element("css selector", "button").click()
        after = reader.js(hidden)
        assert after < before
        before = after
    told = [e.text for e in reader.driver.find_elements("css selector", ".privlab-answer")]
    assert after == 0 and len(told) == len(forms) and all(text.startswith("You said ") for text in told)


def test_controls_rest_where_the_run_left_them(book, reader):
    open_page(reader, book / "_generated/labs/12_resistant_architectures.html")
    reader.show_what_is_hidden()
    reader.until(lambda: reader.driver.find_elements("css selector", ".jupyter-widgets button"), 30)
    handles = reader.js("return [...document.querySelectorAll('.jupyter-widgets button')].map(e => e.disabled)")
    assert handles and all(handles)
    assert "Here the controls rest" in reader.text() and reader.complaints() == []


def test_search_finds_and_leads_there(book, reader):
    open_page(reader, book / "search.html")
    reader.find("//main//input[@name='q']").click()
    reader.press("bfloat16")
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.driver.find_elements("css selector", "ul.search li a"), 30)
    found = reader.js("return [...document.querySelectorAll('ul.search li a')].map(e => e.getAttribute('href'))")
    assert any("00_start_here" in link for link in found) and all(
        (book / link.split("?")[0].split("#")[0]).exists() for link in found
    )


def test_a_reader_without_a_mouse_gets_from_the_door_into_a_lab(book, reader):
    open_page(reader, book / "index.html")
    reader.press(Keys.TAB)
    assert "Skip to main content" in reader.js("return document.activeElement.textContent")
    reader.press(Keys.ENTER)
    for _ in range(120):
        reader.press(Keys.TAB)
        where = reader.js("return document.activeElement.getAttribute('href') || ''")
        if where.endswith("labs/00_start_here.html"):
            break
    assert where.endswith("labs/00_start_here.html")
    ring = reader.js(
        "const look = getComputedStyle(document.activeElement); return [look.outlineStyle, look.boxShadow]"
    )
    assert ring != ["none", "none"]  # the eye can follow the focus
    reader.press(Keys.ENTER)
    reader.until(lambda: "What does a gradient carry" in reader.driver.title, 30)
