"""One line a lab on the way: bars where there is a terminal, plain lines (a CI log) where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

_HEARTBEAT = 30  # seconds between lines about what still runs, where no bar can be drawn


class Board:
    """Where the labs of a run are.  live: whether to draw bars; if not given, whether this is a terminal."""

    def __init__(self, live: bool | None = None) -> None:
        self.live = sys.stdout.isatty() and sys.stderr.isatty() if live is None else live
        self.bars: dict[str, tqdm] = {}
        self.began: dict[str, float] = {}
        self.at: dict[str, str] = {}
        self.told = time.monotonic()

    def say(self, line: str) -> None:
        tqdm.write(line) if self.live else print(line + "\n", end="", flush=True)  # in one piece: labs speak at once

    def start(self, lab: str) -> None:
        self.began[lab], self.at[lab] = time.monotonic(), "starting its kernel"
        if self.live:
            form = "{desc}  cell {n_fmt}/{total_fmt}  {elapsed}{postfix}"
            self.bars[lab] = tqdm(total=1, desc=lab, leave=False, bar_format=form, dynamic_ncols=True)
        else:
            self.say(f"{lab}  started")

    def cell(self, lab: str, cell: int, cells: int, heading: str) -> None:
        self.at[lab] = f"cell {cell}/{cells}, {heading}"
        if self.live:
            bar = self.bars[lab]
            bar.total, bar.n = cells, cell
            bar.set_postfix_str(heading[:50])

    def tick(self) -> None:
        """Call it about once a second."""
        for bar in list(self.bars.values()):
            bar.refresh()
        if not self.live and time.monotonic() - self.told > _HEARTBEAT:
            self.told = time.monotonic()
            for lab, at in list(self.at.items()):
                self.say(f"{lab}  {self.told - self.began[lab]:.0f} s, {at}")

    def done(self, lab: str, result: Mapping[str, Any]) -> None:
        self.at.pop(lab, None)
        if lab in self.bars:
            self.bars.pop(lab).close()
        memory = f"  {result['peak_gb']:.2f} GB" if result.get("peak_gb") else ""
        why = f"  {result['error']}" if result["error"] else ""
        self.say(f"{lab}  {'FAILED' if why else 'ok'}  {result['seconds']:.1f} s{memory}{why}")

    def close(self) -> None:
        for bar in self.bars.values():
            bar.close()
