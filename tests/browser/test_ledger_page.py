"""The ledger's page in a browser: short until it is opened, and filtered by mouse and keyboard; whole where there are no scripts."""

import pytest

from privlab import ledger

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
pytestmark = pytest.mark.check
COUNT = "return [...document.querySelectorAll('.privlab-group li')].filter(e => e.checkVisibility()).length"


@pytest.fixture
def page(built_book):
    return built_book / "_generated/ledger.html"


def test_it_is_below_three_screens_until_something_is_opened(page, reader):
    reader.resize(1280, 800)
    reader.driver.get(page.as_uri())
    assert reader.js("return document.documentElement.scrollHeight") < 3 * 800
    assert reader.js(COUNT) == 0 and reader.complaints() == []
    reader.find("//summary[contains(., 'Lu et al.')]").click()
    assert reader.js(COUNT) == sum(j.claim.paper == "lu2022" for j in ledger.judgements())
    reader.resize(390)
    assert reader.js("return document.documentElement.scrollWidth") <= 390
    rules = ("color-contrast", "label", "select-name", "button-name", "link-name", "svg-img-alt")
    reader.js("document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important }</style>')")
    for theme in ("light", "dark"):
        reader.js("document.documentElement.dataset.theme = arguments[0]", theme)
        assert reader.barriers(*rules, within="article") == []


def test_filters_by_keyboard_leave_what_they_name(page, reader):
    reader.driver.get(page.as_uri())
    judged = ledger.judgements()
    reader.js("document.querySelector('select[name=verdict]').focus()")
    for key in "not r":
        reader.press(key)
    refuted = [j for j in judged if j.verdict == "not reproduced"]
    assert reader.js(COUNT) == len(refuted) > 0
    reader.js("document.querySelector('select[name=lab]').focus()")
    for key in "05":
        reader.press(key)
    left = [j for j in refuted if j.claim.lab == "05"]
    assert reader.js(COUNT) == len(left) > 0
    assert reader.js("return document.querySelector('.privlab-filter output').textContent") == f"{len(left)} claims"
    groups = "return [...document.querySelectorAll('.privlab-group')].filter(e => e.checkVisibility()).length"
    assert reader.js(groups) == len({j.claim.paper for j in left})
    reader.find("//button[.='Show all']").click()
    reader.until(lambda: reader.js(groups) == len({j.claim.paper for j in judged}), 5)


def test_without_scripts_every_claim_can_be_opened(page, reader):
    reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    reader.driver.get(page.as_uri())
    for summary in reader.driver.find_elements("css selector", ".privlab-group summary"):
        summary.click()
    claims = reader.driver.find_elements("css selector", ".privlab-group li")
    assert len(claims) == len(ledger.judgements()) and claims[0].is_displayed() and claims[-1].is_displayed()
    assert not reader.driver.find_element("css selector", ".privlab-filter").is_displayed()
