"""The game played to its end in a real browser: JupyterLab on the loopback address, headless Chromium, clicks and keys."""

import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import nbformat
import psutil
import pytest
import requests

from privlab import preference, study

MISSING = [
    *(program for program in ("chromium", "chromedriver") if not shutil.which(program)),
    *(package for package in ("selenium", "jupyterlab") if not importlib.util.find_spec(package)),
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"this machine has no {' and no '.join(MISSING)}")

CODE = """\
import torch
from privlab import game
from privlab.study import Pair, Study

pictures = torch.rand(3, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
of = Study([Pair(*three, f"person {i}") for i, three in enumerate(pictures)], seconds=30)
game.play(of, "answers")
"""


@contextmanager
def jupyterlab(place):
    """A server whose every file is in `place`, with a token; the address of its page for a notebook of one cell."""
    (place / "root").mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, place / "root" / "game.ipynb")
    quiet = place / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # it would ask about news, and fetch them
    own = {f"JUPYTER_{name}_DIR": str(place / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{name}_DIR": str(place / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    own |= {"IPYTHONDIR": str(place / "ipython"), "HOME": str(place)}
    token = secrets.token_hex(16)  # through the environment: other users can read a program's arguments
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    with open(place / "server.log", "wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={place / 'root'}"],
            env=os.environ | own | {"JUPYTER_TOKEN": token},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=place,
        )
    try:
        url = address(server, place)
        assert requests.get(f"{url}api/contents", timeout=5).status_code == 403  # without the token
        yield f"{url}lab/tree/game.ipynb?token={token}"
    finally:
        stop(server)


def log(place):
    return (place / "server.log").read_text(errors="replace")[-3000:]


def address(server, place):
    """Where the server listens, once it answers there; it says so in its runtime folder."""
    for _ in range(600):
        assert server.poll() is None, log(place)
        for file in (place / "runtime").glob("jpserver-*.json"):
            try:
                found = json.loads(file.read_text())
                assert found["hostname"] == "127.0.0.1"
                if requests.get(f"{found['url']}login", timeout=5).ok:
                    return found["url"]
            except (ValueError, requests.RequestException):
                pass  # half written, or not listening yet
        time.sleep(0.1)
    raise AssertionError(log(place))


def stop(server):
    """End the server, which ends its kernels; and whatever of them is left."""
    children = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    server.terminate()
    try:
        server.wait(20)
    finally:
        _, left = psutil.wait_procs(children, 5)
        for process in [*left, server]:
            process.kill()
        server.wait()


@contextmanager
def browser(place):
    """Headless Chromium with a profile of its own, which reaches nothing but 127.0.0.1."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in (
        "headless=new",
        "no-sandbox",  # where the tests run as root, as in a container, Chromium starts no other way
        "disable-dev-shm-usage",
        "disable-gpu",
        "disable-background-networking",
        "disable-component-update",
        "no-first-run",
        "no-proxy-server",
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "window-size=1280,1000",
        f"user-data-dir={place / 'chromium'}",
    ):
        options.add_argument(f"--{option}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def reader(place):
    """A page in which all cells have been run, and what a reader does there: see, find a button, press a key, wait."""
    from selenium.common import TimeoutException
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with jupyterlab(place) as url, browser(place) as driver:

        def until(what, seconds=90):
            try:
                return WebDriverWait(driver, seconds, 0.1).until(lambda _: what())
            except TimeoutException:
                raise AssertionError(
                    f"not within {seconds} s. The page:\n{text()}\nThe server:\n{log(place)}"
                ) from None

        def text():
            return driver.find_element(By.TAG_NAME, "body").text

        def find(path):
            return next((e for e in driver.find_elements(By.XPATH, path) if e.is_displayed()), None)

        def button(name):
            return find(f"//button[normalize-space()='{name}']")

        def press(key, held=None):
            keys = ActionChains(driver)  # they go to whatever has the focus
            (keys.key_down(held).send_keys(key).key_up(held) if held else keys.send_keys(key)).perform()

        driver.get(url)
        until(lambda: "| Idle" in text())
        for label, name in (("MenuBar", "Run"), ("Menu", "Run All Cells")):
            item = f"//div[contains(@class, 'lm-{label}-itemLabel') and normalize-space()='{name}']"
            until(lambda item=item: find(item)).click()
        until(lambda: button("Start"))
        yield SimpleNamespace(driver=driver, until=until, text=text, button=button, press=press)


def test_a_game_from_its_start_to_its_summary(tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    answers = tmp_path / "root" / "answers"
    with reader(tmp_path) as page:
        assert "3 pairs of pictures, 30 seconds for each" in page.text() and not page.button("left")
        assert not answers.exists()
        page.button("Start").click()
        for number, side in enumerate(("left", "right"), 1):
            page.until(lambda n=number: f"Pair {n} of 3." in page.text())
            alts = [i.get_attribute("alt") for i in page.driver.find_elements(By.CSS_SELECTOR, ".jp-OutputArea img")]
            where = f"pair {number} of 3"
            assert alts[1:] == [f"The {side} reconstruction, {where}." for side in ("left", "right")]
            page.until(lambda: "28 s left" in page.text(), 15)  # the clock runs
            assert page.text().count("full") == page.text().count("skip_4") == 0
            page.button(side).click()
        page.until(lambda: "Pair 3 of 3." in page.text())
        time.sleep(0.5)  # what comes at once is taken for a double click
        assert page.driver.switch_to.active_element.text == "right"  # the focus has stayed on what was clicked
        page.press(Keys.TAB, held=Keys.SHIFT)
        assert page.driver.switch_to.active_element.text == "left"
        page.press(Keys.ENTER)
        page.until(lambda: "What this can show" in page.text())

        (path,) = answers.iterdir()
        played = study.read(path)
        right = {"full": "skip_4", "skip_4": "full"}
        expected = [
            a.left if side == "left" else right[a.left]
            for a, side in zip(played.answers, ("left", "right", "left"), strict=True)
        ]
        assert [a.choice for a in played.answers] == expected and all(1.5 < a.seconds < 30 for a in played.answers[:2])
        found = preference.summary(answers)
        assert found.sentence.replace("`", "") in page.text() and "69.51%" in page.text() and page.button("New game")
        assert not page.button("left") and not page.button("Start")
        assert [e for e in page.driver.get_log("browser") if e["level"] == "SEVERE"] == []
    assert not psutil.Process().children(recursive=True)  # neither server nor kernel nor browser
