"""Defences by their accuracy at the task and what an attack gets, a place for each, and behind each place its pictures.

Pointing at a place, or coming to it with the tab key, shows the card behind it; until then the first card is there. That takes style
sheets alone, so it works on a static page too; where they are off, all cards stand below the chart.
"""

from __future__ import annotations

import html
import zlib
from collections.abc import Mapping

import numpy as np

from privlab.metrics.tradeoff import front
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import MARKERS, Drawing, Picture, Values

_STYLE = """\
.privlab-tradeoff{position:relative;margin:0;max-width:720px;color:inherit;text-align:left}
.privlab-tradeoff .place{position:absolute;width:28px;height:28px;margin:-14px 0 0 -14px;border-radius:50%;cursor:pointer}
.privlab-tradeoff .place:hover,.privlab-tradeoff .place:focus{outline:3px solid #0072B2}
.privlab-tradeoff .cards{display:grid}
.privlab-tradeoff .card{grid-area:1/1;visibility:hidden;background:#fff;color:#000;padding:4px}
.privlab-tradeoff .card:first-child{visibility:visible}
.privlab-tradeoff:has(.place:is(:hover,:focus)) .card{visibility:hidden}
"""


def tradeoff_chart(
    points: Mapping[str, Values],
    cards: Mapping[str, Picture] | None = None,
    *,
    alt: str,
    ylabel: str = "attack accuracy (%)",
) -> Drawing:
    """Each defence where its mean lies, its draws as small marks, and a line through those that no other beats in both.

    points: name -> (draws, 2), task accuracy and attack accuracy of each draw, in percent; up to fourteen.
    cards: name -> what to show of it, such as the reconstructions; some may be missing.
    Raises ValueError for more than fourteen, or an empty alt.
    """
    picture.check_few("points", points, 2 * len(MARKERS))
    figure, ax = picture.empty_chart("task accuracy (%)", ylabel, "", height=4.6)
    means = {}
    for i, (name, values) in enumerate(points.items()):
        draws = np.asarray(values, dtype=np.float64)
        means[name] = (float(draws[:, 0].mean()), float(draws[:, 1].mean()))
        ax.plot(*draws.T, ms=4, alpha=0.45, **picture.mark(i))
        ax.plot(*means[name], ms=10, label=name, **picture.mark(i))
    best = front(means)
    ax.plot(*np.array([means[name] for name in best]).T, color="#555555", linestyle="--", linewidth=1, zorder=0)
    picture.legend_above(figure, most=4, handlelength=1.5)
    chart = picture.render(figure, alt)  # from now on the axes know where they lie
    shares = figure.transFigure.inverted().transform(ax.transData.transform([*means.values()]))
    places = {name: (float(x), float(1 - y)) for name, (x, y) in zip(means, shares, strict=True)}
    words = {
        name: f"{name}: task {x:.1f}, attack {y:.1f}{', on the front' * (name in best)}"
        for name, (x, y) in means.items()
    }
    markup = _with_cards(chart, places, {name: (words[name], card) for name, card in (cards or {}).items()})
    return Drawing(markup, f"{alt} {'; '.join(words.values())}")


def _with_cards(
    chart: Picture, places: Mapping[str, tuple[float, float]], cards: Mapping[str, tuple[str, Picture]]
) -> str:
    """The chart as HTML, and below it the cards, all in one place, of which a rule for each shows the one that is asked for.

    places: name -> shares of the chart's width and height, from the left and from the top.  cards: name -> words and picture.
    """
    key = f"p{zlib.crc32(chart.png)}-"  # tells the charts of one page apart
    spots, shown, rules = [], [], []
    for i, (name, (words, card)) in enumerate(cards.items()):
        (x, y), words = places[name], html.escape(words)
        spots.append(
            f'<span class="place {key}{i}" tabindex="0" role="button" aria-label="{words}" title="{words}" '
            f'style="left:{100 * x:.2f}%;top:{100 * y:.2f}%"></span>'
        )
        shown.append(f'<div class="card {key}{i}"><b>{words}</b><br>{card.tag()}</div>')
        asked = f".privlab-tradeoff:has(.place.{key}{i}:is(:hover,:focus))"
        rules.append(f"{asked} .card.{key}{i}{{visibility:visible;z-index:1}}")
    hint = "Point at a large mark, or tab to it, to see the pictures behind it." if cards else ""
    return (
        f'<figure class="privlab-tradeoff"><style>{_STYLE}{"".join(rules)}</style>'
        f'<div style="position:relative">{chart.tag()}{"".join(spots)}</div>'
        f'<figcaption>{hint}</figcaption><div class="cards">{"".join(shown)}</div></figure>'
    )
