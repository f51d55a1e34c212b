"""The book builds without a warning, with a run and without one, and shows what a page without a kernel can show."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import docstrings
import nbformat
import pytest
import vendor
from colours import contrast
from nbformat.v4 import new_output
from pages import _BOOKKEEPING

import privlab
from privlab import leak, ledger
from privlab.ledger import evidence, papers
from privlab.notebook.pages import Control, turned
from privlab.runner import catalogue, pairing

ROOT = Path(__file__).parents[2]

LAB = """\
# %% [markdown]
# # 05 · a lab
# | smoke | 0.1 | 0.2 GB |

# %% tags=["parameters"]
profile = "smoke"

# %% [markdown]
# ## A theorem
# $$ a = b $$

# %% tags=["solution"]
answer = 42

# %%
box
"""
VIEW = "application/vnd.jupyter.widget-view+json"
GIF = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="  # a pixel


def run_of(lab: catalogue.Lab, out: Path) -> None:
    """A run's folder as the runner leaves it, with an explorer and its page, a bar of progress, and a panel of the ledger."""
    notebook = pairing.notebook(lab.path)
    shades = [f'<img src="data:image/gif;base64,{GIF}" alt="all {shade}">' for shade in ("black", "white")]
    drawn = turned([Control("shade", ("black", "white"), 1)], lambda at: shades[at])
    view = {VIEW: {"model_id": "one", "version_major": 2, "version_minor": 0}, "text/plain": "Controls"}
    notebook.cells[-1].outputs = [
        new_output("display_data", view | {"text/html": drawn}),
        new_output("display_data", view),
    ]
    panel = {"text/html": ledger.show("05")._repr_html_(), "text/plain": "the ledger"}
    notebook.cells[-1].outputs.append(new_output("display_data", panel))
    fetched = "lpips: trying pip package, 64 MB\nlpips: ready in ~/.cache\n"
    notebook.cells[-1].outputs += [new_output("stream", text=text) for text in (fetched, "lpips: 64 MB are read\n")]
    nbformat.write(notebook, out / f"{lab.name}.ipynb")
    (out / f"{lab.name}.json").write_text(json.dumps({"status": "ok", "seconds": 1.0, "source": lab.digest}))


def bench(**row: object) -> dict:
    plain = dict(
        median=61.0, low=55.0, high=None, n=8, unit="steps", promise=None, holds=None, note="7 of 8 runs reach it"
    )
    return plain | row


BENCH = [
    bench(what="steps, ours", promise="< half of theirs", holds=True),
    bench(what="steps, theirs", median=None, low=None),
    bench(what="seconds a step", median=1.0234, low=0.98, high=1.2, unit="×", promise="≤ 1.0 ×", holds=False),
    bench(what="seconds, ours", median=4.25, unit="s", promise="< half of theirs"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the book beside small labs: one was run, as was what goes deeper into it, one was changed since, one was not run."""
    place = tmp_path_factory.mktemp("house")
    here = ROOT / "book"
    subprocess.run([sys.executable, ROOT / "data_scripts/vendor.py"], check=True)  # as `make book` does
    shutil.copytree(here, place / "book", ignore=shutil.ignore_patterns("_build", "_generated", "__pycache__"))
    machine = json.loads((here / "baselines/bench_closed_form.json").read_text())["machine"]
    found = dict(date="2026-11-21", machine=machine, rows=BENCH, runs=[])
    (place / "book/baselines/bench_gradient.json").write_text(json.dumps(found))
    lab = dict(runs=20, failed=1, seconds=[11.2, 12.6, 30.1], peak_gb=1.256)
    soak = dict(
        machine=machine, rounds=20, trained=[71, 71, 71], labs={"05_run": lab}, differ=["lab 05: psnr[a], lower"]
    )
    (place / "book/baselines/soak.json").write_text(json.dumps(soak))
    shutil.copy(ROOT / "pyproject.toml", place)
    (place / "labs").mkdir()
    for name in ("05_run", "06_changed", "07_not_run"):
        (place / "labs" / f"{name}.py").write_text(LAB.replace("a lab", name))
    (place / "labs/deeper").mkdir()
    more = LAB.replace("05 · a lab", "05, deeper · more\n# From [lab 05](../05_run.ipynb).")
    (place / "labs/deeper/05_more.py").write_text(more)
    with (place / "labs/05_run.py").open("a") as file:
        file.write("\n# %% [markdown]\n# There is [more](deeper/05_more.ipynb).\n\n# %%\nbox\n")
    (place / "runs/smoke/deeper").mkdir(parents=True)
    for name in ("05_run", "06_changed", "deeper/05_more"):
        run_of(catalogue.Lab(place / f"labs/{name}.py"), place / "runs/smoke")
    (place / "labs/06_changed.py").write_text(LAB.replace("a lab", "06_changed") + "\n# %%\n'new'\n")
    pairing.pair(place / "labs")
    return place


def sphinx(place: Path, out: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-b", "html", *options, "book", out]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PRIVLAB_")}
    return subprocess.run(command, cwd=place, env=clean | environment, capture_output=True, text=True)


def build(place: Path, out: str, *options: str, **environment: str) -> Path:
    done = sphinx(place, out, *options, **environment)
    assert done.returncode == 0, done.stderr
    return place / out


@pytest.fixture(scope="module")
def pages(house):
    return build(house, "with")


def test_the_book_of_a_run(pages):
    shown = (pages / "_generated/labs/05_run.html").read_text()
    assert "VBox()" not in shown
    folded = re.findall(r"<details[^>]*>.*?</details>", shown.partition("<article")[2], re.DOTALL)
    setup, solution = (fold for fold in folded if "Show the" in fold)
    assert ">profile<" in setup and "Show the code" in setup and ">42<" in solution and "Show the solution" in solution
    assert "lpips: 64 MB are read" in shown and "lpips: trying" not in shown
    assert "as it is before it runs" not in shown
    for other in ("06_changed", "07_not_run"):
        text = (pages / f"_generated/labs/{other}.html").read_text()
        assert "as it is before it runs" in text and "Live in the notebook" not in text
    assert "lu2022.theorem1.linear_system" in (pages / "_generated/ledger.html").read_text()

    rows = cells(pages / "_generated/benchmarks.html")
    assert rows["steps, ours"] == ["61 steps", "55 to never", "8", "< half of theirs: holds", "7 of 8 runs reach it"]
    assert rows["steps, theirs"] == ["never", "never to never", "8", "", "7 of 8 runs reach it"]
    assert rows["seconds a step"][:4] == ["1.023 ×", "0.980 to 1.200", "8", "≤ 1.0 ×: does not hold"]
    assert rows["seconds, ours"][0] == "4.2 s" and rows["seconds, ours"][3] == "< half of theirs: not decided"
    closed = rows["patch_embedding, vit_base_patch16_224, float32"]
    assert closed[0].endswith(" dB") and closed[3] == "≥ 100 dB: holds" and "ours takes" in closed[4]
    assert rows["05_run"] == ["20", "1", "13", "11 to 30", "1.26"]
    text = (pages / "_generated/benchmarks.html").read_text()
    assert "Of 20 runs 1 failed. 1 figure came out other than in the first round: lab 05: psnr[a], lower." in text


def cells(page: Path) -> dict[str, list[str]]:
    """First cell of a row -> the others, as a reader sees them."""
    rows = re.findall(r"<tr.*?</tr>", page.read_text(), re.DOTALL)
    text = [
        [html.unescape(re.sub(r"<.*?>", "", c)).strip() for c in re.findall(r"<td.*?</td>", r, re.DOTALL)] for r in rows
    ]
    return {row[0]: row[1:] for row in text if row}


LOADS = dict(script="src", img="src", iframe="src", source="src", video="src", embed="src", object="data")
INERT = {"canonical", "next", "prev", "author", "index", "search", "license"}  # a <link> that loads nothing


class Page(HTMLParser):
    """What a page loads, where its links lead, its pictures, and what its controls need."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.loads, self.links, self.images, self.lang, self.title = path, [], [], [], "", ""
        self.scripts: dict[str, str] = {}  # by type, the text of those on the page
        self._in = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        has = {name: value or "" for name, value in attrs}
        self._in = f"script {has.get('type', '')}" if tag == "script" and "src" not in has else tag
        if tag in LOADS and has.get(LOADS[tag]):
            self.loads.append(has[LOADS[tag]])
        if tag == "link" and not set(has.get("rel", "").split()) <= INERT:
            self.loads.append(has["href"])
        self.loads += re.findall(r"url\(([^)]+)\)", has.get("style", ""))
        self.loads += [part.split()[0] for part in has.get("srcset", "").split(",") if part.strip()]
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        if tag == "img":
            self.images.append(has)
        self.lang = has.get("lang", "") if tag == "html" else self.lang

    def handle_data(self, data):
        if self._in.startswith("script"):
            self.scripts[self._in] = self.scripts.get(self._in, "") + data
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
def all_pages(folder: Path) -> list[Page]:
    found = [Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    assert len(found) > 6
    return found


OUTSIDE = re.compile(r"(?i)^\s*['\"]?(\w+:)?//")


def test_no_page_and_no_style_loads_anything_from_outside(pages):
    for page in all_pages(pages):
        assert not [load for load in page.loads if OUTSIDE.match(load)], page.path
        inline = page.scripts.get("script ", "") + page.scripts.get("script text/javascript", "")
        assert not re.search(r"(?:require|import|fetch|importScripts)\s*\(\s*\[?\s*['\"`](?:\w+:)?//", inline), (
            page.path
        )
    for style in pages.rglob("*.css"):
        assert not [load for load in loads_of_css(style.read_text(errors="replace")) if OUTSIDE.match(load)], style


def test_every_script_style_and_picture_that_a_page_names_lies_in_the_book(pages):
    named = set()
    for page in all_pages(pages):
        for load in page.loads:
            if not load.startswith(("data:", "#")):
                local = (page.path.parent / unquote(load.split("?")[0].split("#")[0])).resolve()
                assert local.is_file() and local.is_relative_to(pages.resolve()), (page.path, load)
                named.add(local.relative_to(pages.resolve()).as_posix())
    assert "_static/vendor/mathjax/tex-svg-full.js" in named
    for script in vendor.missing.__globals__["PACKAGES"].values():
        assert all((pages / "_static/vendor" / place).is_file() for place in script)


def test_a_loader_from_outside_would_be_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<html><link rel="stylesheet" href="//a.example/x.css"><style>@import "https://b.example/y.css";</style>'
        '<img src="z.png" srcset="https://c.example/2x.png 2x"><div style="background:url(http://d.example/w.png)">'
    )
    assert len([load for load in Page(page).loads if OUTSIDE.match(load)]) == 4


def test_a_widget_is_its_page_and_no_other_widget_is_left(pages):
    page = Page(pages / "_generated/labs/05_run.html")
    text = page.path.read_text()
    assert text.count('class="privlab-flipbook"') == 1 and 'aria-valuetext="white"' in text
    assert not any("jupyter.widget" in kind for kind in page.scripts)


def test_every_picture_has_words(pages):
    found = [(page.path.name, image) for page in all_pages(pages) for image in page.images]
    assert len([image for _, image in found if image.get("alt") in ("all black", "all white")]) == 2 * 2  # of two runs
    assert not [(name, image) for name, image in found if not image.get("alt", "").strip()]
    assert not [(name, image) for name, image in found if image["src"].endswith(image["alt"])]


def test_every_page_says_its_language_and_has_a_title_of_its_own(pages):
    found = all_pages(pages)
    assert {page.lang for page in found} == {"en"}
    titles = [page.title for page in found]
    assert all(titles) and len(set(titles)) == len(titles)


def test_each_lab_can_be_downloaded_and_no_button_leads_to_strangers(pages, house):
    for name in ("05_run", "07_not_run"):
        page = Page(pages / f"_generated/labs/{name}.html")
        for suffix in (".ipynb", ".py"):
            (link,) = (link for link in page.links if link.endswith(f"/{name}{suffix}"))
            assert (page.path.parent / link).read_bytes() == (house / "labs" / f"{name}{suffix}").read_bytes()
        assert not [link for link in page.links if "mybinder" in link or "colab" in link or "kaggle" in link]


@pytest.mark.parametrize(
    "source, folds",
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
    assert bool(_BOOKKEEPING.search(source)) == folds


def test_what_goes_deeper_is_a_page_below_its_lab_and_each_leads_to_the_other(pages, house):
    lab, below = (Page(pages / f"_generated/labs/{name}.html") for name in ("05_run", "deeper/05_more"))
    assert "as it is before it runs" not in below.path.read_text() and "all white" in below.path.read_text()
    assert lab.links.count("deeper/05_more.html") >= 3  # in the text, at the end of the page, in the table of contents
    assert "../05_run.html" in below.links
    for suffix in (".ipynb", ".py"):
        (link,) = (link for link in below.links if link.endswith(f"/05_more{suffix}"))
        assert (below.path.parent / link).read_bytes() == (house / f"labs/deeper/05_more{suffix}").read_bytes()
    contents = Page(pages / "_generated/labs/07_not_run.html")
    listed = [link for link in contents.links if re.fullmatch(r"\d\d_\w+\.html", link)]
    assert {"05_run.html", "06_changed.html"} <= set(listed) and "deeper/05_more.html" in contents.links
    nested = r'<li class="toctree-l1[^"]*"><a[^>]*href="05_run\.html">.*?<ul>\s*<li class="toctree-l2"><a[^>]*href="deeper/05_more\.html">'
    assert re.search(nested, contents.path.read_text(), re.DOTALL)


def small(house: Path, place: Path, *labs: str) -> Path:
    """A book of these labs, without the reference."""
    shutil.copytree(house / "runs", place / "runs")
    shutil.copy(house / "pyproject.toml", place)
    below = [lab for lab in labs if lab.startswith("deeper/")]
    for folder, files in (
        ("labs", [house / f"labs/{lab}{suffix}" for lab in labs if lab not in below for suffix in (".py", ".ipynb")]),
        ("labs/deeper", [house / f"labs/{lab}{suffix}" for lab in below for suffix in (".py", ".ipynb")]),
        ("book", [house / "book/references.bib", *(house / "book").glob("*.py")]),
        ("book/baselines", [house / "book/baselines/bench_second_order.json"]),
    ):
        (place / folder).mkdir()
        for file in files:
            shutil.copy(file, place / folder)
    shutil.copytree(house / "book/_templates", place / "book/_templates")
    (place / "book/_static").mkdir()
    for file in (house / "book/_static").glob("*.*"):
        shutil.copy(file, place / "book/_static")
    named = ("holds/index", "own_results", "ledger", "coverage", "benchmarks")
    rest = [f"_generated/{name}" for name in named]
    listed = "\n".join([*(f"_generated/labs/{lab}" for lab in labs if lab not in below), *rest])
    (place / "book/index.md").write_text(f"# A book\n\n```{{toctree}}\n{listed}\n```\n")
    return place


@pytest.mark.check
def test_one_setting_gives_every_lab_its_buttons_and_no_run_is_told(house, tmp_path):
    every = ("05_run", "06_changed", "07_not_run", "deeper/05_more")
    place = small(house, tmp_path / "launched", *every)
    told = dict(PRIVLAB_REPOSITORY="https://github.com/someone/a-fork", PRIVLAB_RUN="runs/nothing")
    built = build(place, "built", "-D", "privlab_reference=0", **told)
    for name in every:
        page = Page(built / f"_generated/labs/{name}.html")
        lab = f"labs/{name}.ipynb"
        assert f"https://mybinder.org/v2/gh/someone/a-fork/main?urlpath=lab/tree/{lab}" in page.links
        assert f"https://colab.research.google.com/github/someone/a-fork/blob/main/{lab}" in page.links
        assert (
            f"https://www.kaggle.com/kernels/welcome?src=https://github.com/someone/a-fork/blob/main/{lab}"
            in page.links
        )
        assert f"https://github.com/someone/a-fork/blob/main/{lab}" in page.links
        assert "as it is before it runs" in page.path.read_text()
    assert "lu2022.theorem1.linear_system" in (built / "_generated/ledger.html").read_text()


@pytest.fixture(scope="module")
def plain(house, tmp_path_factory):
    """A book of one lab and one faulty page, built where the vendored scripts could not be had."""
    place = small(house, tmp_path_factory.mktemp("plain") / "house", "05_run", "deeper/05_more")
    (place / "book/nameless.md").write_text("---\norphan: true\n---\n# A page\n\n<img src='x.png'>\n")
    return sphinx(place, "built", "-D", "privlab_reference=0"), place / "built"


@pytest.mark.check
def test_without_the_vendored_scripts_the_book_shows_tex_and_text(plain):
    done, built = plain
    assert done.stderr.count("WARNING") == 1, "the faulty page, and nothing else"
    assert "python data_scripts/vendor.py" in done.stdout
    page = Page(built / "_generated/labs/05_run.html")
    text = page.path.read_text()
    assert '<pre class="privlab-tex">' in text and "formulas stand here as TeX" in text
    assert "all white" in text
    assert not [load for load in page.loads if "vendor" in load or OUTSIDE.match(load)]


@pytest.mark.check
def test_a_picture_without_words_stops_the_build(plain):
    done, _ = plain
    assert done.returncode != 0 and "nameless: x.png has no alt text" in done.stderr


# -- claims -------------------------------------------------------------------------------------------------------------

CLAIMS = {claim.id: claim for claim in papers.claims()}


def leads_to(page: Page) -> list[Path]:
    """The files that a page's links lead to, those to other places left out."""
    local = [unquote(link.partition("#")[0]) for link in page.links if not re.match(r"\w+:", link)]
    return [(page.path.parent / link).resolve() for link in local if link]


def test_every_claim_has_a_page_and_the_ledger_and_a_labs_panel_lead_there(pages):
    files = {path.resolve() for path in (pages / "claims").iterdir()}
    assert files == {(pages / papers.page(name)).resolve() for name in CLAIMS}
    of_claims = lambda page: [path for path in leads_to(page) if path.parent.name == "claims"]  # noqa: E731
    assert sorted(of_claims(Page(pages / "_generated/ledger.html"))) == sorted(files)
    of_the_lab = [pages / papers.page(name) for name, claim in CLAIMS.items() if claim.lab == "05"]
    linked = of_claims(Page(pages / "_generated/labs/05_run.html"))
    assert sorted(linked) == sorted(path.resolve() for path in of_the_lab)
    for page in all_pages(pages):
        if page.path.parent.name == "claims":
            assert not [path for path in leads_to(page) if not path.is_file()], page.path


def test_the_verdict_on_a_claims_page_is_the_ledgers_with_its_scope(pages):
    for j in ledger.judgements():
        text = (pages / papers.page(j.claim.id)).read_text()
        (line,) = re.findall(r'<p class="privlab-verdict".*?</p>', text, re.DOTALL)
        icon, words = re.search(r'<span aria-hidden="true">(.)</span> <strong>(.*?)</strong>', line).groups()
        verdict = f"{j.verdict}, {j.scope}" if j.scope else j.verdict
        assert icon.strip() and f"{html.unescape(words)}, ".startswith(f"{verdict}, ")
        assert html.escape(j.claim.statement) in text.replace("&#39;", "&#x27;").replace("&#34;", "&quot;"), j.claim.id


def strips(page: Path) -> dict[str, tuple[str, str]]:
    """What is drawn on a claim's page: name -> (how it is told, its SVG)."""
    drawn = re.findall(
        r'<svg class="privlab-strip"[^>]*aria-label="([^"]*)">(.*?)</svg>\n', page.read_text(), re.DOTALL
    )
    return {html.unescape(told).split(": ")[0]: (html.unescape(told), svg) for told, svg in drawn}


@pytest.mark.parametrize(
    "name",
    ["koh2024.table5.ssf_small", "lu2022.table1.cifar10_april_over_dlg", "lu2022.section42.fixed_embedding_protects"],
)
def test_a_claims_page_has_a_dot_for_every_repeat_of_the_evidence(pages, name):
    (j,) = (j for j in ledger.judgements(CLAIMS[name].lab) if j.claim.id == name)
    (experiment,) = j.claim.experiments
    entry = [e for e in evidence.registrations() if (e.experiment, e.size) == (experiment, j.profile)][-1]
    rows = evidence.read(experiment, j.profile, entry.digest, within=entry.range)
    drawn = strips(pages / papers.page(name))
    measured = {figure.name for figure in j.ours}
    assert len(rows) == entry.repeats and measured <= drawn.keys()
    for label, (told, svg) in drawn.items():
        assert svg.count("<circle") == len(rows) and f"{label}: {len(rows)} repeats, from " in told
        if label in measured:
            values = [float(f"{row.values[label]:.3g}") for row in rows]
            dots = [float(text.replace("−", "-").replace(",", "")) for text in re.findall(r"<title>(.*?)</title>", svg)]
            assert dots == pytest.approx(sorted(values))


DOORS = {
    ".".join(stub.relative_to(ROOT).parent.parts): import_module(".".join(stub.relative_to(ROOT).parent.parts)).__all__
    for stub in sorted((ROOT / "privlab").rglob("__init__.pyi"))
} | {"privlab": privlab.__all__, "privlab.leak": leak.__all__}


@pytest.mark.parametrize("door", DOORS)
def test_the_reference_lists_every_name_at_every_door(pages, door):
    text = "".join(path.read_text() for path in (pages / "_generated/api").glob("*.html"))
    places = set(re.findall(r'\bid="(?:module-)?(privlab[\w.]*)"', text))
    rooms = set(re.findall(r'href="(privlab[\w.]*)\.html', text))
    assert not [name for name in DOORS[door] if f"{door}.{name}" not in places | rooms]


def test_a_docstring_reads_in_the_reference_as_it_was_meant(pages):
    text = (pages / "_generated/api/privlab.metrics.html").read_text()
    (entry,) = re.findall(r'<dt[^>]*id="privlab.metrics.compare">.*?</dd></dl>', text, re.DOTALL)
    assert re.search(r"<li><p><strong>images, truth</strong>: \(batch, channels, height, width\)", entry)
    assert "<p>Raises ValueError as the metrics do.</p>" in entry
    text = (pages / "_generated/api/privlab.attacks.attribute_inference.html").read_text()
    assert '<div><em class="sig-param"><span class="n"><span class="pre">accuracy' in text and not re.search(
        r"<dl>\s*<dd>", text
    )
    text = (pages / "_generated/api/privlab.leak.html").read_text()
    assert '<span class="pre">batch_size</span>' in text and "object at 0x" not in text and "~privlab" not in text


def test_a_docstring_becomes_paragraphs_arguments_and_formulas():
    text = """A line with a *word*, a product a * b and x_.

    size: of it.  kind: "soft"; see `load`
        and `k >= 1`.
    Raises ValueError for more.

        G^T X

    other: is no argument.
    """
    assert docstrings.rst(text, {"size", "kind"}, {"load": "privlab.data.load"}.get) == [
        *["A line with a *word*, a product a \\* b and x\\_.", ""],
        *[".. rst-class:: privlab-arguments", ""],
        *["* **size**: of it.", ""],
        *['* **kind**: ``"soft"``; see :py:obj:`load <privlab.data.load>` and ``k >= 1``.', ""],
        *["Raises ValueError for more.", ""],
        *[".. code-block:: text", "", "    G^T X", ""],
        *["other: is no argument.", ""],
    ]


def test_the_house_names_every_room_and_says_what_the_drawings_show(pages):
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rooms = [room.strip() for floor in contract["layers"] for room in floor.split("|") if room != "__main__"]
    text = (pages / "house.html").read_text()
    drawn, path = re.findall(r'<svg class="privlab-drawing".*?</svg>', text, re.DOTALL)
    for room in rooms:
        assert f">{room}</text>" in drawn and f'href="_generated/api/privlab.{room}.html' in text, room
    for drawing, words in ((drawn, rooms), (path, ["data.load", "leak.observe", "metrics.compare"])):
        (alt,) = re.findall(r'role="img" aria-label="(.*?)"', drawing)
        assert not [word for word in words if word not in alt]
        wide = [len(said) for said in re.findall(r"<text[^>]*>(.*?)</text>", drawing)]
        assert max(wide) < 62


def test_our_own_colours_stand_out_from_the_page():
    for rule in (ROOT / "book/_static/book.css").read_text().splitlines():
        dark = 'data-theme="dark"' in rule or rule.lstrip().startswith("--jp-")
        ground = re.search(r"background: (#[0-9a-f]{3,6})\b", rule)
        page = ground[1] if ground else "#121212" if dark else "#ffffff"
        for colour in re.findall(r"(?:color|outline|border[\w-]*):[^;]*?(#[0-9a-f]{3,6})\b", rule):
            assert contrast(colour, page) >= 4.5, (colour, rule)


def test_a_vendored_file_that_was_changed_is_had_again(tmp_path, monkeypatch):
    vendor.fetch(tmp_path)
    assert vendor.missing(tmp_path) == []
    (tmp_path / "widgets/embed.js").write_text("alert(1)")
    assert vendor.missing(tmp_path) == ["widgets/embed.js"]
    vendor.fetch(tmp_path)
    assert vendor.missing(tmp_path) == []
    assert "Jupyter" in (tmp_path / "widgets/LICENSE").read_text()


def test_a_file_of_another_digest_is_not_used(tmp_path, monkeypatch):
    (key, files), *_ = vendor.PACKAGES.items()
    wrong = {place: (member, "0" * 64) for place, (member, _) in files.items()}
    monkeypatch.setattr(vendor, "PACKAGES", {key: wrong})
    with pytest.raises(ValueError, match="expected 0000"):
        vendor.fetch(tmp_path)
    assert not list(tmp_path.rglob("*.js"))


def test_without_npm_and_network_it_says_what_follows_in_words(tmp_path, monkeypatch, capsys):
    def offline(*_):
        raise RuntimeError("npm failed (its registry is out of reach, or lacks this)")

    monkeypatch.setattr(vendor.downloads, "get", offline)
    monkeypatch.setattr(sys, "argv", ["vendor.py", "--to", str(tmp_path / "vendor")])
    assert vendor.main() == 1
    says = capsys.readouterr().err
    assert "out of reach" in says and "The book is built all the same" in says and "Traceback" not in says
