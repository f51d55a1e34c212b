"""Every numbered table and figure of the four papers: listed, and with the claims that name it; and the page that shows them."""

import ledger_pages
import pytest

from privlab.ledger import papers
from privlab.ledger.judging import INCONCLUSIVE, MEASURING, REPRODUCED, STAND_IN, Judgement

# How many of each the papers have; the supplements' S.1 and so on are counted with the others.
NUMBERED = {
    "zhang2024": {"Table ": 9, "Figure ": 12},
    "koh2024": {"Table ": 12, "Figure ": 13},
    "lu2022": {"Theorem ": 2, "Algorithm ": 2, "Table ": 1, "Figure ": 8},
    "hatamizadeh2022": {"Table ": 5, "Figure ": 7, "Table S.": 1, "Figure S.": 7},
}


@pytest.mark.parametrize("where, places", [
    ("Tables 5, 6 and 9; Section 4.2", {"Table 5", "Table 6", "Table 9"}),
    ("Section 9.1, eqs. 4 to 7; Figures 4a and 4b", {"Figure 4"}),
    ("Table 1, caption; Figure 8 (A); Theorem 1", {"Table 1", "Figure 8", "Theorem 1"}),
    ("Table S.1; Table S2; Table 10", {"Table S.1", "Table S.2", "Table 10"}),
])  # fmt: skip
def test_what_a_where_names(where, places):
    assert ledger_pages.named(where) == places


def test_each_number_and_each_table_is_listed_once_and_has_claims_or_says_why_not():
    places = ledger_pages.places()
    listed = sorted((place["paper"], place["place"]) for place in places)
    every = [(p, f"{k}{n}") for p, kinds in NUMBERED.items() for k, count in kinds.items() for n in range(1, count + 1)]
    assert listed == sorted(every)
    named = {f"{paper}_{place.lower().replace(' ', '').replace('s.', 'S')}" for paper, place in listed}
    assert {file.stem for file in papers.TABLES.glob("*.csv")} <= named
    assert all(place["shows"] and (place["claims"] or place["why_not"]) for place in places)


def test_the_page_counts_places_and_groups_claims_by_verdict():
    asked = []
    for name, verdict in (("a.b", REPRODUCED), ("a.c", MEASURING), ("section4.alone", INCONCLUSIVE)):
        claim = papers.Claim(f"lu2022.{name}", "T", "05", "ordering", "S.", "psnr[a] > psnr[b]")
        asked.append(Judgement(claim, "class", verdict, "r", scope="" if verdict == MEASURING else STAND_IN))
    claims = ["lu2022.a.b", "lu2022.a.c"]
    places = [
        dict(paper="lu2022", place="Table 1", shows="A | B.", claims=claims, why_not="Not E."),
        dict(paper="lu2022", place="Figure 1", shows="C.", claims=(), why_not="A drawing."),
    ]
    text = ledger_pages.coverage(places, asked)
    assert "2 numbered tables" in text and "1 have claims; each of the other 1 has the reason" in text
    assert "Of the 3 claims on these papers 2 speak about one of them or more, and 1 rest on the text alone" in text
    link = '<a href="../claims/lu2022.html#lu2022.{0}">lu2022.{0}</a>'.format
    cell = f"**reproduced, a stand-in**: {link('a.b')} <br>**measuring**: {link('a.c')} <br>Not E."
    assert rf"| **Table 1** | A \| B. | {cell} |" in text and "| **Figure 1** | C. | A drawing. |" in text
    assert f"On the text alone: <br>**inconclusive, a stand-in**: {link('section4.alone')}" in text
