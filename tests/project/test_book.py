"""The built book: it needs no network, no link of it is dead, every claim has its place, and the reference has every name at a door."""

import dataclasses
import functools
import html
import re
import tomllib
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import benchmarks
import pytest
import templates
import vendor
from bs4 import BeautifulSoup
from colours import contrast

from privlab import ledger
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]
LOADS = dict(script="src", img="src", iframe="src", source="src", video="src", embed="src", object="data")
INERT = {"canonical", "next", "prev", "author", "index", "search", "license"}  # a <link> that loads nothing
OUTSIDE = re.compile(r"(?i)^\s*['\"]?(\w+:)?//")


class Page:
    """What a page loads, where its links lead, and where they can lead on it."""

    def __init__(self, path: Path) -> None:
        soup = BeautifulSoup(path.read_bytes(), "html.parser")
        self.path, self.images = path, [e.attrs for e in soup("img")]
        self.script = "".join(e.get_text() for e in soup("script", type=[None, "text/javascript"]))
        self.lang, self.title = soup.html.get("lang"), soup.title.get_text()
        self.links = [e["href"] for e in soup("a", href=True)]
        self.ids = {e[name] for name in ("id", "name") for e in soup.find_all(attrs={name: True})}
        self.loads = [e[name] for tag, name in LOADS.items() for e in soup(tag) if e.get(name)]
        self.loads += [e["href"] for e in soup("link") if not {*e.get("rel", ())} <= INERT]
        self.loads += [part.split()[0] for e in soup(srcset=True) for part in e["srcset"].split(",") if part.strip()]
        for css in [*(e.get_text() for e in soup("style")), *(e["style"] for e in soup(style=True))]:
            self.loads += loads_of_css(css)


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


def test_no_page_and_no_style_loads_anything_from_outside(built_book):
    for page in every_page(built_book).values():
        assert not [load for load in page.loads if OUTSIDE.match(load)], page.path
        called = r"(?:require|import|fetch|importScripts)\s*\(\s*\[?\s*['\"`](?:\w+:)?//"
        assert not re.search(called, page.script), page.path
    for style in built_book.rglob("*.css"):
        assert not [load for load in loads_of_css(style.read_text(errors="replace")) if OUTSIDE.match(load)], style


def test_every_file_that_a_page_loads_lies_in_the_book_and_no_link_is_dead(built_book):
    every, dead, root = every_page(built_book), [], built_book.resolve()
    for page in every.values():
        for load in (load.split("?")[0].split("#")[0] for load in page.loads if not load.startswith(("data:", "#"))):
            local = (page.path.parent / unquote(load)).resolve()
            dead += [] if local.is_file() and local.is_relative_to(root) else [(page.path.name, load)]
        for link in {link for link in page.links if not re.match(r"\w+:", link)}:
            place, _, anchor = link.partition("#")
            to = (page.path.parent / unquote(place)).resolve() if place else page.path
            there = to in every and (not anchor or unquote(anchor) in every[to].ids)
            dead += [] if there or (to.is_file() and to not in every) else [(page.path.name, link)]
    assert not dead
    assert (root / "_static/vendor/mathjax/tex-svg-full.js").exists(), "data_scripts/vendor.py says why not"


def test_a_vendored_file_of_another_digest_is_not_used(tmp_path, monkeypatch):
    version, _, files = vendor.PACKAGES["reveal.js"]
    monkeypatch.setattr(vendor, "PACKAGES", {"reveal.js": (version, "0" * 64, files)})
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    with pytest.raises(ConnectionError, match="0" * 64):
        vendor.fetch(tmp_path / "vendor")
    assert not list(tmp_path.rglob("*.js"))


def test_every_picture_has_words_and_every_page_a_language_and_a_title_of_its_own(built_book):
    found = every_page(built_book).values()
    images = [(page.path.name, image) for page in found for image in page.images]
    assert len(images) > 20 and not [one for one in images if not one[1].get("alt", "").strip()]
    assert not [one for one in images if one[1]["src"].endswith(one[1]["alt"])]
    assert {page.lang for page in found} == {"en"}
    titles = [page.title for page in found]
    assert all(titles) and len(set(titles)) == len(titles)


def test_our_own_colours_stand_out_from_the_page():
    for rule in (ROOT / "book/_static/book.css").read_text().splitlines():
        dark = 'data-theme="dark"' in rule or rule.lstrip().startswith("--jp-")
        ground = re.search(r"background: (#[0-9a-f]{3,6})\b", rule)
        page = ground[1] if ground else "#121212" if dark else "#ffffff"
        for colour in re.findall(r"(?:color|outline|border[\w-]*):[^;]*?(#[0-9a-f]{3,6})\b", rule):
            assert contrast(colour, page) >= 4.5, (colour, rule)


def test_a_lab_stands_as_it_ran_with_its_predictions_its_files_and_its_solutions_folded(built_book):
    for lab in catalogue.pick(catalogue.everything(ROOT / "labs")):
        page, source = Page(built_book / f"_generated/labs/{lab.name}.html"), lab.path.read_text()
        text = page.path.read_text()
        assert "as it is before it runs" not in text and "injected-parameters" not in text, lab.name
        for suffix in (".ipynb", ".py"):
            (link,) = (link for link in page.links if link.endswith(f"/{lab.name}{suffix}"))
            assert (page.path.parent / link).read_bytes() == lab.path.with_suffix(suffix).read_bytes()
        folded = re.findall(r"<summary[^>]*>(.*?)</summary>", text, re.DOTALL)
        assert any("Show the code" in fold for fold in folded) and any("Show the solution" in fold for fold in folded)
        asked, answered = (
            re.findall(rf'class="privlab-{kind}"[^>]* data-name="([^"]*)"', text) for kind in ("prediction", "answer")
        )
        assert len(asked) == len(set(asked)) == len(re.findall(r"widgets\.(?:predict|choose)\(", source)), lab.name
        assert sorted(asked) == sorted(answered)


def test_the_page_of_each_paper_has_an_anchor_for_each_claim_with_the_ledgers_verdict(built_book):
    found, judged = {}, ledger.judgements()
    for path in (built_book / "claims").glob("*.html"):
        for part in path.read_text().split('<section class="privlab-claim" id="')[1:]:
            found[part.partition('"')[0]] = part.partition("</section>")[0]
    assert found.keys() == {j.claim.id for j in judged}
    for j in judged:
        part = found[j.claim.id]
        icon, said = re.search(r'<span aria-hidden="true">(.)</span> <strong>(.*?)</strong>', part).groups()
        verdict = f"{j.verdict}, {j.scope}" if j.scope else j.verdict
        assert icon.strip() and f"{words(said)}, ".startswith(f"{verdict}, ")
        assert j.claim.statement in words(part) and j.claim.compare in html.unescape(part)
        for need, state in j.needs.items():
            assert f"{need} {state}" in words(part), j.claim.id


def test_the_ledger_has_every_claim_once_with_what_the_menus_ask_for(built_book):
    page = (built_book / "_generated/ledger.html").read_text()
    items = {re.search(r'html#([\w.]+)"', item)[1]: item for item in re.findall(r"<li data-.*?</li>", page, re.DOTALL)}
    judged = ledger.judgements()
    assert items.keys() == {j.claim.id for j in judged} and page.count("<li data-") == len(judged)
    assert all(f'data-lab="{j.claim.lab}" data-verdict="{j.verdict}"' in items[j.claim.id] for j in judged)


def test_what_a_claim_says_stays_text():
    nasty, (j, *_) = '"><script>alert(1)</script>\n``````\n# no heading', ledger.judgements("05")
    claim = dataclasses.replace(j.claim, statement=nasty, where=nasty, printed=nasty, numbers=())
    page = templates.fill("ledger.md", judged=[dataclasses.replace(j, claim=claim)], retired=[])
    assert "<script" not in page and page.count("\n``````\n") == 1 and "\n# no heading" not in page


def test_the_reference_has_every_name_at_every_door(built_book):
    text = "".join(path.read_text() for path in (built_book / "_generated/api").glob("*.html"))
    documented = {*re.findall(r'\bid="(?:module-)?(privlab[\w.]*)"', text)}
    for door in re.findall(r"^   (privlab[\w.]*)$", (ROOT / "book/reference.md").read_text(), re.MULTILINE):
        names = getattr(import_module(door), "__all__", ())
        assert not [name for name in names if f"{door}.{name}" not in documented]
    for stub in (ROOT / "privlab").glob("**/__init__.pyi"):
        assert ".".join(stub.relative_to(ROOT).parent.parts) in {*documented, "privlab.attacks"}
    of_a_docstring = r"<li><p><strong>images, truth</strong>: ?\(batch, channels, height, width\)"
    assert re.search(of_a_docstring, text)


def test_every_committed_measurement_has_its_table_on_a_page():
    shown = re.findall(r"_generated/parts/(\w+)\.md", (ROOT / "book/benchmarks.md").read_text())
    assert sorted(shown) == sorted(name for name, _ in benchmarks.tables(ROOT / "book/baselines"))


def test_the_house_draws_every_room_and_the_reference_has_it():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rooms = [room.strip() for floor in contract["layers"] for room in floor.split("|") if room != "__main__"]
    text = (ROOT / "book/_static/drawings/rooms.svg").read_text()
    assert re.findall(r'class="name">(\w+)<', text) == rooms, "from the top, as they stand on each other"
    (alt,) = re.findall(r'role="img" aria-label="(.*?)"', text)
    listed = (ROOT / "book/reference.md").read_text()
    for room in rooms:
        assert room in alt and (f"   privlab.{room}" in listed or room == "course"), room
