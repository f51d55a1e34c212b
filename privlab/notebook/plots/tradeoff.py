"""Defences by their accuracy at the task and what an attack gets, a place for each, and behind each place its pictures.

Pointing at a place, or coming to it with the tab key, shows the card behind it; until then the first card is there. That takes style
sheets alone, so it works on a static page too; where they are off, all cards stand below the chart.
"""

from __future__ import annotations

import html
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privlab.metrics.tradeoff import front
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, MARKERS, Picture, Values

_STYLE = """\
.privlab-tradeoff{position:relative;margin:0;max-width:720px;color:inherit;text-align:left}
.privlab-tradeoff .place{position:absolute;width:28px;height:28px;margin:-14px 0 0 -14px;border-radius:50%;cursor:pointer}
.privlab-tradeoff .place:hover,.privlab-tradeoff .place:focus{outline:3px solid #0072B2}
.privlab-tradeoff .cards{position:relative;min-height:TALLpx}
.privlab-tradeoff .card{position:absolute;left:0;top:0;visibility:hidden;background:#fff;color:#000;padding:4px}
.privlab-tradeoff .card:first-child{visibility:visible}
.privlab-tradeoff:has(.place:is(:hover,:focus)) .card{visibility:hidden}
"""


@dataclass(frozen=True, repr=False)
class TradeoffChart:
    """The chart, where on it each place lies (shares of its width and height, from the left and from the top), and the cards."""

    chart: Picture
    places: dict[str, tuple[float, float]]
    words: dict[str, str]
    cards: dict[str, Picture] = field(default_factory=dict)
    tall: int = 0

    def tag(self, key: str = "p") -> str:
        """The HTML.  key: tells the charts of one page apart."""
        spots, cards, rules = [], [], []
        for i, (name, card) in enumerate(self.cards.items()):
            (x, y), word = self.places[name], html.escape(self.words[name])
            spots.append(
                f'<span class="place {key}{i}" tabindex="0" role="button" aria-label="{word}" title="{word}" '
                f'style="left:{100 * x:.2f}%;top:{100 * y:.2f}%"></span>'
            )
            cards.append(f'<div class="card {key}{i}"><b>{word}</b><br>{card.tag()}</div>')
            rules.append(
                f".privlab-tradeoff:has(.place.{key}{i}:is(:hover,:focus)) .card.{key}{i}{{visibility:visible;z-index:1}}"
            )
        style = _STYLE.replace("TALL", str(self.tall)) + "\n".join(rules)
        hint = "Point at a large mark, or tab to it, to see the pictures behind it." if self.cards else ""
        return (
            f'<figure class="privlab-tradeoff"><style>{style}</style>'
            f'<div style="position:relative">{self.chart.tag()}{"".join(spots)}</div>'
            f'<figcaption>{hint}</figcaption><div class="cards">{"".join(cards)}</div></figure>'
        )

    def __repr__(self) -> str:
        return f"{self.chart.alt} " + "; ".join(self.words.values())

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(f"p{zlib.crc32(self.chart.png)}-"), "text/plain": repr(self)}


def tradeoff_chart(
    points: Mapping[str, Values],
    cards: Mapping[str, Picture] | None = None,
    *,
    alt: str,
    xlabel: str = "task accuracy (%)",
    ylabel: str = "attack accuracy (%)",
) -> TradeoffChart:
    """Each defence where its mean lies, its draws as small marks, and a line through those that no other beats in both.

    points: name -> (draws, 2), task accuracy and attack accuracy of each draw; up to fourteen.
    cards: name -> what to show of it, such as the reconstructions; some may be missing.
    Raises ValueError for points of another shape or not finite, more than fourteen, a card of nobody, or an empty alt.
    """
    cards = dict(cards or {})
    if not 1 <= len(points) <= 2 * len(MARKERS):
        raise ValueError(f"points: got {len(points)}; give 1 to {2 * len(MARKERS)}, as more cannot be told apart")
    if unknown := [name for name in cards if name not in points]:
        raise ValueError(f"cards: there is no {unknown[0]!r} among the points; they are {list(points)}")
    figure, ax = picture.empty_chart(xlabel, ylabel, "", height=4.6)
    means: dict[str, tuple[float, float]] = {}
    for i, (name, values) in enumerate(points.items()):
        dots = np.asarray(values, dtype=np.float64)
        if dots.ndim != 2 or dots.shape[1:] != (2,) or len(dots) == 0 or not np.isfinite(dots).all():
            raise ValueError(f"points: {name!r} has shape {dots.shape}; give finite pairs (draws, 2)")
        x, y = means[name] = (float(dots[:, 0].mean()), float(dots[:, 1].mean()))
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]
        face = "white" if i >= len(COLOURS) else colour
        ax.plot(*dots.T, marker, color=colour, mfc=face, ms=4, alpha=0.45, linestyle="none")
        ax.plot(x, y, marker, color=colour, mfc=face, ms=10, linestyle="none", label=name)
    best = front(means)
    ax.plot(*np.array([means[name] for name in best]).T, color="#555555", linestyle="--", linewidth=1, zorder=0)
    picture.legend_above(figure, most=4, handlelength=1.5)
    chart = picture.render(figure, alt)  # from now on the axes know where they lie
    wide, high = figure.canvas.get_width_height()
    at = {name: ax.transData.transform(mean) for name, mean in means.items()}
    places = {name: (float(x / wide), float(1 - y / high)) for name, (x, y) in at.items()}
    words = {
        name: f"{name}: task {x:.1f}, attack {y:.1f}{', on the front' if name in best else ''}"
        for name, (x, y) in means.items()
    }
    tall = max((_height(card) for card in cards.values()), default=0)
    return TradeoffChart(chart, places, words, cards, tall)


def _height(card: Picture) -> int:
    """In CSS pixels, with the line above it."""
    width, height = (int.from_bytes(card.png[at : at + 4], "big") for at in (16, 20))  # of a PNG's first chunk
    return round(card.width * height / width) + 34
