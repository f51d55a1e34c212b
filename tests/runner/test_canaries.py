"""What moved against the committed evidence: exact values, and first repeats at smoke."""

from dataclasses import replace

import pytest

from privlab.ledger import evidence
from privlab.ledger.evidence import Repeat
from privlab.runner import canaries

HERE = {"torch": "2", "timm": "1", "processor": "A", "threads": "1"}
ONE = "lab.one"


def repeat(values, digest="it", **versions):
    return Repeat(0, digest, values, 1.0, 1.0, versions=HERE | versions)


@pytest.mark.parametrize(
    ("now", "versions", "moved"),
    [
        ({"psnr[a]": 20.3, "mse[b]": 0.0}, {}, []),
        ({"psnr[a]": 20.5, "mse[b]": 0.0}, {}, ["canary: psnr[a], 20 before, 20.5 now"]),
        ({"psnr[a]": 20.5, "mse[b]": 0.0}, {"processor": "B"}, []),
        ({"psnr[a]": 20.0, "mse[b]": 1e-12}, {"torch": "3"}, ["exact value: mse[b], 0 before, 1e-12 now"]),
        ({"psnr[a]": 20.0, "ssim[c]": 1.0}, {}, ["canary: mse[b], no longer measured", "canary: ssim[c], new"]),
    ],
)
def test_what_moved_between_two_measurements(now, versions, moved):
    assert canaries.moved(repeat(now, **versions), repeat({"psnr[a]": 20.0, "mse[b]": 0.0})) == moved


def test_of_the_lines_of_a_repeat_that_of_the_same_processor_and_card_is_asked():
    a, b = repeat({"acc[a]": 30.0}), repeat({"acc[a]": 31.0}, processor="B")
    gpu = replace(repeat({"acc[a]": 31.0}, card="one"), device="cuda")
    assert canaries.moved(replace(a, values={"acc[a]": 30.01}), a)  # without a search to the last digit
    assert canaries.nearest(b, [a, b]) == b and canaries.nearest(repeat({}, processor="C"), [a, b]) == a
    assert canaries.nearest(replace(gpu, device="cuda:1"), [a, gpu]) == gpu


def test_a_run_is_held_against_the_committed_line_of_its_protocol(tmp_path, monkeypatch):
    run, book = tmp_path / "run", tmp_path / "book"
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(book))
    assert canaries.moves(run) == (0, [])
    evidence.append(ONE, "smoke", repeat({"psnr[a]": 30.0}), book)
    evidence.append(ONE, "smoke", repeat({"psnr[a]": 7.0}, "of_before"), book)
    evidence.append(ONE, "smoke", repeat({"psnr[a]": 30.0}), run / "live/05_april")
    assert canaries.moves(run) == (1, [])
    evidence.append("lab.other", "smoke", repeat({"psnr[b]": 31.0}), run / "live/deeper/05_more")
    assert canaries.moves(run) == (1, ["canary: lab.other, repeat 0 of this protocol has no committed line"])
