"""The front door says what is so: costs, commands, pictures, verdicts, links; so do the citation and the changelog."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from PIL import Image, PngImagePlugin

from privlab import __version__, experiments
from privlab.ledger import judging
from privlab.runner import catalogue, launch_buttons

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TEACHING = (ROOT / "book/teaching.md").read_text(encoding="utf-8")
LABS = catalogue.labs(ROOT / "labs")
PICTURES = [
    {name: html.unescape(text) for name, text in re.findall(r'(\w+)="([^"]*)"', tag)}
    for tag in re.findall(r"<img [^>]+>", README)
]


def cost(lab, profile):
    return f"{lab.costs[profile].minutes:g} min, {lab.costs[profile].gb:.1f} GB"


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_table_has_each_lab_with_the_costs_of_its_own_head(lab):
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {lab.number} |")]
    assert row.endswith(f"| {cost(lab, 'smoke')} | {cost(lab, 'class')} |")
    assert f"](labs/{lab.name}.ipynb)" in row
    teach = next(line for line in TEACHING.splitlines() if line.startswith(f"| {lab.number} "))
    smoke, class_ = lab.costs["smoke"], lab.costs["class"]
    assert teach.endswith(f"| {smoke.minutes:g}, {class_.minutes:g} | {smoke.gb:g}, {class_.gb:g} |")


def test_a_newcomer_reads_it_in_a_few_minutes():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"\]\([^)]*\)|^(\||<img).*$", "", prose, flags=re.MULTILINE)
    assert len(prose.split()) < 700, "beside tables, pictures and code"
    first = README.index("```")
    assert len(re.sub(r"<img[^>]+>", "", README[:first]).split()) < 200, "the two commands come soon"
    assert README[first:].split("\n")[1].startswith("make run") and README[first:].split("\n")[2].startswith(
        "make test"
    )


def test_three_pictures_are_small_described_and_from_a_lab_at_class():
    assert len(PICTURES) == 3
    for shown in PICTURES:
        path = ROOT / shown["src"]
        assert path.stat().st_size < 150_000
        with Image.open(path) as picture:
            assert isinstance(picture, PngImagePlugin.PngImageFile)
            picture.load()
            assert picture.text["Description"] == shown["alt"]
            name, _, profile = picture.text["Source"].removeprefix("lab ").partition(" at ")
        assert (ROOT / f"labs/{name}.py").exists() and profile == "class"


def test_the_guide_works_a_claim_through_with_its_numbers():
    guide = " ".join((ROOT / "book/ledger_guide.md").read_text().split())
    judged = {j.claim.id.rpartition(".")[2]: j for j in judging.judgements("14")}
    paired, apart = judged["shared_photographs_decide"].ours
    assert f"pair by pair in about {paired.centre:.2f} of the cases, apart in {apart.centre:.2f}" in guide
    assert judged["shared_photographs_decide"].verdict == "reproduced"
    nothing = experiments.load("the_ledger.decisions")["decided_share[repeats_3, gap_0]"]
    assert f"Measured: {nothing.mean():.2g} ± {nothing.std(ddof=1):.2g}." in guide


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 15
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_example_runs_and_finds_the_photo():
    (program,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *_, decibels = re.findall(r"\d+\.\d+", done.stdout)  # before it stand those of the download, if there was one
    assert float(decibels) > 60


def test_the_buttons_stand_where_the_repository_has_an_address():
    place = launch_buttons.repository(ROOT)
    if place is None:
        assert "mybinder.org" not in README and "once the repository has an address" in README
    else:
        line = launch_buttons.badges(place, "labs/00_start_here.ipynb")
        assert line in README, f"put this into the table under 'Where to run it': {line}"


def test_the_citation_is_that_of_the_package_and_of_the_four_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == __version__ and cited["license"] == project["license"]
    bibliography = (ROOT / "book/references.bib").read_text()
    wanted = {"zhang2024", "koh2024", "lu2022", "hatamizadeh2022"}
    for key in wanted:
        entry = re.search(rf"@\w+{{{key},\n(.*?)\n}}", bibliography, re.DOTALL)[1]
        field = dict(re.findall(r"(\w+)\s*= {(.*)}", entry))
        title = re.sub("[{}]", "", field["title"])
        (paper,) = [p for p in cited["references"] if p["title"] == title]
        names = " and ".join(f"{a['family-names']}, {a['given-names']}" for a in paper["authors"])
        assert (names, str(paper["year"]), paper["conference"]["name"]) == (
            field["author"],
            field["year"],
            field["booktitle"],
        )
    assert len(cited["references"]) == len(wanted)


def test_the_changelog_has_this_version():
    assert f"\n## {__version__}\n" in (ROOT / "book/changelog.md").read_text()


def test_the_book_has_the_pages_that_came_out_of_the_readme():
    index = (ROOT / "book/index.md").read_text()
    assert "\nfindings\n" in index and "\nchangelog\n" in index
