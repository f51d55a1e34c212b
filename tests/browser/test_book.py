"""The built book in Chromium, from its files and without a network: what a reader sees, guesses, turns, filters and reaches.

Guesses, explorers, menus and links go by keyboard; axe looks at names and contrast in both themes.
"""

from pathlib import Path

import pytest

from privlab import ledger

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
LABS = sorted(path.stem for path in (Path(__file__).parents[2] / "labs").glob("[0-9]*.py"))
EXPLORED = ("01_membership", "05_april_closed_form")
LOOKED_AT = (
    "index", "glossary", "findings", "_generated/ledger", "_generated/coverage", "benchmarks", "_generated/holds/02", "teaching/lab_02",
    "_generated/labs/01_membership", "_generated/labs/05_april_closed_form", "_generated/api/privlab.attacks.gradient_inversion",
    "references", "own_results", "reference", "claims/lu2022", "claims/privlab",
)  # fmt: skip
RULES = (
    "color-contrast", "image-alt", "svg-img-alt", "label", "select-name", "button-name", "link-name", "document-title", "html-has-lang",
    "definition-list", "aria-roles", "aria-required-children", "aria-allowed-attr", "aria-input-field-name",
)  # fmt: skip
pytestmark = pytest.mark.check

# Whatever sticks out of the window and is neither cut off nor scrolled by something around it.
BEYOND = """
const held = e => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' || held(e.parentElement));
const beyond = e => e.getBoundingClientRect().right > innerWidth + 1 && !held(e);
return [...document.querySelectorAll('main *')].filter(beyond).map(e => e.outerHTML.slice(0, 200));
"""
# What a reader sees of an explorer: the setting that the frame on show belongs to, its pictures and words; and where the controls stand.
SHOWN = """
const seen = [...arguments[0].querySelectorAll('[data-frame]')].filter(e => e.offsetParent);
return seen.map(e => [e.dataset.frame, [...e.querySelectorAll('img')].map(i => i.alt + i.src).join(' ') + e.innerText]);
"""
SETTING = """
const controls = [...arguments[0].querySelectorAll('[data-control]')];
return controls.map(e => e.type === 'checkbox' ? Number(e.checked) : e.value).join('-');
"""
LATER = "return document.querySelectorAll('.privlab-later').length"
CLAIMS = "return [...document.querySelectorAll('.privlab-group li')].filter(e => e.checkVisibility()).length"


def open_page(reader, page):
    """A page of the book, once its formulas and controls stand."""
    reader.driver.get(page.as_uri())
    reader.until(lambda: reader.js("return document.readyState") == "complete", 30)
    reader.driver.execute_async_script("Promise.resolve(window.MathJax?.startup?.promise).then(() => arguments[0]())")


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_on_a_desk_and_on_a_telephone(built_book, reader, width):
    pages = [path for path in sorted(built_book.rglob("*.html")) if "_static" not in path.parts]
    assert len(pages) > 35
    reader.resize(width)
    for page in pages:
        open_page(reader, page)
        assert reader.js("return document.documentElement.scrollWidth") <= width, (page.name, reader.js(BEYOND))
        assert reader.js(BEYOND) == [], page.name
        assert reader.complaints() == reader.requests_outside() == [], page.name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_and_everything_has_a_name(built_book, reader, theme):
    for name in LOOKED_AT:
        open_page(reader, built_book / f"{name}.html")
        reader.js("document.documentElement.dataset.theme = arguments[0]", theme)
        # What a fold hides lies, for axe, on the page's ground and not on its own; and a fold that opens fades in
        reader.js("for (const fold of document.querySelectorAll('details')) fold.open = true")
        reader.js("for (const fading of document.getAnimations()) fading.finish()")
        assert reader.barriers(*RULES, within="main") == [], name


@pytest.mark.parametrize("lab", LABS)
def test_each_prediction_hides_what_follows_until_it_is_made(built_book, reader, lab):
    open_page(reader, built_book / f"_generated/labs/{lab}.html")
    before, forms = reader.js(LATER), reader.driver.find_elements("css selector", "form.privlab-prediction")
    assert before and forms
    cells = [form.find_element("xpath", "ancestor::div[contains(@class, 'cell_output')]") for form in forms]
    for form, cell, behind in zip(forms, cells, [*cells[1:], None], strict=True):
        field = form.find_element("css selector", "input")
        reader.js("arguments[0].focus()", field)
        for key in field.get_attribute("min") if field.get_attribute("type") == "number" else Keys.SPACE:
            reader.press(key)
        assert reader.js(LATER) == before  # who moves among the options has not guessed yet
        reader.press(Keys.ENTER)
        after = reader.js(LATER)
        assert after == before if cell == behind else after < before  # of several the last opens what follows
        before = after
    told = [e.text for e in reader.driver.find_elements("css selector", ".privlab-answer")]
    assert after == 0 and len(told) == len(forms) and all(text.startswith("You said ") for text in told)
    open_page(reader, built_book / f"_generated/labs/{lab}.html")
    assert reader.js(LATER) == 0  # opened again, the guesses are still there


def explorers(reader, page):
    open_page(reader, page)
    reader.js("for (const e of document.querySelectorAll('.privlab-prediction [type=button]')) e.click()")  # Show it
    return reader.driver.find_elements("css selector", "figure.privlab-flipbook")


def moved(figure):
    """The controls that can be moved."""
    return figure.find_elements("css selector", "[data-control]:not([type=hidden])")


def see(reader, figure):
    """The present setting and what is seen at it, after a look that it is the frame of this setting and the only one."""
    ((setting, look),) = reader.js(SHOWN, figure)
    assert setting == reader.js(SETTING, figure)
    return setting, look


@pytest.mark.parametrize(("name", "width"), [*((name, 1280) for name in LABS), *((name, 390) for name in EXPLORED)])
def test_each_explorer_turns_by_keyboard(built_book, reader, name, width):
    reader.resize(width)
    figures = explorers(reader, built_book / f"_generated/labs/{name}.html")
    assert figures or name not in EXPLORED
    for figure in figures:
        looks = {see(reader, figure)[1]}
        for n in range(len(moved(figure))):
            control = moved(figure)[n]
            kind, settings = control.get_attribute("type"), set()
            key = {"checkbox": Keys.SPACE, "select-one": Keys.ARROW_DOWN}.get(kind, Keys.ARROW_RIGHT)
            reader.js("arguments[0].focus()", control)
            if kind in ("range", "select-one"):
                reader.press(Keys.HOME)
            for _ in range(1 + int(control.get_attribute("max") or 4)):
                setting, look = see(reader, figure)
                settings, looks = settings | {setting}, looks | {look}
                reader.press(key)
            assert len(settings) > int(control.get_attribute("max") or 1), "a position that the keys do not reach"
        assert len(looks) > 1, "the picture never changed"
    assert reader.complaints() == []


@pytest.mark.parametrize("name", EXPLORED)
def test_without_scripts_nothing_is_hidden_and_the_frame_at_rest_is_there(built_book, reader, name):
    page = built_book / f"_generated/labs/{name}.html"
    resting = [see(reader, figure) for figure in explorers(reader, page)]
    reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    reader.driver.get(page.as_uri())
    assert reader.js(LATER) == 0
    figures = reader.driver.find_elements("css selector", "figure.privlab-flipbook")
    for figure, shown in zip(figures, resting, strict=True):
        assert see(reader, figure) == shown
        assert not any(control.is_displayed() for control in moved(figure)), "a control that changes nothing"


def test_the_ledger_is_short_and_filtered_by_keyboard(built_book, reader):
    reader.resize(1280, 800)
    open_page(reader, built_book / "_generated/ledger.html")
    assert reader.js("return document.documentElement.scrollHeight") < 3 * 800 and reader.js(CLAIMS) == 0
    for menu, keys in (("verdict", "not r"), ("lab", "05")):
        reader.js(f"document.querySelector('select[name={menu}]').focus()")
        for key in keys:
            reader.press(key)
    left = sum(j.verdict == "not reproduced" and j.claim.lab == "05" for j in ledger.judgements())
    assert reader.js(CLAIMS) == left > 0
    assert reader.js("return document.querySelector('.privlab-filter output').textContent") == f"{left} claims"
    reader.find("//button[.='Show all']").click()
    groups = "return [...document.querySelectorAll('.privlab-group')].filter(e => e.checkVisibility()).length"
    reader.until(lambda: reader.js(groups) == len({j.claim.paper for j in ledger.judgements()}), 5)


def test_a_reader_without_a_mouse_gets_from_the_door_into_a_lab(built_book, reader):
    open_page(reader, built_book / "index.html")
    reader.press(Keys.TAB)
    assert "Skip to main content" in reader.js("return document.activeElement.textContent")
    reader.press(Keys.ENTER)
    for _ in range(120):
        reader.press(Keys.TAB)
        where = reader.js("return document.activeElement.getAttribute('href') || ''")
        if where.endswith("labs/00_start_here.html"):
            break
    assert where.endswith("labs/00_start_here.html")
    ring = "const look = getComputedStyle(document.activeElement); return [look.outlineStyle, look.boxShadow]"
    assert reader.js(ring) != ["none", "none"]  # the eye can follow the focus
    reader.press(Keys.ENTER)
    reader.until(lambda: "What does a gradient carry" in reader.driver.title, 30)
