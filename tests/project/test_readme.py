"""The front door and the guides say what is so: tables, commands, links, pictures, numbers, versions."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from PIL import Image

from privlab import __version__, experiments
from privlab.__main__ import COMMANDS
from privlab.ledger import judging

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
GUIDES = ["README.md", ".github/CONTRIBUTING.md", *(f"book/{path.name}" for path in (ROOT / "book").glob("*.md"))]
WORKFLOWS = [f".github/workflows/{path.name}" for path in (ROOT / ".github/workflows").glob("*.yml")]


@pytest.mark.parametrize("page", [page for page in [*GUIDES, *WORKFLOWS, "Makefile"] if page != "book/changelog.md"])
def test_every_command_that_is_named_is_there(page):
    text, makefile = (ROOT / page).read_text(), (ROOT / "Makefile").read_text()
    if page.endswith(".md"):
        text = "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", text, re.MULTILINE | re.DOTALL))
    for target in re.findall(r"""^[ \t`]*(?:run: |@echo ")?make ([a-z]+)\b""", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for command, words in re.findall(r"-m privlab ([a-z]+\b)([^`\n|)]*)", text):
        options = {*re.findall(r"(?<!\S)--?[a-z][a-z-]*", words.split(" #")[0])}
        assert options <= {*COMMANDS.choices[command]._option_string_actions}, words


@pytest.mark.parametrize("page", GUIDES[:2])
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\((?!https://)([^)]+)\)", (ROOT / page).read_text())
    assert links and not [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]


def test_every_picture_is_there_is_small_and_says_what_its_file_says():
    shown = re.findall(r'<img src="([^"]+)" alt="([^"]+)"', README)
    assert len(shown) == README.count("<img ")
    for src, alt in shown:
        with Image.open(ROOT / src) as picture:
            assert picture.text["Description"] == html.unescape(alt) and (ROOT / src).stat().st_size < 150_000
    (bar,) = re.findall(r"About (\d+) dB is what a baseline", README)
    assert experiments.load("defences.one_update").mean("psnr[guess]") == pytest.approx(int(bar), abs=0.5)


def test_the_example_runs_and_finds_the_photo():
    (program,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *_, decibels = re.findall(r"\d+\.\d+", done.stdout)  # before it stand those of the download, if there was one
    assert float(decibels) > 60


def test_the_guide_works_a_claim_through_with_its_numbers():
    guide = " ".join((ROOT / "book/ledger_guide.md").read_text().split())
    judged = {j.claim.id.rpartition(".")[2]: j for j in judging.judgements("14")}
    paired, apart = judged["shared_photographs_decide"].ours
    assert f"pair by pair in about {paired.centre:.2f} of the cases, apart in {apart.centre:.2f}" in guide
    assert judged["shared_photographs_decide"].verdict == "reproduced"
    nothing = experiments.load("the_ledger.decisions")["decided_share[repeats_3, gap_0]"]
    assert f"Measured: {nothing.mean():.2g} ± {nothing.std(ddof=1):.2g}." in guide


def test_citation_package_and_changelog_have_one_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == __version__ and cited["license"] == project["license"]
    assert f"\n## {__version__}\n" in (ROOT / "book/changelog.md").read_text()
