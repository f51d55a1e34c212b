"""The published tables: their shape, the identities that hold in them, the contradictions that are really there; and the claims' form."""

import math
import re

import pytest

from privlab.ledger import evidence, papers
from privlab.ledger.comparison import atoms, names, parse, value

ROWS = {
    "hatamizadeh2022_table1": 30, "hatamizadeh2022_table2": 20, "hatamizadeh2022_table3": 33, "hatamizadeh2022_table4": 12,
    "hatamizadeh2022_table5": 9, "hatamizadeh2022_tableS1": 6, "koh2024_table2": 64, "koh2024_table3": 17, "koh2024_table4": 12,
    "koh2024_table5": 60, "koh2024_table6": 36, "koh2024_table7": 32, "koh2024_table8": 9, "koh2024_table9": 96,
    "koh2024_table10": 6, "koh2024_table11": 4, "koh2024_table12": 14, "lu2022_table1": 24, "zhang2024_table1": 22,
    "zhang2024_table2": 16, "zhang2024_table3": 32, "zhang2024_table4": 12, "zhang2024_table5": 16, "zhang2024_table6": 12,
    "zhang2024_table7": 15, "zhang2024_table8": 70, "zhang2024_table9": 56,
}  # fmt: skip
OF_RESULTS = sorted(ROWS.keys() - {"zhang2024_table1", "koh2024_table3", "koh2024_table12", "zhang2024_table9"})
UNITS = {
    "task_acc": "fraction", "acc": "percent", "attack_acc": "fraction", "auc": "fraction", "tpr_at_fpr_0p001": "percent",
    "macro_f1": "fraction", "mse": "squared_value", "psnr": "dB", "lpips": "score", "ssim": "score", "fft2d": "score",
    "grad_loss": "loss", "attacc": "percent", "attacc_drop": "percentage_points", "delta_ratio": "ratio",
    "dist_eval": "distance", "dist_face": "distance", "user_preference": "percent",
}  # fmt: skip


def test_every_table_is_there_in_its_shape_and_every_gap_is_explained():
    assert {file.stem: len(papers.table(file.stem)) for file in papers.TABLES.glob("*.csv")} == ROWS
    for name in OF_RESULTS:
        frame = papers.table(name)
        assert list(frame.columns)[-5:] == ["metric", "mean", "std", "unit", "note"]
        assert not frame.duplicated(subset=list(frame.columns[:-4])).any(), f"a cell of {name} stands twice"
        assert frame["mean"].dtype == frame["std"].dtype == float and frame["mean"].notna().mean() > 0.7
        gaps = frame[frame["mean"].isna()]
        assert gaps["note"].str.contains("a dash in print|unreadable").all() and gaps["std"].isna().all()
        assert (frame["unit"] == frame["metric"].map(UNITS)).all() and not (frame["std"] < 0).any()
        assert frame.loc[frame["unit"] == "fraction", "mean"].dropna().between(0, 1, inclusive="neither").all()
    assert "None" in set(papers.table("zhang2024_table1")["value"])  # a setting, not a gap


# -- identities, and where they do not hold ------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "off"), [
    ("koh2024_table5", {("ResNet-50", "SSF"): 5.21}), ("koh2024_table6", {("DenseNet-121", "SSF"): 7.40}),
    ("koh2024_table8", {}), ("koh2024_table9", {}),
])  # fmt: skip
def test_ratios_follow_from_the_accuracies_but_for_those_listed(name, off):
    """To within what rounding each accuracy to two decimals leaves open."""
    table, found = papers.table(name).pivot(index=["architecture", "defense"], columns="metric", values="mean"), {}
    for (architecture, defense), row in table.iterrows():
        full = table.loc[(architecture, "No Def.")]
        fall, cost = full["attacc"] - row["attacc"], full["acc"] - row["acc"]
        if defense != "No Def.":
            ends = [(fall + a) / (cost + b) for a in (-0.01, 0.01) for b in (-0.01, 0.01)]
            if not min(ends) - 0.005 <= row["delta_ratio"] <= max(ends) + 0.005:
                found[architecture, defense] = round(fall / cost, 2)
    assert found == off


def test_zhang2024_measures_mse_on_normalised_images_and_psnr_on_pixels():
    variance = sum(s**2 for s in (0.2470, 0.2435, 0.2616)) / 3  # of CIFAR10's channels, averaged
    rows = []
    for name, key in (("5", "model"), ("6", "layers"), ("7", "model"), ("8", "step")):
        for _, row in papers.table(f"zhang2024_table{name}").groupby(key):
            mean, std = row.set_index("metric")["mean"], row.set_index("metric")["std"]
            if mean["mse"] > 0:  # Table 6's stem is printed as 0.0000
                rows.append((mean["psnr"], std["psnr"], mean["mse"]))
    assert len(rows) == 26
    # Jensen: the PSNR of the mean error is below the mean of the PSNRs.
    assert all(-10 * math.log10(m * variance) < p for p, _, m in rows)
    # With normally distributed PSNRs the mean error follows from their mean and spread.
    factors = [10 ** (-p / 10) * math.exp((s * math.log(10) / 10) ** 2 / 2) / m for p, s, m in rows]
    assert min(factors) > 0.0615 and max(factors) < 0.0725


# -- claims --------------------------------------------------------------------------------------------------------------


def test_a_claim_is_in_its_form():
    """Its fields are those of Claim, or it would not load; what they hold is held here."""
    ids = [claim.id for claim in papers.claims()]
    assert len(ids) == len(set(ids))
    for c in papers.claims():
        assert c.paper in papers.PAPERS and c.id.count(".") >= 2 and re.fullmatch(r"\d\d", c.lab), c.id
        assert c.kind in ("ordering", "magnitude", "identity", "trend") and c.statement and c.where, c.id
        assert c.exploratory in ("", *evidence.SIZES[1:]) and c.headline in (None, *range(1, 19)), c.id
        assert isinstance(c.people, int) and c.people >= 0 and c.experiments, c.id
        assert c.kind != "identity" or len(c.experiments) == 1, f"{c.id}: an identity holds within each repeat of one"
        for text in (c.compare, *c.needs):
            every = atoms(parse(text))
            assert every and all(map(names, every)) and {*names(*every)} == {*names(text)}, f"{c.id}: write metric[key]"
            value(text, dict.fromkeys(names(text), 1.0))  # whatever is outside of the grammar is found here
            assert c.kind == "identity" or "==" not in text, c.id


def test_printed_numbers_come_from_the_table_they_point_to():
    april = dict(dataset="CIFAR-10", attack="APRIL", metric="mse")
    found = [
        papers.Printed.of("mse[april]", april, "lu2022_table1.csv"),
        papers.Printed.of("iip[batch_4]", dict(prose="Appendix A"), None, mean=100),
        papers.Printed.of("psnr[step_10]", dict(step=10, metric="psnr"), "zhang2024_table8.csv"),
    ]
    assert found == [
        papers.Printed("mse[april]", 0.002, 0.006, "squared_value", "Table 1"),
        papers.Printed("iip[batch_4]", 100.0, None, None, "Appendix A"),
        papers.Printed("psnr[step_10]", 29.93, 3.58, "dB", "Table 8"),
    ]
    told = ["mse[april] = 0.002 ± 0.006", "iip[batch_4] = 100", "psnr[step_10] = 29.93 ± 3.58 dB"]
    assert [*map(str, found)] == told
