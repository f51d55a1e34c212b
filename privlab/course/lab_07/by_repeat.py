"""What the searches of an experiment found, as pictures, with a slider for the repeat."""

from collections.abc import Sequence

from privlab.experiments.loading import Evidence
from privlab.experiments.measuring import SHOWN
from privlab.notebook import plots
from privlab.notebook.explore import Explorer


def by_repeat(kept: Evidence, picture: str, titles: Sequence[str]) -> Explorer:
    """A row of images for each title, of the repeat that the slider stands at.

    picture: a strip that the experiment keeps, as many images for each title.  Raises KeyError where there is none.
    """

    def draw(repeat: int) -> plots.Picture:
        images = plots.tiles(kept.picture(picture, kept.repeats[repeat - 1]), 32)  # pixels of a side
        rows = dict(zip(titles, images.split(len(images) // len(titles)), strict=True))
        return plots.images(rows, f"Repeat {repeat}. Rows of images: {', '.join(titles)}.")

    return Explorer(draw, repeat=range(1, min(len(kept), SHOWN) + 1))
