"""What a run says at its end, on one screen; and all of it as a page, index.html in the folder of the run, pictures first."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from privlab.compute.atomic import write_atomic
from privlab.ledger import headlines, judging, panel, report
from privlab.ledger.judging import Judgement
from privlab.ledger.papers import PAPERS
from privlab.runner import canaries
from privlab.runner.canaries import Move

Results = Mapping[str, Mapping[str, Any]]
SHOWN = 8  # of what moved; the page has all
PICTURES = 4  # of each lab
_PICTURE = re.compile(r"<img\b[^>]*\bsrc=[\"']data:image/[^>]*>")
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}img{max-width:48%;height:auto}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .6rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"""


def finish(out: Path, results: Results, held: Results | None = None) -> str:
    """Judge what is committed, hold the run against it, write out/index.html, and return the screen.

    results: of this run's labs, by name.  held: of all labs that the folder holds, for the page; these alone if not given.
    """
    judged = judging.judgements()
    compared, moves = canaries.moves(out)
    page = out / "index.html"
    write_atomic(page, _page(out, held or results, judged, compared, moves).encode())
    tested, reproduced, certain = report.holm(judged)
    lines = [columns(_labs(results)), "", columns(report.counts(judged)), ""]
    lines.append(
        f"{reproduced} of {tested} claims about means reproduced; {certain} of them also after Holm's correction for many tests"
    )
    lines.append(headlines.count(judged))
    lines.append(_against(compared, moves))
    lines += [f"  {move}" for move in moves[:SHOWN]]
    lines += [f"  and {len(moves) - SHOWN} more"] if len(moves) > SHOWN else []
    lines += [f"{name}: {r['error']}" for name, r in results.items() if r["error"]]
    return "\n".join([*lines, f"all pictures, claims and executed labs: {page}"])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns under a ruled head, numbers to the right."""
    turned = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in turned]
    right = [all(cell in ("-", "?") or cell.replace(".", "").isdigit() for cell in column[1:]) for column in turned]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _labs(results: Results) -> list[list[str]]:
    rows = [["lab", "status", "seconds", "peak GB"]]
    for name, result in results.items():
        memory = f"{result['peak_gb']:.2f}" if result.get("peak_gb") else "?"
        rows.append([name, result["status"], f"{result['seconds']:.1f}", memory])
    return rows


def _against(compared: int, moves: Sequence[Move]) -> str:
    if not compared and not moves:
        return "no lab measured a value at smoke that can be compared with the committed evidence"
    return f"{len(moves) or 'none'} of {compared} values differ from the committed evidence"


def _page(out: Path, results: Results, judged: Sequence[Judgement], compared: int, moves: Sequence[Move]) -> str:
    parts = ["<h1>privlab: what this run shows</h1>"]
    for name in results:
        shown = "\n".join(_pictures(out / f"{name}.ipynb"))
        level = "h3" if "/" in name else "h2"  # what goes deeper stands below its lab
        parts.append(f'<{level}><a href="{name}.ipynb">{name}</a></{level}>\n{shown}')
    parts += ["<h2>How the labs went</h2>", _table(_labs(results))]
    parts += [f"<p>{html.escape(name)}: {html.escape(r['error'])}</p>" for name, r in results.items() if r["error"]]
    parts += ["<h2>Verdicts, from the committed evidence</h2>", _table(report.counts(judged))]
    parts.append(f"<p>{html.escape(_against(compared, moves))}</p>")
    parts += ["<ul>", *(f"<li>{html.escape(str(move))}</li>" for move in moves), "</ul>"] if moves else []
    for paper in dict.fromkeys(j.claim.paper for j in judged):
        mine = tuple(j for j in judged if j.claim.paper == paper)
        parts.append(panel.Panel(PAPERS[paper], mine)._repr_html_())
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>privlab</title><style>{_STYLE}</style>'
    return "\n".join([f"{head}<body>", *parts, "</body></html>\n"])


def _pictures(notebook: Path) -> list[str]:
    """The first pictures of an executed lab, with the words that describe them."""
    found: list[str] = []
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (OSError, ValueError):
        return []
    for output in (o for cell in cells for o in cell.get("outputs", [])):
        found += _PICTURE.findall("".join(output.get("data", {}).get("text/html", "")))
    return found[:PICTURES]


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    tagged = [("th", head), *(("td", row) for row in body)]
    lines = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in tagged]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
