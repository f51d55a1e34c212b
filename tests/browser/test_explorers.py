"""Explorers of the built book in Chromium, from its files: moved by mouse and by keyboard, and what is there without scripts."""

from pathlib import Path

import pytest

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
By = pytest.importorskip("selenium.webdriver.common.by").By
LABS = ("01_membership", "05_april_closed_form")
ALL = sorted(path.stem for path in (Path(__file__).parents[2] / "labs").glob("[0-9]*.py"))
pytestmark = pytest.mark.check

# What a reader sees of a flipbook: the settings that the frame on show belongs to, its pictures and words.
SHOWN = """
const seen = [...arguments[0].querySelectorAll('[data-frame]')].filter(e => e.offsetParent);
return seen.map(e => [e.dataset.frame.split(' '), [...e.querySelectorAll('img')].map(i => i.alt + i.src).join(' ') + e.innerText]);
"""
SETTING = """
return [...arguments[0].querySelectorAll('[data-control]')].filter(e => e.type !== 'radio' || e.checked)
  .map(e => e.type === 'checkbox' ? Number(e.checked) : e.value).join('-');
"""
LOADED = "return [...arguments[0].querySelectorAll('img')].every(e => e.complete && e.naturalWidth > 0)"


def explorers(reader, page):
    reader.driver.get(page.as_uri())
    reader.until(lambda: reader.js("return document.readyState") == "complete", 30)
    reader.show_what_is_hidden()
    return reader.driver.find_elements(By.CSS_SELECTOR, "figure.privlab-flipbook")


def moved(element):
    """The controls that can be moved: one element each, of radio buttons the one that is chosen."""
    found = element.find_elements(By.CSS_SELECTOR, "[data-control]:not([type=hidden])")
    return [one for one in found if one.get_attribute("type") != "radio" or one.is_selected()]


def see(reader, figure):
    """The present setting and what is seen at it, after a look that it is the frame of this setting and the only one."""
    (frame,) = reader.js(SHOWN, figure)
    settings, look = frame
    setting = reader.js(SETTING, figure)
    assert setting in settings
    return setting, look


@pytest.mark.parametrize("name, width", [*((name, 1280) for name in ALL), *((name, 390) for name in LABS)])
def test_each_explorer_turns_by_keyboard(built_book, reader, name, width):
    reader.resize(width)
    figures = explorers(reader, built_book / f"_generated/labs/{name}.html")
    assert figures or name not in LABS
    for figure in figures:
        assert reader.js(LOADED, figure), "a picture that cannot be read"
        looks = {see(reader, figure)[1]}
        for n in range(len(moved(figure))):
            control = moved(figure)[n]
            kind, settings = control.get_attribute("type"), set()
            key = {"checkbox": Keys.SPACE, "select-one": Keys.ARROW_DOWN}.get(kind, Keys.ARROW_RIGHT)
            reader.js("arguments[0].focus()", control)
            if kind in ("range", "select-one"):
                reader.press(Keys.HOME)
            for _ in range(1 + int(control.get_attribute("max") or 4)):  # radio buttons go round
                setting, look = see(reader, figure)
                settings, looks = settings | {setting}, looks | {look}
                reader.press(key)
            least = int(control.get_attribute("max") or 1) + 1
            assert len(settings) >= least, "a position that the keys do not reach"
        assert len(looks) > 1, "the picture never changed"
    assert reader.complaints() == []


@pytest.mark.parametrize("name", LABS)
def test_each_explorer_turns_by_mouse(built_book, reader, name):
    from selenium.webdriver import ActionChains

    for figure in explorers(reader, built_book / f"_generated/labs/{name}.html"):
        looks = {see(reader, figure)[1]}
        for control in moved(figure):
            before, kind = see(reader, figure)[0], control.get_attribute("type")
            reader.js("arguments[0].scrollIntoView({block: 'center'})", control)
            if kind == "range":
                at, last = (int(control.get_attribute(key)) for key in ("value", "max"))
                edge = (control.size["width"] // 2 - 4) * (-1 if at == last else 1)
                ActionChains(reader.driver).move_to_element_with_offset(control, edge, 0).click().perform()
                assert control.get_attribute("aria-valuetext") in figure.text
            elif kind == "radio":
                group = f"[type=radio][name='{control.get_attribute('name')}']:not(:checked)"
                figure.find_element(By.CSS_SELECTOR, group).click()
            elif kind == "checkbox":
                control.click()
            else:
                next(o for o in control.find_elements(By.TAG_NAME, "option") if not o.is_selected()).click()
            setting, look = see(reader, figure)
            looks.add(look)
            assert setting != before, control.get_attribute("outerHTML")[:200]
        assert len(looks) > 1, "the picture never changed"


@pytest.mark.parametrize("name", LABS)
def test_without_scripts_the_frame_at_rest_is_there_and_where_the_controls_stood(built_book, reader, name):
    page = built_book / f"_generated/labs/{name}.html"
    resting = [see(reader, figure) for figure in explorers(reader, page)]
    reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    figures = explorers(reader, page)
    assert figures
    for figure, shown in zip(figures, resting, strict=True):
        assert see(reader, figure) == shown
        assert not any(control.is_displayed() for control in moved(figure)), "a control that changes nothing"
        assert ": " in figure.find_element(By.CSS_SELECTOR, "noscript p").text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_controls_have_names_and_words_stand_out(built_book, reader, theme):
    for name in LABS:
        explorers(reader, built_book / f"_generated/labs/{name}.html")
        reader.js("document.documentElement.dataset.theme = arguments[0]", theme)
        rules = ("color-contrast", "label", "select-name", "image-alt", "aria-allowed-attr", "aria-input-field-name")
        assert reader.barriers(*rules, within=".privlab-flipbook") == [], name
