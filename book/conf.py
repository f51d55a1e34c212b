"""The book: `sphinx-build -W -b html book book/_build/html`. Labs and ledger come from a run, where there is one.

PRIVLAB_RUN names the folder of the run, runs/smoke if it is not set. A lab of which the run has a green result for the
source as it stands is shown as executed, any other without outputs.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from pathlib import Path
from statistics import median

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from sphinx.application import Sphinx

BOOK = Path(__file__).parent
RUN = BOOK.parent / os.environ.get("PRIVLAB_RUN", "runs/smoke")
sys.path.insert(0, str(BOOK.parent))  # the package beside this book, installed or not

from privlab import __version__, catalogue, ledger, pairing, records  # noqa: E402

project = "privlab"
author = copyright = "the privlab authors"
version = release = __version__
extensions = ["myst_nb", "sphinxcontrib.bibtex"]
exclude_patterns = ["_build", "_generated/second_order.md", "baselines", "**/.ipynb_checkpoints"]
html_theme = "sphinx_book_theme"
html_title = "privlab"
html_theme_options = {"home_page_in_toc": True, "show_toc_level": 2, "navbar_persistent": []}
html_static_path = ["_static"]
html_css_files = ["book.css"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the runner executes, and judges what came out; the book only shows it
bibtex_bibfiles = ["references.bib"]

_WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
_VIEW, _STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"


def write_pages(app: Sphinx) -> None:
    """Write book/_generated anew: a notebook for each lab, and the ledger."""
    generated = Path(app.srcdir) / "_generated"
    for left in generated.glob("**/*.*"):
        left.unlink()
    (generated / "labs").mkdir(parents=True, exist_ok=True)
    for lab in catalogue.labs(BOOK.parent / "labs"):
        page = _executed(lab) or pairing.notebook(lab.path)
        nbformat.write(_for_readers(page), generated / "labs" / f"{lab.name}.ipynb")
    (generated / "ledger.md").write_text(_ledger(), encoding="utf-8")
    (generated / "benchmarks.md").write_text(_benchmarks(), encoding="utf-8")
    (generated / "second_order.md").write_text(_second_order(), encoding="utf-8")


def _executed(lab: catalogue.Lab) -> NotebookNode | None:
    try:
        result = json.loads((RUN / f"{lab.name}.json").read_text(encoding="utf-8"))
        fits = result["status"] == "ok" and result["source"] == lab.digest
        return nbformat.read(RUN / f"{lab.name}.ipynb", as_version=4) if fits else None
    except FileNotFoundError:
        return None


def _for_readers(page: NotebookNode) -> NotebookNode:
    """A lab as a page: solutions folded away, live controls replaced by what they showed, no traces of the runner."""
    state = page.metadata.pop("widgets", {}).get(_STATE, {}).get("state", {})
    page.metadata.pop("papermill", None)
    executed = any(cell.get("outputs") for cell in page.cells)
    cells = [cell for cell in page.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for cell in cells:
        if "solution" in cell.metadata.get("tags", []):
            cell.metadata.tags = [*cell.metadata.tags, "hide-cell"]
        if cell.cell_type == "code":
            cell.outputs = [shown for output in cell.outputs for shown in _still(output, state)]
    if not executed:
        note = "> The lab as it is before it runs: open it in Jupyter, or `make run` and build the book again."
        cells.insert(1, new_markdown_cell(note, id="not-run"))
    page.cells = cells
    return page


def _still(output: NotebookNode, state: dict) -> list[NotebookNode]:
    """What a page without a kernel can show of an output; of a widget, what is inside and the names of its controls."""
    data = output.get("data", {})
    data.pop(records.MIME, None)  # the line of text beside it says the same
    if _VIEW not in data:
        return [output]
    reach, inside, names = [data[_VIEW]["model_id"]], [], []
    while reach:
        widget = state.get(reach.pop(0), {}).get("state", {})
        inside += [nbformat.from_dict(o) for o in widget.get("outputs") or []]
        # HTML is the frame of a player, or the question of a prediction
        if widget.get("_model_name") == "HTMLModel" and widget.get("value"):
            inside.append(new_output("display_data", {"text/html": widget["value"]}))
        names += [widget["description"]] if widget.get("description") else []
        reach += re.findall(r"IPY_MODEL_(\w+)", json.dumps(widget.get("children", [])))
    live = f"Live in the notebook, with controls for {', '.join(names)}." if names else "Live in the notebook."
    return [
        new_output("display_data", {"text/html": f"<p><em>{html.escape(live)}</em></p>", "text/plain": live}),
        *inside,
    ]


def _ledger() -> str:
    if (RUN / "ledger.json").exists():
        return _WIDE + ledger.render([ledger.read(RUN / "ledger.json")], "md")
    return "# The ledger\n\nNo run to show yet: `make run` makes one, and the next build of the book shows it here.\n"


_BENCHES = {  # the files of `make bench`, and what a reader should know of each
    "bench_attacks": "Five model inversions on the same victims, with and without the skips of the last stage (`skip_4`, which is "
    "RoLSS): the attack accuracy, as another network sees it, of 40 pictures a draw, and what the judge saw in the first choice. Seconds "
    "are those of the attack, and of training its generator and LOMMA's students (few where the store had them), on one thread.",
    "bench_defences": "Defences against model inversion beside the cheapest one, to stop the undefended training earlier, on ORL faces: "
    "the attack accuracy of PPA with eigenfaces, of 40 pictures a draw. *Below a network stopped at its accuracy*: draw by draw, along a "
    "line through the undefended network's checkpoints.",
    "bench_closed_form": "What the closed forms reach: PSNR over 4 images and 2 seeds, and seconds beside a plain solve.",
    "bench_gradient": "Our search for images beside the package `breaching`, on the same models and gradients, and one architecture beside "
    "another. A run that never reaches 20 dB counts as later than all others. The preset of `breaching` is meant for 24,000 steps; it was "
    "followed for as many as its row says, so *not decided* is said where only its later steps could tell.",
    "bench_gradvit": "GradViT beside other attacks: what a step takes in memory, what compiling the step saves, and what each finds in "
    "about the same seconds of one thread. Those are 100 to 200 steps, where the papers take 1,500 to 120,000: the last rows say what is "
    "worth trying on a laptop, not what an attack can do. A short run set the number of steps; what they took in the end stands beside. "
    "GradViT runs with the paper's weights, under which the statistics of EfficientNet-lite0 at 32 pixels drown the gradients in the "
    "second half of the run.",
    "bench_second_order": "Gauss-Newton beside Adam (`annealed`) and L-BFGS (on Gauss-Newton's own loss) at equal passes: a gradient of "
    "the network, a J v or a J^T u is one pass, a step of Adam takes two. Photographs on which no setting was chosen. The 14 steps have a "
    "quarter of the channels and one block a stage where *half* is not said. On `vit_std_1` Gauss-Newton stops at a score of 1e-6.",
    "bench_skips": "Model inversion with the skip connections of one stage removed, by depth, prior, data and resolution: the attack "
    "accuracy of PPA, as another network sees it, of 40 pictures a draw; each draw has private people (or digits) of its own. *At equal "
    "task accuracy* is `recognition.at_equal_accuracy` over two checkpoints of each draw. Then what a step of PPA costs at 224 pixels.",
    "bench_membership_scores": "All models of a fleet as targets, scored in closed form, beside target by target with NumPy and SciPy; "
    "one thread.",
    "bench_fleet": "A fleet of 16 on two processes, beside the same fleet on one and beside the standard library's pool; the same weights, "
    "to the bit. In the first of the three rounds another program was using one of the cores.",
}


def _benchmarks() -> str:
    """The committed measurements of `make bench`, book/baselines/bench_*.json, as tables."""
    page = [
        _WIDE + "# Benchmarks\n",
        "From `make bench`: medians, with the lowest and the highest. Seconds are of a shared machine: read the ratios.\n",
    ]
    for path in sorted((BOOK / "baselines").glob("bench_*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        at = found["machine"]
        page.append(f"## {path.stem.removeprefix('bench_').replace('_', ' ').capitalize()}\n")
        page.append(_BENCHES[path.stem] + "\n")
        page.append(
            f"Measured on {found['date']}: {at['device_name']}, {at['cpus']} cores, {at['threads']} thread(s), torch {at['torch']}, "
            f"timm {at['timm']}.\n"
        )
        page.append("| what | median | range | promised | beside |")
        page.append("|---|---:|---:|---:|---|")
        page += [_bench_row(row) for row in found["rows"]]
        page.append("")
    return "\n".join(page)


def _place(net: str) -> tuple:
    """Where a network stands in the table: the families first, then the morph step by step."""
    kind, _, rest = net.partition("_")
    step = int(rest.partition("_")[0]) if kind == "morph" else 0
    return kind == "morph", rest.endswith("half"), step, net


def _second_order() -> str:
    """Three searches side by side, network by network, for the chapter on the second-order search."""
    path = BOOK / "baselines/bench_second_order.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    found: dict[tuple, dict[str, list[tuple]]] = {}
    for run in runs:
        if run["batch"] == 1 and run["method"] in ("adam", "lbfgs", "gauss_newton"):
            of = found.setdefault((run["net"], run["passes"]), {}).setdefault(run["method"], [])
            of.append(((run["image"], run["seed"]), run["psnr"]))

    def shown(values: list[float]) -> str:
        return (
            f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f}, n={len(values)})" if values else "not run"
        )

    def lead(by: dict[str, list[tuple]]) -> str:
        """Of Gauss-Newton over Adam, search by search."""
        one, other = (dict(by.get(method, [])) for method in ("gauss_newton", "adam"))
        gaps = [one[which] - other[which] for which in one if which in other]
        return f"{median(gaps):+.1f} ({min(gaps):+.1f} to {max(gaps):+.1f})" if gaps else "not run"

    lines = [
        "| network | passes | Adam | L-BFGS | Gauss-Newton | Gauss-Newton less Adam |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for (net, passes), by in sorted(found.items(), key=lambda case: (_place(case[0][0]), case[0][1])):
        each = " | ".join(shown([psnr for _, psnr in by.get(m, [])]) for m in ("adam", "lbfgs", "gauss_newton"))
        lines.append(f"| {net.replace('_', ' ').replace('0p', '.')} | {passes:,} | {each} | {lead(by)} |")
    return "\n".join(lines) + "\n"


def _bench_row(row: dict) -> str:
    """One measured line. Without a unit it is a PSNR, promised as a lower bar in dB, with seconds and a peer for what stands beside it."""
    unit = row.get("unit", "dB")
    digits = {
        "dB": 1,
        "s": 1,
        "ms": 1,
        "GiB": 2,
        "steps": 0,
        "×": 3,
        "attack accuracy": 3,
        "held-out accuracy": 3,
        "s a candidate and step": 3,
    }[unit]

    def shown(value: float | None) -> str:
        return "never" if value is None else f"{value:,.{digits}f}"

    if "unit" in row:
        verdict = {True: "holds", False: "**does not hold**", None: "not decided"}[row["holds"]]
        promise, note = f"{row['promise']}: {verdict}" if row["promise"] else "", row["note"]
    else:
        promise, note = "" if row["promise"] is None else f"≥ {row['promise']} dB", f"{row['seconds']:.3f} s"
        if peer := row.get("peer"):
            note += f"; {peer['name']}: {peer['median']:.1f} dB, ours takes {peer['ratio']:.2f} of its time"
    median = shown(row["median"]) if row["median"] is None else f"{shown(row['median'])} {unit}"
    return f"| {row['what']} | {median} | {shown(row['low'])} to {shown(row['high'])} | {promise} | {note} |"


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_pages)
