"""The built book: it needs no network, no link of it is dead, every claim has its place, and the reference has every name at a door."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import re
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import benchmarks
import conf
import docstrings
import numpy as np
import pages
import pytest
import templates
import vendor
from colours import contrast
from PIL import Image

import privlab
from privlab import experiments, ledger
from privlab.experiments import pictures
from privlab.ledger import papers
from privlab.runner import catalogue, launch_buttons

ROOT = Path(__file__).parents[2]
LOADS = dict(script="src", img="src", iframe="src", source="src", video="src", embed="src", object="data")
INERT = {"canonical", "next", "prev", "author", "index", "search", "license"}  # a <link> that loads nothing
OUTSIDE = re.compile(r"(?i)^\s*['\"]?(\w+:)?//")


class Page(HTMLParser):
    """What a page loads, where its links lead, and where they can lead on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.loads, self.links, self.images, self.lang, self.title = path, [], [], [], "", ""
        self.ids: set[str] = set()
        self.script = self._in = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        has = {name: value or "" for name, value in attrs}
        self._in = "script" if tag == "script" and has.get("type", "text/javascript") == "text/javascript" else tag
        if tag in LOADS and has.get(LOADS[tag]):
            self.loads.append(has[LOADS[tag]])
        if tag == "link" and not set(has.get("rel", "").split()) <= INERT:
            self.loads.append(has["href"])
        self.loads += re.findall(r"url\(([^)]+)\)", has.get("style", ""))
        self.loads += [part.split()[0] for part in has.get("srcset", "").split(",") if part.strip()]
        self.links += [has["href"]] if tag == "a" and "href" in has else []
        self.images += [has] if tag == "img" else []
        self.ids |= {has[name] for name in ("id", "name") if name in has}
        self.lang = has.get("lang", "") if tag == "html" else self.lang

    def handle_data(self, data):
        if self._in == "script":
            self.script += data
        elif self._in == "style":
            self.loads += loads_of_css(data)
        elif self._in == "title":
            self.title += data

    def handle_endtag(self, tag):
        self._in = ""


def loads_of_css(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [u.strip("'\" ") for u in re.findall(r"url\(([^)]+)\)|@import\s+['\"]([^'\"]+)", text) for u in u if u]


@functools.cache
def every_page(folder: Path) -> dict[Path, Page]:
    found = [path.resolve() for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    assert len(found) > 60
    return {path: Page(path) for path in found}


def words(part: str) -> str:
    text = html.unescape(re.sub(r"<[^>]*>", "", part)).translate(str.maketrans("‘’“”", "''\"\""))
    return " ".join(text.split())


# -- without a network --------------------------------------------------------------------------------------------------


def test_no_page_and_no_style_loads_anything_from_outside(built_book):
    for page in every_page(built_book).values():
        assert not [load for load in page.loads if OUTSIDE.match(load)], page.path
        called = r"(?:require|import|fetch|importScripts)\s*\(\s*\[?\s*['\"`](?:\w+:)?//"
        assert not re.search(called, page.script), page.path
    for style in built_book.rglob("*.css"):
        assert not [load for load in loads_of_css(style.read_text(errors="replace")) if OUTSIDE.match(load)], style


def test_a_loader_from_outside_would_be_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<html><link rel="stylesheet" href="//a.example/x.css"><style>@import "https://b.example/y.css";</style>'
        '<img src="z.png" srcset="https://c.example/2x.png 2x"><div style="background:url(http://d.example/w.png)">'
    )
    assert len([load for load in Page(page).loads if OUTSIDE.match(load)]) == 4


def test_every_script_style_and_picture_that_a_page_names_lies_in_the_book(built_book):
    named, root = set(), built_book.resolve()
    for page in every_page(built_book).values():
        for load in page.loads:
            if not load.startswith(("data:", "#")):
                local = (page.path.parent / unquote(load.split("?")[0].split("#")[0])).resolve()
                assert local.is_file() and local.is_relative_to(root), (page.path, load)
                named.add(local.relative_to(root).as_posix())
    assert "_static/vendor/mathjax/tex-svg-full.js" in named


def test_no_link_is_dead(built_book):
    every, dead = every_page(built_book), []
    for page in every.values():
        for link in {*page.links}:
            place, _, anchor = link.partition("#")
            if not re.match(r"\w+:", link):
                to = (page.path.parent / unquote(place)).resolve() if place else page.path
                there = to in every and (not anchor or unquote(anchor) in every[to].ids)
                dead += [] if there or (to.is_file() and to not in every) else [(page.path.name, link)]
    assert not dead


def test_a_vendored_file_of_another_digest_is_not_used(tmp_path, monkeypatch):
    version, _, files = vendor.PACKAGES["reveal.js"]
    monkeypatch.setattr(vendor, "PACKAGES", {"reveal.js": (version, "0" * 64, files)})
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    with pytest.raises((ValueError, RuntimeError)):
        vendor.fetch(tmp_path / "vendor")
    assert not list(tmp_path.rglob("*.js"))


# -- for everyone -------------------------------------------------------------------------------------------------------


def test_every_picture_has_words_and_every_page_a_language_and_a_title_of_its_own(built_book):
    found = every_page(built_book).values()
    images = [(page.path.name, image) for page in found for image in page.images]
    assert len(images) > 20 and not [one for one in images if not one[1].get("alt", "").strip()]
    assert not [one for one in images if one[1]["src"].endswith(one[1]["alt"])]
    assert {page.lang for page in found} == {"en"}
    titles = [page.title for page in found]
    assert all(titles) and len(set(titles)) == len(titles)


@pytest.mark.parametrize(("picture", "said"), [('<img src="x.png">', 1), ('<img src="x.png" alt="A cat">', 0)])
def test_a_picture_without_words_is_told_which_stops_the_build(monkeypatch, picture, said):
    told = []
    monkeypatch.setattr(conf.log, "warning", lambda *words: told.append(words))
    conf.finish_page(None, "page", "page.html", {"body": picture}, None)
    assert len(told) == said


def test_our_own_colours_stand_out_from_the_page():
    for rule in (ROOT / "book/_static/book.css").read_text().splitlines():
        dark = 'data-theme="dark"' in rule or rule.lstrip().startswith("--jp-")
        ground = re.search(r"background: (#[0-9a-f]{3,6})\b", rule)
        page = ground[1] if ground else "#121212" if dark else "#ffffff"
        for colour in re.findall(r"(?:color|outline|border[\w-]*):[^;]*?(#[0-9a-f]{3,6})\b", rule):
            assert contrast(colour, page) >= 4.5, (colour, rule)


# -- labs ---------------------------------------------------------------------------------------------------------------


def test_a_lab_can_be_downloaded_its_solutions_and_bookkeeping_are_folded_and_its_claims_are_linked(built_book):
    for lab in catalogue.labs(ROOT / "labs"):
        page = Page(built_book / f"_generated/labs/{lab.name}.html")
        for suffix in (".ipynb", ".py"):
            (link,) = (link for link in page.links if link.endswith(f"/{lab.name}{suffix}"))
            assert (page.path.parent / link).read_bytes() == lab.path.with_suffix(suffix).read_bytes()
        assert not [link for link in page.links if "mybinder" in link or "colab" in link or "kaggle" in link]
        text = page.path.read_text()
        assert "lpips: trying" not in text and "injected-parameters" not in text
        folded = [fold for fold in re.findall(r"<summary[^>]*>(.*?)</summary>", text, re.DOTALL)]
        assert any("Show the code" in fold for fold in folded), lab.name
        assert ('# %% tags=["solution"]' in lab.path.read_text()) <= any("Show the solution" in f for f in folded)


def test_a_lab_has_its_buttons_where_the_repository_has_an_address_and_says_that_it_was_not_run(tmp_path):
    (lab, *_) = catalogue.labs(ROOT / "labs")
    place = launch_buttons.Repository("https://github.com/someone/a-fork")
    made = pages.page(lab, tmp_path, place)
    for address in ("mybinder.org/v2/gh/someone", "colab.research.google.com/github/someone", "kaggle.com/kernels"):
        assert address in made.cells[0].source
    assert "as it is before it runs" in made.cells[2].source


def test_a_panel_leads_to_the_claims_that_it_names():
    panel = ledger.show("05")._repr_html_()
    linked = pages._PAGE.sub(r"LINK \1", panel)
    assert linked.count("LINK claims/") == panel.count("<code>claims/") == len(papers.claims("05"))


@pytest.mark.parametrize(
    ("source", "folds"),
    [
        ('kept = experiments.load("a.b")\nplots.evidence(kept)', True),
        ('guess = widgets.choose("Which?", ["a", "b"])\nguess', True),
        ('guess.against("a")', True),
        ('text("{:.1f} dB", 3)', True),
        ("leak = observe(model, photo, label)\ndisplay(guess.against(3))", False),
        ("widgets.explore(desk, noise=(0, 1))", False),
    ],
)
def test_bookkeeping_is_folded_and_what_a_lab_is_about_is_not(source, folds):
    assert bool(pages._BOOKKEEPING.search(source)) == folds


def test_what_goes_deeper_is_a_page_below_its_lab_and_each_leads_to_the_other(built_book):
    for lab in catalogue.everything(ROOT / "labs"):
        if lab.goes_deeper:
            below = Page(built_book / f"_generated/labs/{lab.name}.html")
            (above,) = (built_book / "_generated/labs").glob(f"{lab.number}_*.html")
            assert f"../{above.name}" in below.links and f"{lab.name}.html" in Page(above).links


# -- the ledger ---------------------------------------------------------------------------------------------------------


@functools.cache
def sections(built_book: Path) -> dict[str, str]:
    """Each claim's part of its paper's page."""
    parts = {}
    for path in (built_book / "claims").glob("*.html"):
        for part in path.read_text().split('<section class="privlab-claim" id="')[1:]:
            parts[part.partition('"')[0]] = part.partition("</section>")[0]
    return parts


def test_the_page_of_each_paper_has_an_anchor_for_each_claim_with_the_ledgers_verdict(built_book):
    found, judged = sections(built_book), ledger.judgements()
    assert found.keys() == {j.claim.id for j in judged}
    for j in judged:
        part, name = found[j.claim.id], papers.page(j.claim.id)
        assert (built_book / name.partition("#")[0]).is_file() and name.endswith(f"#{j.claim.id}")
        icon, said = re.search(r'<span aria-hidden="true">(.)</span> <strong>(.*?)</strong>', part).groups()
        verdict = f"{j.verdict}, {j.scope}" if j.scope else j.verdict
        assert icon.strip() and f"{words(said)}, ".startswith(f"{verdict}, ")
        assert j.claim.statement in words(part) and j.claim.compare in html.unescape(part)
        for need in j.needs:
            assert f"{need.text} {need.state}" in words(part), j.claim.id


@pytest.mark.parametrize("name", ["koh2024.table5.ssf_small", "lu2022.table1.cifar10_april_over_dlg"])
def test_a_chart_has_a_dot_for_every_repeat_of_what_the_comparison_is_about(built_book, name):
    (j,) = (j for j in ledger.judgements() if j.claim.id == name)
    drawn = re.findall(r'<svg class="privlab-strip"[^>]*role="img".*?</svg>', sections(built_book)[name], re.DOTALL)
    assert drawn and {one.count("<circle") for one in drawn} == {j.ours[0].n}
    (experiment,) = j.claim.experiments
    kept = experiments.load(experiment, j.profile)
    for one in drawn:
        text = re.search(r'aria-label="([^:]*): ', one)[1]
        values = ledger.comparison.value(html.unescape(text), kept.table)
        dots = [float(dot.replace("−", "-").replace(",", "")) for dot in re.findall(r"<title>(.*?)</title>", one)]
        assert dots == pytest.approx(sorted(values), rel=0.005, abs=1e-9)


def test_the_ledger_has_every_claim_once_with_what_the_menus_ask_for(built_book):
    page = (built_book / "_generated/ledger.html").read_text()
    items = {re.search(r'html#([\w.]+)"', item)[1]: item for item in re.findall(r"<li data-.*?</li>", page, re.DOTALL)}
    judged = ledger.judgements()
    assert items.keys() == {j.claim.id for j in judged} and page.count("<li data-") == len(judged)
    for j in judged:
        said = words(items[j.claim.id])
        assert said.index(j.verdict) < said.index(j.claim.statement), j.claim.id
        assert f'data-lab="{j.claim.lab}" data-verdict="{j.verdict}"' in items[j.claim.id]
    for name in ("paper", "lab", "verdict", "scope"):
        menu = re.search(rf'<select name="{name}">(.*?)</select>', page)[1]
        assert {*re.findall(rf'data-{name}="(.*?)"', page)} <= {*re.findall(r"<option>(.*?)</option>", menu)}, name


def test_what_a_claim_says_stays_text():
    nasty, (j, *_) = '"><script>alert(1)</script>\n``````\n# no heading', ledger.judgements("05")
    claim = dataclasses.replace(j.claim, statement=nasty, where=nasty, printed=nasty, numbers=())
    page = templates.fill("ledger.md", judged=[dataclasses.replace(j, claim=claim)], retired=[])
    assert "<script" not in page and page.count("\n``````\n") == 1 and "\n# no heading" not in page


def test_every_place_of_the_papers_has_its_claims_or_the_reason_why_there_are_none(built_book):
    text = words((built_book / "_generated/coverage.html").read_text())
    for place in papers.places():
        assert all(" ".join(said.split()) in text for said in (place.shows, *place.claims, place.why_not)), place


def test_each_question_has_a_page_with_its_answer_and_its_claims(built_book):
    for one in ledger.headlines.headlines(ledger.judgements()):
        page = Page(built_book / f"_generated/holds/{one.question.number:02d}.html")
        assert words(one.words) in words(page.path.read_text())
        assert {f"../../{papers.page(j.claim.id)}" for j in one.judgements} <= {*page.links}


# -- tables and pictures ------------------------------------------------------------------------------------------------


def test_our_own_results_are_those_of_the_evidence(built_book):
    text = (built_book / "own_results.html").read_text()
    kept = experiments.load("gradient_inversion.second_order")
    for name in ("psnr[adam, swin]", "psnr[gauss_newton, vit_std_1]"):
        assert f"{kept.mean(name):.3g} ± {kept.spread(name):.2g}" in text
    assert text.count("<table") == 9 and text.count(" repeats at <code") == 9


def test_a_benchmark_says_what_was_promised_and_whether_it_holds():
    machine = dict(device_name="a", cpus=2, torch="2", timm="1")
    plain = dict(what="w", median=61.0, low=55.0, high=None, n=8, unit="steps", promise="< 70", holds=True, note="n")
    found = dict(
        date="2026-11-21", machine=machine, rows=[plain, plain | dict(median=None, holds=None, date="2026-11-22")]
    )
    lines = benchmarks._bench(found).splitlines()
    assert lines[-2] == "| w | 61 steps | 55 to never | 8 | < 70: holds | n |"
    assert lines[-1] == "| w | never | 55 to never | 8 | < 70: not decided | n; of 2026-11-22 |"


def test_benchmarks_has_a_table_for_every_committed_measurement(built_book):
    named = {path.stem.removeprefix("bench_") for path in (ROOT / "book/baselines").glob("bench_*.json")}
    assert {*re.findall(r"_generated/parts/(\w+)\.md", (ROOT / "book/benchmarks.md").read_text())} == named | {"soak"}
    runs = json.loads((ROOT / "book/baselines/soak.json").read_text())["rounds"]
    assert f"{runs} rounds" in (built_book / "benchmarks.html").read_text()


def test_the_cat_on_the_front_page_is_the_evidences(built_book):
    strip = pictures.load("april_closed_form.solved", "class", 0, "picture[photograph_arch_a_batch_2_batch_4_arch_b]")
    for name, tile in (("photograph", 0), ("computed", 1)):
        with Image.open(ROOT / f"book/_static/front/{name}.png") as image:
            assert (np.array(image)[..., :3] == strip[:, 32 * tile : 32 * (tile + 1)]).all()
    labs = {Path(link).name[:2] for link in Page(built_book / "index.html").links if "/labs/" in link}
    assert labs >= {"00", "01", "03", "04", "11"}  # the first of each threat model
    assert sum(path.stat().st_size for path in (ROOT / "book/_static/front").iterdir()) < 100_000


# -- the package --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documented(built_book):
    text = "".join(path.read_text() for path in (built_book / "_generated/api").glob("*.html"))
    return {*re.findall(r'\bid="(?:module-)?(privlab[\w.]*)"', text)}


LISTED = re.findall(r"^   (privlab[\w.]*)$", (ROOT / "book/reference.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("door", LISTED)
def test_the_reference_has_every_name_at_every_door(documented, door):
    module = import_module(door)
    assert not [name for name in getattr(module, "__all__", ()) if f"{door}.{name}" not in documented]


def test_every_door_is_in_the_reference_or_stands_at_one_that_is(documented):
    for stub in (ROOT / "privlab").glob("**/__init__.pyi"):
        assert ".".join(stub.relative_to(ROOT).parent.parts) in {*documented, "privlab.attacks"}


def test_a_docstring_reads_in_the_reference_as_it_was_meant(built_book):
    text = (built_book / "_generated/api/privlab.metrics.html").read_text()
    (entry,) = re.findall(r'<dt[^>]*id="privlab.metrics.compare">.*?</dd></dl>', text, re.DOTALL)
    assert re.search(r"<li><p><strong>images, truth</strong>: ?\(batch, channels, height, width\)", entry)
    assert "<p>Raises ValueError as the metrics do.</p>" in entry
    assert f'id="{privlab.__name__}.audit"' in (built_book / "reference.html").read_text()


def test_a_docstring_becomes_paragraphs_arguments_and_formulas():
    text = """A line with a *word*, a product a * b and x_.

    size: of it.  kind: "soft"; see `load`
        and `k >= 1`.
    Raises ValueError for more.

        G^T X
    """
    assert docstrings.rst(text) == [
        *["\\ A line with a *word*, a product a \\* b and x\\_.", ""],
        *["* **size**: \\ of it.", ""],
        *['* **kind**: \\ "soft"; see \\ `load`\\  and \\ ``k >= 1``\\ .', ""],
        *["\\ Raises ValueError for more.", ""],
        *["::", "", "    G^T X", ""],
    ]


def test_the_house_draws_every_room_and_the_reference_has_it():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rooms = [room.strip() for floor in contract["layers"] for room in floor.split("|") if room != "__main__"]
    shown = re.findall(r'class="name">(\w+)<', (ROOT / "book/_static/drawings/rooms.svg").read_text())
    assert shown == rooms, "from the top, as they stand on each other"
    listed = (ROOT / "book/reference.md").read_text()
    for room in rooms:
        assert f"   privlab.{room}" in listed or room == "course", room
    for drawing in ("rooms", "gradient"):
        text = (ROOT / f"book/_static/drawings/{drawing}.svg").read_text()
        (alt,) = re.findall(r'role="img" aria-label="(.*?)"', text)
        assert all(word in alt for word in re.findall(r'class="name">([\w.]+)<', text)), drawing
