"""Charts of what was measured: the committed repeats, the paper's number, and the reader's own dots, in one picture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privlab import ledger
from privlab.experiments.loading import Evidence
from privlab.notebook.plots import charts
from privlab.notebook.plots.picture import Picture


def evidence(
    kept: Evidence,
    mine: Evidence | None,
    rows: Mapping[str, str],
    *,
    xlabel: str,
    published: Mapping[str, float] | None = None,
    log: bool = False,
) -> Picture:
    """Every repeat of the evidence as a dot, a row for each name, beside what was just measured; it describes itself.

    kept: the committed evidence, which may be empty.  mine: measured live; None where the lab measures nothing here.
    rows: label -> name of a value, such as psnr[cifar10, swin], or a difference of two, "psnr[a] - psnr[b]", taken repeat by repeat.
    published: label -> the paper's number.  log: whether the axis is logarithmic.
    Raises ValueError where no row has a value, KeyError for a name that the evidence does not know.
    """
    live = {label: mine[name] for label, name in rows.items() if mine is not None and name in mine}
    groups = {label: kept[name] for label, name in rows.items() if len(kept) and (name in kept or label not in live)}
    groups = {label: groups.get(label, np.array([])) for label in rows if label in groups or label in live}
    if not groups:
        raise _nothing(kept)
    printed = {label: number for label, number in (published or {}).items() if label in groups}
    spoken = []
    for label, values in groups.items():
        said = [f"{values.mean():.3g} ± {values.std(ddof=1):.2g}"] if len(values) > 1 else [f"{v:.3g}" for v in values]
        said += [f"yours {live[label].mean():.3g}"] if label in live else []
        said += [f"the paper {printed[label]:g}"] if label in printed else []
        spoken.append(f"{label}: {', '.join(said)}")
    return charts.dots(
        groups, xlabel=xlabel, alt=f"{xlabel}. {'; '.join(spoken)}. {kept!r}.", published=printed, live=live, log=log,
        each=_committed(kept), yours=_yours(kept, mine),
    )  # fmt: skip


def published(table: str, rows: Mapping[str, str], **where: str) -> dict[str, float]:
    """The paper's numbers for the rows of a chart: published("zhang2024_table5", {"Swin": "Swin-T"}, metric="psnr", dataset="CIFAR10").

    table: as `ledger.papers.tables` names it.  rows: label -> what the paper's row is called, in any of its columns.
    where: column -> what stands in it, until each row is the only one.  Raises ValueError for a row that none or several of its lines fit.
    """
    frame = ledger.papers.table(table)
    for column, value in where.items():
        frame = frame[frame[column] == value]
    found = {label: frame.loc[(frame == name).any(axis=1), "mean"] for label, name in rows.items()}
    if wrong := [label for label, means in found.items() if len(means) != 1]:
        several = f"{len(found[wrong[0]])} rows of {table} with {where} are called {rows[wrong[0]]!r}"
        raise ValueError(f"{several}; name one, by {', '.join(frame.columns[:3])}")
    return {label: float(means.item()) for label, means in found.items()}


def evidence_lines(
    kept: Evidence,
    mine: Evidence | None,
    series: Mapping[str, Mapping[float | str, str]],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "",
    thresholds: Mapping[str, float] | None = None,
) -> Picture:
    """Mean and standard deviation of the evidence along an axis, a line for each label, with the reader's own points.

    series: label -> {x: name of a value}, such as {"Swin": {0.01: "psnr[swin, noise_0p01]"}}.
    kept, mine, log, thresholds: as in `evidence` and `lines`.  Raises ValueError where nothing is measured.
    """
    drawn, live = _points(kept, series), {label: points[:2] for label, points in _points(mine, series).items()}
    shown, about = kept, f"{_committed(kept)}, mean ± std"
    if not drawn:
        drawn, live, shown, about = live, {}, mine or kept, "your run alone"
    if not drawn:
        raise _nothing(kept)
    spoken = [f"{label} from {y[0]:.3g} at {x[0]} to {y[-1]:.3g} at {x[-1]}" for label, (x, y, *_) in drawn.items()]
    return charts.lines(
        drawn, xlabel=f"{xlabel}; {about}", ylabel=ylabel, log=log, thresholds=thresholds,
        live={label: points for label, points in live.items() if label in drawn}, yours=_yours(kept, mine),
        alt=f"{ylabel} against {xlabel}: {'; '.join(spoken)}. {shown!r}.",
    )  # fmt: skip


def _points(of: Evidence | None, series: Mapping[str, Mapping[float | str, str]]) -> dict[str, list[np.ndarray]]:
    """x, mean and standard deviation along each line, of the names that are there; a line without any is left out."""
    lines = {}
    for label, names in series.items():
        if there := {x: of[name] for x, name in names.items() if of is not None and name in of}:
            values = np.array([*there.values()])
            lines[label] = [np.array([*there]), values.mean(1), values.std(1, ddof=values.shape[1] > 1)]
    return lines


def _nothing(kept: Evidence) -> ValueError:
    return ValueError(f"{kept!r}, and nothing was measured live: there is nothing to draw")


def _committed(kept: Evidence) -> str:
    """What a legend calls the evidence."""
    return f"committed: {len(kept)} repeat{'s' * (len(kept) != 1)} at {kept.size}"


def _yours(kept: Evidence, mine: Evidence | None) -> str:
    """What a legend calls the reader's run: with its size, where the evidence has another."""
    if mine is None or not len(kept) or mine.size == kept.size:
        return charts.YOURS
    return f"{charts.YOURS}, at {mine.size}"
