"""Where each numbered equation and algorithm of the papers is shown, by the labs' own marks, such as "APRIL, eq. 7"."""

import re
from collections.abc import Iterable, Iterator

from mdit_py_plugins.anchors.index import slugify

MARK = re.compile(r"(APRIL|GradViT|Zhang et al\.|Koh et al\.), ((?:eq\.|Theorem|Algorithm|Table|Figure) S?\.?\d+)\b")


def marks(shelf: Iterable) -> Iterator[tuple[str, str, str, str]]:
    """Paper, place, notebook and section of each mark.  shelf: of catalogue.Lab.  A section is named by its anchor, "" at the top."""
    for lab in shelf:
        for section in re.split("(?m)^# ## ", lab.path.read_text(encoding="utf-8")):
            heading, _, text = section.partition("\n")
            for paper, place in MARK.findall(" ".join(text.replace("\n#", " ").split())):
                yield paper, place, lab.name, "" if heading == "# ---" else slugify(heading)
