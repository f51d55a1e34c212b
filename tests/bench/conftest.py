"""The file of a bench: the rows of the book's table, and the runs that they are made of. A run that it holds is not made again."""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

import measured_on
import psutil
import pytest

from privlab.compute.files import write_atomic

BASELINES = Path(__file__).parents[2] / "book/baselines"
QUIET = 0.1  # cores that others may use on a machine that is called quiet


class Table:
    """Rows and runs of one file; each is written down at once, so that an interrupted bench goes on. Remove the file to begin anew.

    A new file begins with the rows of the book's, each with its date: what is not measured again stays.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.today = path, date.today().isoformat()
        book = BASELINES / path.name
        held = json.loads((path if path.exists() else book).read_text()) if path.exists() or book.exists() else {}
        self.rows: list[dict] = [{"date": held["date"]} | row for row in held.get("rows", [])]
        self.runs: list[dict] = held.get("runs", []) if path.exists() else []

    def kept(self, make: Callable[[], dict], **key) -> dict:
        """The run on file under these settings, or a new one, with the cores that other programs used meanwhile."""
        for run in self.runs:
            if key.items() <= run.items():
                return run
        began, busy = time.perf_counter(), _others()
        run = key | make()
        used = (_others() - busy) / (time.perf_counter() - began)
        self.runs.append(run | {"others": round(max(0.0, used), 2)})
        self._save()
        print(f"  {self.runs[-1]}", flush=True)
        return self.runs[-1]

    def rounds(self, n: int, make: Callable[[int], dict], **key) -> list[dict]:
        """Runs 0 to n - 1 of one kind, as `kept` has each."""
        return [self.kept(partial(make, turn), **key, round=turn) for turn in range(n)]

    def row(
        self, what: str, values: Iterable[float | None], unit: str, promise: str | None = None, holds: bool | None = None,
        note: str = "", runs: Sequence[dict] = (),
    ) -> None:  # fmt: skip
        """Put one line of the table down, in place of an earlier one of its name.

        values: one a run, None for a run that never got there, which counts as later than all others.
        promise: in words.  holds: None where there is no promise, or where the runs do not decide it.
        runs: what was timed; the note says what else was running then.
        """
        late = [math.inf if v is None else v for v in values]
        low, centre, high = (None if v == math.inf else v for v in (min(late), median(late), max(late)))
        if others := [run["others"] for run in runs]:
            load = f"others used {median(others):.1f} of {psutil.cpu_count()} cores"
            note = "; ".join(filter(None, [note, "the machine was quiet" if self.quiet(runs) else load]))
        line = dict(
            what=what, median=centre, low=low, high=high, n=len(late), unit=unit, promise=promise, holds=holds, note=note,
            date=self.today,
        )  # fmt: skip
        self.rows[:] = [old for old in self.rows if old["what"] != what] + [line]
        self._save()
        print("; ".join(f"{name}: {value}" for name, value in line.items()), flush=True)

    @staticmethod
    def quiet(runs: Sequence[dict]) -> bool:
        """Whether others left the cores alone, in the median of these runs."""
        return median(run["others"] for run in runs) <= QUIET

    def _save(self) -> None:
        content = dict(date=self.today, machine=measured_on.about("cpu"), rows=self.rows, runs=self.runs)
        write_atomic(self.path, json.dumps(content, indent=1).encode())


def _others() -> float:
    """Seconds that all processors were busy so far, less those of this process and of those that it has waited for."""
    all_, own = psutil.cpu_times(), psutil.Process().cpu_times()
    return all_.user + all_.system + all_.nice + all_.steal - sum(own[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies in this folder is a bench: `make bench` runs it, and no other command."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("bench")


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Table:
    """That of the test's file: runs/bench/bench_NAME.json for test_NAME_bench.py."""
    name = Path(request.node.path).stem.removeprefix("test_").removesuffix("_bench")
    return Table(Path(f"runs/bench/bench_{name}.json"))
