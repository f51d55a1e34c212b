"""The published tables: their shape, the identities that hold in them, the contradictions that are really there; and the claims."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pandas as pd
import pytest

from privlab.ledger import comparison, evidence, papers

RESULTS = ["metric", "mean", "std", "unit", "note"]
SETTINGS = ["setting", "value", "unit", "note"]
ROWS = {
    "hatamizadeh2022_table1": 30, "hatamizadeh2022_table2": 20, "hatamizadeh2022_table3": 33, "hatamizadeh2022_table4": 12,
    "hatamizadeh2022_table5": 9, "hatamizadeh2022_tableS1": 6, "koh2024_table2": 64, "koh2024_table3": 17, "koh2024_table4": 12,
    "koh2024_table5": 60, "koh2024_table6": 36, "koh2024_table7": 32, "koh2024_table8": 9, "koh2024_table9": 96,
    "koh2024_table10": 6, "koh2024_table11": 4, "koh2024_table12": 14, "lu2022_table1": 24, "zhang2024_table1": 22,
    "zhang2024_table2": 16, "zhang2024_table3": 32, "zhang2024_table4": 12, "zhang2024_table5": 16, "zhang2024_table6": 12,
    "zhang2024_table7": 15, "zhang2024_table8": 70, "zhang2024_table9": 56,
}  # fmt: skip
OF_SETTINGS = {"zhang2024_table1", "koh2024_table3", "koh2024_table12"}
OF_RESULTS = sorted(ROWS.keys() - OF_SETTINGS - {"zhang2024_table9"})
UNITS = {
    "task_acc": "fraction", "acc": "percent", "attack_acc": "fraction", "auc": "fraction", "tpr_at_fpr_0p001": "percent",
    "macro_f1": "fraction", "mse": "squared_value", "psnr": "dB", "lpips": "score", "ssim": "score", "fft2d": "score",
    "grad_loss": "loss", "attacc": "percent", "attacc_drop": "percentage_points", "delta_ratio": "ratio",
    "dist_eval": "distance", "dist_face": "distance", "user_preference": "percent",
}  # fmt: skip


def cells(name: str, **settings: str) -> pd.DataFrame:
    frame = papers.table(name)
    for column, value in settings.items():
        frame = frame[frame[column] == value]
    return frame


def mean(name: str, **settings: str) -> float:
    (value,) = cells(name, **settings)["mean"]
    return float(value)


def std(name: str, **settings: str) -> float:
    (value,) = cells(name, **settings)["std"]
    return float(value)


def koh(name: str, architecture: str, metric: str = "attacc", **setting: str) -> float:
    return mean(f"koh2024_{name}", architecture=architecture, metric=metric, **setting)


# -- shape ---------------------------------------------------------------------------------------------------------------


def test_every_table_is_there_with_its_rows_and_columns():
    assert papers.tables() == sorted(ROWS)
    assert {name: len(papers.table(name)) for name in ROWS} == ROWS
    assert sum(ROWS.values()) == 735
    for name in OF_RESULTS:
        assert list(papers.table(name).columns)[-7:] == [*RESULTS, "mean_text", "std_text"]
    for name in OF_SETTINGS:
        assert list(papers.table(name).columns)[-4:] == SETTINGS
    assert list(papers.table("zhang2024_table9").columns)[:2] == ["step", "step_name"]


@pytest.mark.parametrize("name", OF_RESULTS)
def test_every_number_parses_and_every_gap_is_explained(name):
    frame = papers.table(name)
    assert frame["mean"].dtype == frame["std"].dtype == float
    assert (frame["mean"].isna() == (frame["mean_text"] == "")).all() and frame["mean"].notna().mean() > 0.7
    assert (frame["std"].isna() == (frame["std_text"] == "")).all()
    gaps = frame[frame["mean"].isna()]
    assert gaps["note"].str.contains("a dash in print|unreadable").all() and gaps["std"].isna().all()
    assert (frame.loc[frame["std"].notna(), "std"] >= 0).all()
    assert (frame["unit"] == frame["metric"].map(UNITS)).all()
    fractions = frame[frame["unit"] == "fraction"]["mean"].dropna()
    assert ((fractions > 0) & (fractions < 1)).all()


@pytest.mark.parametrize("name", OF_RESULTS)
def test_no_cell_stands_twice(name):
    frame = papers.table(name)
    assert not frame.duplicated(subset=list(frame.columns[: list(frame.columns).index("mean")])).any()


def test_numbers_keep_their_printed_digits_and_settings_stay_text():
    row = cells("zhang2024_table2", dataset="CIFAR10", model="ResNet-50", metric="task_acc").iloc[0]
    assert (row["mean"], row["mean_text"], row["std_text"]) == (0.822, "0.8220", "0.0023")
    assert "None" in set(papers.table("zhang2024_table1")["value"])  # a setting, not a gap
    assert set(papers.table("zhang2024_table8")["step"]) == {str(i) for i in range(1, 15)}


def test_a_table_is_the_reader_s_own_copy():
    mine = papers.table("lu2022_table1")
    mine.loc[0, "mean"] = 99.0
    assert papers.table("lu2022_table1").loc[0, "mean"] == 1.291e-04


def test_an_unknown_table_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"name='lu2022_table9' is not a table of the papers; try one of .*lu2022_table1"
    ):
        papers.table("lu2022_table9")


# -- identities ----------------------------------------------------------------------------------------------------------


def ratio_bounds(acc0: float, att0: float, acc: float, att: float) -> tuple[float, float]:
    """Where the ratio can lie when each accuracy was rounded to two decimals."""
    corners = [
        (att0 - att + a) / (acc0 - acc + b)
        for a in (-0.01, 0.01)
        for b in (-0.01, 0.01)
    ]  # fmt: skip
    return min(corners) - 0.005, max(corners) + 0.005


OFF_RATIO = {("koh2024_table5", "ResNet-50", "SSF"): 5.21, ("koh2024_table6", "DenseNet-121", "SSF"): 7.40}


@pytest.mark.parametrize("name", ["koh2024_table5", "koh2024_table6", "koh2024_table8", "koh2024_table9"])
def test_ratios_follow_from_the_accuracies_but_for_those_listed(name):
    wide = papers.table(name).pivot(index=["architecture", "defense"], columns="metric", values="mean")
    checked = 0
    for (architecture, defense), row in wide.iterrows():
        if defense == "No Def.":
            continue
        full = wide.loc[(architecture, "No Def.")]
        low, high = ratio_bounds(full["acc"], full["attacc"], row["acc"], row["attacc"])
        listed = (name, architecture, defense) in OFF_RATIO
        assert (low <= row["delta_ratio"] <= high) != listed, (architecture, defense)
        if listed:
            ours = (full["attacc"] - row["attacc"]) / (full["acc"] - row["acc"])
            assert round(ours, 2) == OFF_RATIO[name, architecture, defense]
        checked += 1
    assert checked == len(wide) - wide.index.get_level_values(0).nunique() > 1


def test_falls_of_attack_accuracy_follow_but_for_the_one_listed():
    wide = papers.table("koh2024_table2").pivot(
        index=["architecture", "skip_connections"], columns="metric", values="mean"
    )
    off = {}
    for (architecture, skips), row in wide.iterrows():
        fall = wide.loc[(architecture, "Full"), "attacc"] - row["attacc"]
        if skips != "Full" and abs(fall - row["attacc_drop"]) > 0.0101:
            off[architecture, skips] = (row["attacc_drop"], round(fall, 2))
    assert off == {("DenseNet-201", "Skip-2 Removed"): (31.97, 30.97)}


def test_table9_of_koh2024_repeats_table5_but_for_one_ratio():
    keys = ["architecture", "defense", "metric"]
    both = papers.table("koh2024_table5").merge(papers.table("koh2024_table9"), on=keys, suffixes=("", "_9"))
    differ = both[(both["mean_text"] != both["mean_text_9"])]
    assert len(both) == 60
    assert differ[[*keys, "mean", "mean_9"]].values.tolist() == [["ResNet-50", "SSF", "delta_ratio", 6.87, 5.21]]


def test_undefended_networks_are_the_full_ones_but_for_one():
    full = cells("koh2024_table2", skip_connections="Full", metric="attacc").set_index("architecture")["mean"]
    none = pd.concat([cells(f"koh2024_table{i}", defense="No Def.", metric="attacc") for i in (5, 6)])
    none = none.set_index("architecture")["mean"]
    assert len(full) == 8 and set(full.index[full != none[full.index]]) == {"DenseNet-121"}


@pytest.mark.parametrize(
    "here, there",
    [
        (("zhang2024_table7", {"model": "Swin-T", "attack": "gradient inversion"}), ("zhang2024_table5", {"model": "Swin-T"})),
        (("zhang2024_table7", {"model": "ConvNeXt-T", "attack": "gradient inversion"}), ("zhang2024_table8", {"step": "14"})),
        (("zhang2024_table7", {"model": "ResNet-50", "attack": "gradient inversion"}), ("zhang2024_table8", {"step": "1"})),
        (("zhang2024_table7", {"model": "Swin-T"}), ("zhang2024_table2", {"model": "Swin-T", "dataset": "CIFAR10"})),
        (("hatamizadeh2022_table1", {"method": "GradViT", "network": "ViT-B/16"}), ("hatamizadeh2022_table3", {"network": "ViT-B/16"})),
        (("hatamizadeh2022_table1", {"network": "DeiT-B/16"}), ("hatamizadeh2022_table3", {"network": "DeiT-B/16", "distilled": "no"})),
        (("hatamizadeh2022_table2", {"loss_terms": "+ patch"}), ("hatamizadeh2022_table3", {"network": "ViT-B/16"})),
        (("hatamizadeh2022_table4", {"layers_removed": "none"}), ("hatamizadeh2022_table3", {"network": "ViT-B/16"})),
        (("hatamizadeh2022_table5", {"components": "all"}), ("hatamizadeh2022_table4", {"layers_removed": "none"})),
        (("koh2024_table8", {"defense": "BiDO"}), ("koh2024_table5", {"architecture": "ResNet-101", "defense": "BiDO"})),
    ],
)  # fmt: skip
def test_what_is_printed_in_two_tables_is_the_same_in_both(here, there):
    one, two = (cells(name, **settings).set_index("metric") for name, settings in (here, there))
    common = one.index.intersection(two.index)
    assert len(common) >= 1 and (one.loc[common, "mean_text"] == two.loc[common, "mean_text"]).all()


def psnr_and_mse() -> list[tuple[float, float, float]]:
    """(PSNR, its spread, MSE) of every row of zhang2024 that prints both, Table 6's stem (printed as 0.0000) left out."""
    rows = []
    for name, key in (("5", "model"), ("6", "layers"), ("7", "model"), ("8", "step")):
        frame = papers.table(f"zhang2024_table{name}")
        for value in frame[key].unique():
            here = frame[frame[key] == value].set_index("metric")
            if here.loc["mse", "mean"] > 0:
                rows.append((here.loc["psnr", "mean"], here.loc["psnr", "std"], here.loc["mse", "mean"]))
    return rows


def test_zhang2024_measures_mse_on_normalised_images_and_psnr_on_pixels():
    variance = sum(s**2 for s in (0.2470, 0.2435, 0.2616)) / 3  # of CIFAR10's channels, averaged
    other = sum(s**2 for s in (0.2023, 0.1994, 0.2010)) / 3  # the other constants in common use
    rows = psnr_and_mse()
    assert len(rows) == 26 and variance == pytest.approx(0.0629, abs=1e-4)
    # Jensen: the PSNR of the mean error is below the mean of the PSNRs.
    assert all(-10 * math.log10(m * variance) < p for p, _, m in rows)
    assert sum(-10 * math.log10(m * other) > p for p, _, m in rows) > len(rows) / 2
    # With normally distributed PSNRs the mean error follows from their mean and spread.
    factors = [10 ** (-p / 10) * math.exp((s * math.log(10) / 10) ** 2 / 2) / m for p, s, m in rows]
    assert min(factors) > 0.0615 and max(factors) < 0.0725


def test_the_two_shares_of_the_user_study_add_up():
    assert cells("koh2024_table10", metric="user_preference")["mean"].sum() == pytest.approx(100)


# -- the architecture of the 14 steps ------------------------------------------------------------------------------------


def steps() -> dict[tuple[int, int], dict[str, str]]:
    return {(int(r["step"]), int(r["stage"])): r for r in papers.table("zhang2024_table9").to_dict("records")}


def test_block_and_its_columns_say_the_same():
    for row in steps().values():
        layers = [
            f"{'d' if row[f'conv{i}_depthwise'] == 'yes' else ''}{k}x{k}:{row[f'conv{i}_channels']}"
            for i in (1, 2, 3)
            for k in [row[f"conv{i}_kernel"]]
        ]
        assert row["block"] == " ".join(layers)


def test_changed_names_what_changed():
    table = steps()
    own = ["block", "repeats", "sep_down"]
    shared = ["activation", "fewer_activations", "norm", "fewer_norms", "conv_bias", "stochastic_depth", "layer_scale"]
    for (step, stage), row in table.items():
        if step == 1:
            assert row["changed"] == ""
            continue
        before = table[step - 1, stage]
        changed = {c for c in own + shared if row[c] != before[c]}
        if stage == 1:  # stem and max pool stand before stage 1, and are named there
            changed |= {c for c in ("maxpool", "stem_activation") if row[c] != before[c]}
            changed |= {"stem" for c in ("stem_kernel", "stem_stride", "stem_channels") if row[c] != before[c]}
        assert set(row["changed"].split()) == changed, (step, stage)


def test_the_ends_are_resnet_50_and_convnext_tiny():
    table = steps()
    assert [table[1, s]["repeats"] for s in (1, 2, 3, 4)] == ["3", "4", "6", "3"]
    assert [table[1, s]["block"].split()[-1] for s in (1, 2, 3, 4)] == ["1x1:256", "1x1:512", "1x1:1024", "1x1:2048"]
    assert [table[14, s]["repeats"] for s in (1, 2, 3, 4)] == ["3", "3", "9", "3"]
    for stage, width in ((1, 96), (2, 192), (3, 384), (4, 768)):
        assert table[14, stage]["block"] == f"d7x7:{width} 1x1:{4 * width} 1x1:{width}"
        assert table[14, stage]["sep_down_channels"] == ("" if stage == 1 else str(width))


# -- contradictions ------------------------------------------------------------------------------------------------------

SKIP4 = {"skip_connections": "Skip-4 Removed"}
ROLSS = {"defense": "RoLSS"}


@pytest.mark.parametrize("metric, here, there", [
    ("mse", 1.3308, 1.5096), ("psnr", 11.30, 10.58), ("lpips", 0.1143, 0.1624), ("ssim", 0.0946, 0.0896),
])  # fmt: skip
def test_resnet_50_is_inverted_with_two_results(metric, here, there):
    assert mean("zhang2024_table5", model="ResNet-50", metric=metric) == here
    assert mean("zhang2024_table8", step="1", metric=metric) == there


@pytest.mark.parametrize("architecture, here, table, there", [
    ("ResNet-34", 80.61, "table5", 71.86), ("ResNet-152", 68.44, "table5", 64.98), ("DenseNet-201", 20.71, "table6", 10.24),
])  # fmt: skip
def test_networks_without_last_stage_skips_have_two_attack_accuracies(architecture, here, table, there):
    assert koh("table2", architecture, **SKIP4) == here and koh(table, architecture, **ROLSS) == there


def test_other_quantities_with_two_values():
    assert koh("table2", "DenseNet-121", skip_connections="Full") == 88.11
    assert koh("table6", "DenseNet-121", defense="No Def.") == 78.09
    assert mean("zhang2024_table8", step="14", metric="task_acc") == 0.8523
    assert (
        mean("zhang2024_table2", dataset="CIFAR10", model="Swin-S", metric="task_acc") == 0.8258
    )  # as text gives ConvNeXt-T
    accuracy = {"metric": "task_acc"}
    assert mean("zhang2024_table2", dataset="CIFAR10", model="ResNet-50", **accuracy) == mean(
        "zhang2024_table8", step="1", **accuracy
    )
    assert std("zhang2024_table2", dataset="CIFAR10", model="ResNet-50", **accuracy) == 0.0023
    assert std("zhang2024_table8", step="1", **accuracy) == 0.0039
    assert round(koh("table5", "ResNet-101", defense="BiDO") - koh("table5", "ResNet-101", **ROLSS), 2) == 8.39
    maxvit = [mean("koh2024_table10", skip_connections=s, metric="attacc") for s in ("Full", "Skip Removed")]
    assert round(maxvit[0] - maxvit[1], 2) == 55.61
    assert papers.table("koh2024_table3")["architecture"].nunique() == 11


def test_repeats_that_look_like_slips():
    assert (
        koh("table2", "DenseNet-169", skip_connections="Skip-1 Removed")
        == koh("table6", "DenseNet-169", defense="SSF")
        == 60.99
    )
    assert koh("table2", "ResNet-152", **SKIP4) == koh("table2", "ResNet-50", **SKIP4)
    assert koh("table2", "DenseNet-201", **SKIP4) == koh("table2", "DenseNet-161", **SKIP4)
    for metric in ("fft2d", "lpips"):
        here = mean("hatamizadeh2022_table1", method="GradViT", network="ResNet-50", metric=metric)
        assert here == mean("hatamizadeh2022_table3", network="DeiT-T/16", distilled="yes", metric=metric)


def test_random_noise_is_printed_in_two_orders_both_impossible():
    one = cells("hatamizadeh2022_table1", method="Random Noise").set_index("metric")["mean"]
    two = cells("hatamizadeh2022_table2", loss_terms="random").set_index("metric")["mean"].drop("grad_loss")
    assert sorted(one) == sorted(two) == [0.706, 1.351, 9.964] and (one != two).any()
    assert one["psnr"] < 5 and one["lpips"] > 2 and two["psnr"] < 5 and two["fft2d"] > 2


def test_the_row_that_lost_two_cells():
    row = cells("zhang2024_table3", dataset="CIFAR10", model="ResNet-50").set_index("metric")
    assert row.loc[["tpr_at_fpr_0p001", "attack_acc"], "mean"].isna().all() and row["mean"].notna().sum() == 2


def test_texts_that_the_numbers_of_koh2024_do_not_bear_out():
    drops = cells("koh2024_table2", metric="attacc_drop").set_index(["architecture", "skip_connections"])["mean"]
    assert drops["ResNet-34", "Skip-2 Removed"] > drops["ResNet-34", "Skip-4 Removed"]
    attacc = papers.table("koh2024_table9").pivot(index="architecture", columns=["metric", "defense"], values="mean")[
        "attacc"
    ]
    ratio = papers.table("koh2024_table9").pivot(index="architecture", columns=["metric", "defense"], values="mean")[
        "delta_ratio"
    ]
    acc = papers.table("koh2024_table9").pivot(index="architecture", columns=["metric", "defense"], values="mean")[
        "acc"
    ]
    assert set(attacc.index[attacc["BiDO"] < attacc["RoLSS"]]) == {"ResNet-50", "ResNet-152"}
    assert (attacc["SSF"] > attacc["RoLSS"]).all()
    assert (
        set(ratio.index[ratio["SSF"] < ratio["RoLSS"]])
        == {"ResNet-50"}
        == set(ratio.index[ratio["SSF"] < ratio["BiDO"]])
    )
    assert koh("table6", "DenseNet-161", "delta_ratio", defense="SSF") < koh(
        "table6", "DenseNet-161", "delta_ratio", **ROLSS
    )
    assert set(ratio.index[ratio["TTS"] < ratio["BiDO"]]) == {"ResNet-50"}
    assert set(attacc.index[attacc["TTS"] < attacc["BiDO"]]) == {"ResNet-34"}
    assert set(ratio.index[ratio["RoLSS+"] < ratio["RoLSS"]]) == {"ResNet-101"}
    assert round(acc.loc["ResNet-34", "RoLSS+"] - acc.loc["ResNet-34", "RoLSS"], 2) == 2.11
    both = mean("koh2024_table8", defense="BiDO+RoLSS", metric="delta_ratio")
    assert ratio.loc["ResNet-101", "BiDO"] < both < ratio.loc["ResNet-101", "RoLSS"]
    last = drops.xs("Skip-4 Removed", level=1)
    dense = last.index.str.startswith("DenseNet")
    assert (last[~dense].min(), last[~dense].max()) == (10.17, 24.32) and (last[dense].min(), last[dense].max()) == (
        54.15,
        70.38,
    )


def test_texts_that_the_numbers_of_zhang2024_do_not_bear_out():
    psnr = [mean("zhang2024_table8", step=str(i), metric="psnr") for i in range(1, 15)]
    assert [i + 2 for i, (a, b) in enumerate(pairwise(psnr)) if b < a] == [3, 5, 9, 13, 14]
    assert max(psnr) == psnr[11]
    assert round(psnr[7] - psnr[6], 2) == 2.03 and round(psnr[3] - psnr[2], 2) == 2.41
    mia = cells("zhang2024_table7", attack="network MIA").set_index("model")["mean"]
    assert mia["ConvNeXt-T"] == mia.max() == 0.7471 and mia["Swin-T"] == 0.6904
    assert mean("zhang2024_table3", dataset="CIFAR100", model="Swin-T", metric="task_acc") == 0.6001


def test_texts_that_the_numbers_of_the_other_two_papers_do_not_bear_out():
    resnet = cells("hatamizadeh2022_table1", network="ResNet-50", metric="psnr").set_index("method")["mean"]
    assert resnet["GradViT"] < resnet["Inverting Gradients"] < resnet["GradInversion"]
    psnr = cells("hatamizadeh2022_table3", metric="psnr").set_index(["network", "distilled"])["mean"]
    assert (
        psnr["DeiT-T/16", "yes"] == 13.212 > psnr["DeiT-S/16", "yes"]
        and psnr["DeiT-T/16", "yes"] > psnr["ViT-T/16", ""]
    )
    parts = cells("hatamizadeh2022_table5", metric="psnr").set_index("components")["mean"]
    assert round(parts["all"] - parts["MSA only"], 3) == 1.956
    april, tag = (cells("lu2022_table1", attack=a, metric="mse").set_index("dataset")["mean"] for a in ("APRIL", "TAG"))
    assert tag["MNIST"] < april["MNIST"] and round(tag["ImageNet"] - april["ImageNet"], 3) == 0.088


# -- claims --------------------------------------------------------------------------------------------------------------


def test_the_claims_of_this_part_are_those_of_labs_00_and_05():
    every = papers.claims()
    assert {c.lab for c in every} >= {"00", "05"} and len({c.id for c in every}) == len(every)
    assert [c.id for c in papers.claims("00")] == ["lu2022.introduction.gradients_reveal"]
    assert {c.paper for c in papers.claims("05")} == {"lu2022", "privlab"}
    assert papers.claims("77") == []


def test_a_claim_is_in_its_form():
    """Its fields are those of Claim, or it would not load; what they hold is held here."""
    ids = [claim.id for claim in papers.claims()]
    assert len(ids) == len(set(ids))
    for c in papers.claims():
        assert c.paper in papers.PAPERS and c.id.count(".") >= 2 and re.fullmatch(r"\d\d", c.lab), c.id
        assert c.kind in ("ordering", "magnitude", "identity", "trend") and c.statement and c.where, c.id
        assert c.exploratory in ("", *evidence.SIZES[1:]) and c.headline in (None, *range(1, 19)), c.id
        assert isinstance(c.people, int) and c.people >= 0, c.id
        for text in (c.compare, *c.needs):
            found = {name for atom in comparison.atoms(comparison.parse(text)) for name in atom.names}
            assert found and found == {*comparison.names(text)}, f"{c.id}: write names as in metric[key, key]"
        for experiment in c.experiments:
            evidence.path(experiment, "class")


def test_printed_numbers_come_from_the_table_they_point_to():
    april = dict(
        name="mse[april]", file="lu2022_table1.csv", cell=dict(dataset="CIFAR-10", attack="APRIL", metric="mse")
    )
    step = dict(name="psnr[step_10]", file="zhang2024_table8.csv", cell=dict(step=10, metric="psnr"))
    prose = dict(name="iip[batch_4]", file=None, cell=dict(prose="Appendix A"), mean=100)
    found = [papers.Printed.of(**each) for each in (april, prose, step)]
    assert found == [
        papers.Printed("mse[april]", 0.002, 0.006, "squared_value", "Table 1"),
        papers.Printed("iip[batch_4]", 100.0, None, None, "Appendix A"),
        papers.Printed("psnr[step_10]", 29.93, 3.58, "dB", "Table 8"),
    ]
    told = ["mse[april] = 0.002 ± 0.006", "iip[batch_4] = 100", "psnr[step_10] = 29.93 ± 3.58 dB"]
    assert [str(each) for each in found] == told
