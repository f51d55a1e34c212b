"""The end of a run: one screen, and a page that has everything, pictures first."""

import html

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

from privlab.ledger import judging, report
from privlab.runner import canaries, screen

RESULTS = {
    "05_april": {"status": "ok", "seconds": 23.04, "peak_gb": 1.114, "error": None},
    "99_other": {"status": "failed", "seconds": 1.0, "peak_gb": None, "error": "In [3]: <boom>"},
}
TAG = '<img src="data:image/png;base64,{}" alt="dots &amp; lines" style="width:720px">'


def test_the_screen_and_the_page_have_labs_verdicts_pictures_and_what_moved(tmp_path, monkeypatch):
    moves = [f"canary: psnr[a_{i}], 1 before, 2 now" for i in range(12)]
    monkeypatch.setattr(canaries, "moves", lambda out: (40, moves))
    shown = [new_output("display_data", {"text/html": TAG.format(f"p{i}")}) for i in range(6)]
    nbformat.write(new_notebook(cells=[new_code_cell("", outputs=shown)]), tmp_path / "05_april.ipynb")
    lines = screen.finish(tmp_path, RESULTS, RESULTS).splitlines()
    assert lines[0].split() == ["status", "seconds", "peak", "GB"]
    assert [line.split() for line in lines[2:4]] == [
        ["05_april", "ok", "23.0", "1.11"],
        ["99_other", "failed", "1.0", "0.00"],
    ]
    assert report.answered(judging.judgements()) in lines and len(lines) < 45
    at = lines.index("12 of 40 values differ from the committed evidence")
    assert lines[at + 1] == "  canary: psnr[a_0], 1 before, 2 now" and lines[at + 9] == "  and 4 more"
    assert lines[-2] == "99_other: In [3]: <boom>" and lines[-1].endswith(f": {tmp_path / 'index.html'}")

    page = (tmp_path / "index.html").read_text()
    assert page.count("1 before, 2 now") == 12 and "In [3]: &lt;boom&gt;" in page
    assert page.count("<img ") == screen.PICTURES and page.index(TAG.format("p0")) < page.index("<table")
    for judgement in judging.judgements("05"):
        assert html.escape(judgement.claim.statement) in page
