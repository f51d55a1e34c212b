"""JupyterLab on the loopback address and headless Chromium, for tests that see, click and type what a reader does."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib import resources

import psutil
import pytest
import requests

NAMES = ("chromium", "google-chrome", "chromium-browser")  # Debian's, and those of other systems
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(autouse=True, scope="session")
def browser():
    """Nothing here runs without one."""
    for package in ("selenium", "jupyterlab", "axe_core_python"):
        pytest.importorskip(package)
    if not BROWSER or not shutil.which("chromedriver"):
        pytest.skip("this machine has no Chromium, or no chromedriver")


@contextmanager
def served(place, notebook, **environment):
    """JupyterLab, whose every file is in `place`, with a token; the address of its page for a notebook in place/root."""
    quiet = place / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # it would ask about news, and fetch them
    own = {f"JUPYTER_{name}_DIR": str(place / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{name}_DIR": str(place / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    own |= {"IPYTHONDIR": str(place / "ipython"), "HOME": str(place)}
    token = secrets.token_hex(16)  # through the environment: other users can read a program's arguments
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={place / 'root'}"]
    everything = os.environ | own | environment | {"JUPYTER_TOKEN": token}
    with open(place / "server.log", "wb") as output:
        server = subprocess.Popen(command, env=everything, stdout=output, stderr=subprocess.STDOUT, cwd=place)
    try:
        yield f"{address(server, place)}lab/tree/{notebook}?token={token}"
    finally:
        family = [*psutil.Process(server.pid).children(recursive=True), psutil.Process(server.pid)]
        server.terminate()  # which ends its kernels
        for process in psutil.wait_procs(family, 20)[1]:
            process.kill()
        server.wait()


def address(server, place):
    """Where the server listens, once it answers there; it says so in its runtime folder."""
    for _ in range(600):
        for file in (place / "runtime").glob("jpserver-*.json") if server.poll() is None else ():
            with suppress(ValueError, requests.RequestException):  # half written, or not listening yet
                url = json.loads(file.read_text())["url"]
                if requests.get(f"{url}login", timeout=5).ok:
                    return url
        time.sleep(0.1)
    raise AssertionError((place / "server.log").read_text(errors="replace")[-3000:])


@contextmanager
def chromium(place):
    """Headless Chromium with a profile of its own, which reaches nothing but 127.0.0.1."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    names = "headless=new disable-dev-shm-usage disable-gpu disable-background-networking disable-component-update no-first-run"
    own = [f"user-data-dir={place / 'chromium'}", "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    sandbox = "no-sandbox"  # where the tests run as root, as in a container, Chromium starts no other way
    for option in (*names.split(), *own, sandbox, "no-proxy-server", "window-size=1280,1000"):
        options.add_argument(f"--{option}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        focus = {"enabled": True}  # a window on nobody's screen has none
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", focus)
        yield Reader(driver)
    finally:
        driver.quit()


class Reader:
    """What a reader does on a page: see, wait, find a button, press a key."""

    def __init__(self, driver):
        self.driver = driver

    def until(self, what, seconds=90):
        from selenium.common import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            return WebDriverWait(self.driver, seconds, 0.1).until(lambda _: what())
        except TimeoutException:
            raise AssertionError(f"not within {seconds} s. The page:\n{self.text()}") from None

    def text(self):
        return self.js("return document.body.innerText")

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def alts(self, selector="img"):
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute('alt'))", selector)

    def find(self, path):
        return next((e for e in self.driver.find_elements("xpath", path) if e.is_displayed()), None)

    def button(self, name):
        return self.find(f"//button[normalize-space()='{name}']")

    def press(self, key, held=None):
        from selenium.webdriver import ActionChains

        keys = ActionChains(self.driver)  # they go to whatever has the focus
        (keys.key_down(held).send_keys(key).key_up(held) if held else keys.send_keys(key)).perform()

    def resize(self, width, height=900):
        """As a phone of that width would see it: a window does not get as narrow."""
        view = dict(width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)

    def complaints(self):
        """What the page wrote to the console as an error since the last look."""
        return [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests_outside(self):
        """What a page asked of any network beyond 127.0.0.1 since the last look."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [u for u in asked if re.match("(https?|wss?|ftp):", u) and not u.startswith("http://127.0.0.1:")]

    def barriers(self, *rules, within="body"):
        """What axe-core finds against these rules: (rule, element, why)."""
        self.js((resources.files("axe_core_python") / "axe.min.js").read_text())
        run = "const [where, rules, done] = arguments; axe.run(where, {runOnly: rules, resultTypes: ['violations']}).then(done)"
        found = self.driver.execute_async_script(run, within, list(rules))
        return [
            (rule["id"], n["html"][:300], n["failureSummary"]) for rule in found["violations"] for n in rule["nodes"]
        ]


@pytest.fixture
def jupyter(tmp_path):
    """A notebook of place/root opened in JupyterLab, as soon as its kernel is idle: jupyter("game.ipynb", NAME=VALUE).

    Afterwards neither server nor kernel nor browser is left of it. Workers that earlier tests of this process still hold ready are theirs.
    """
    before = psutil.Process().children(recursive=True)

    @contextmanager
    def opened(notebook, **environment):
        with served(tmp_path, notebook, **environment) as url, chromium(tmp_path) as page:
            page.driver.get(url)
            page.until(lambda: "| Idle" in page.text())
            yield page
        assert not {*psutil.Process().children(recursive=True)}.difference(before)

    (tmp_path / "root").mkdir()
    return opened


@pytest.fixture
def reader(tmp_path):
    """A browser without a network."""
    with chromium(tmp_path) as page:
        yield page
