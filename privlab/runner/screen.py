"""What a run says at its end, on one screen; and all of it as a page, index.html in the folder of the run, pictures first."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd

from privlab.compute.files import write_atomic
from privlab.ledger import judging, report
from privlab.ledger.papers import PAPERS
from privlab.notebook.verdicts import Verdicts
from privlab.runner import canaries

Results = Mapping[str, Mapping[str, Any]]
SHOWN = 8  # of what moved; the page has all
PICTURES = 4  # of each lab
_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>privlab</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}img{max-width:48%;height:auto}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .6rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}
</style><body><h1>privlab: what this run shows</h1>"""


def finish(out: Path, results: Results, held: Results) -> str:
    """Judge what is committed, hold the run against it, write out/index.html, and return the screen.

    results: of this run's labs, by name.  held: of all labs that the folder holds, for the page.
    """
    judged = judging.judgements()
    head, *rows = report.counts(judged)
    verdicts = pd.DataFrame(rows, columns=head).set_index(head[:2])
    compared, moves = canaries.moves(out)
    against = "no lab measured a value at smoke that can be compared with the committed evidence"
    if compared or moves:
        against = f"{len(moves) or 'none'} of {compared} values differ from the committed evidence"
    parts = [_HEAD]
    for name in held:
        level = "h3" if "/" in name else "h2"  # what goes deeper stands below its lab
        parts += [f'<{level}><a href="{name}.ipynb">{name}</a></{level}>', *_pictures(out / f"{name}.ipynb")]
    parts += ["<h2>How the labs went</h2>", _labs(held).to_html(), _listed(_failures(held))]
    parts += ["<h2>Verdicts, from the committed evidence</h2>", verdicts.to_html(), f"<p>{against}</p>", _listed(moves)]
    for paper in dict.fromkeys(j.claim.paper for j in judged):
        parts.append(Verdicts(PAPERS[paper], tuple(j for j in judged if j.claim.paper == paper))._repr_html_())
    write_atomic(out / "index.html", "\n".join([*parts, "</body></html>\n"]).encode())

    tested, reproduced, certain = report.holm(judged)
    holm = f"{reproduced} of {tested} claims about means reproduced; {certain} of them also after Holm's correction for many tests"
    lines = [_labs(results).to_string(), "", verdicts.to_string(), "", holm, report.answered(judged), against]
    lines += [f"  {move}" for move in moves[:SHOWN]] + [f"  and {len(moves) - SHOWN} more"] * (len(moves) > SHOWN)
    return "\n".join([*lines, *_failures(results), f"all pictures, claims and executed labs: {out / 'index.html'}"])


def _labs(results: Results) -> pd.DataFrame:
    rows = {name: [r["status"], f"{r['seconds']:.1f}", f"{r['peak_gb'] or 0:.2f}"] for name, r in results.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["status", "seconds", "peak GB"]).rename_axis("lab")


def _failures(results: Results) -> list[str]:
    return [f"{name}: {result['error']}" for name, result in results.items() if result["error"]]


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(["<ul>", *(f"<li>{html.escape(line)}</li>" for line in lines), "</ul>"]) if lines else ""


def _pictures(notebook: Path) -> list[str]:
    """The first pictures of an executed lab, with the words that describe them."""
    cells = nbformat.read(notebook, as_version=4).cells if notebook.exists() else []
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    shown = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    return [page for page in shown if page.startswith(("<img", '<div role="img"'))][:PICTURES]
