"""Membership: repeats share no image, a victim's shadow model knows nothing of its row, and the numbers are what they say."""

import pytest
import torch

from privlab import data
from privlab.course.lab_01 import experiments as membership
from privlab.experiments import find
from privlab.experiments.victims import shadow_fleets
from privlab.experiments.victims.shadow_fleets import Answers

IMAGES = 400


def invented(leak: float, models: int = 4, seed: int = 0, unseen: int = 0) -> Answers:
    """Answers of models whose right logit is `leak` higher on their members."""
    draw = torch.Generator().manual_seed(seed)
    keep = data.in_out(IMAGES, models, seed, pairs=True)
    keep = torch.cat([keep, torch.zeros(models, unseen, dtype=torch.bool)], 1)
    labels = torch.randint(10, (IMAGES + unseen,), generator=draw)
    logits = torch.randn(models, 6, IMAGES + unseen, 10, generator=draw)
    logits[..., torch.arange(IMAGES + unseen), labels] += 1.0 + leak * keep[:, None]
    return Answers(torch.empty(0), labels, keep, IMAGES, seed, {5: logits * 0.1, 10: logits})


def test_repeats_share_no_image_and_differ_in_their_rows():
    zero, one = (shadow_fleets.draw(repeat, 500, 4, unseen=100) for repeat in (0, 1))
    rows = [{bytes(image.numpy().tobytes()) for image in each.pixels} for each in (zero, one)]
    assert len(rows[0] & rows[1]) == 0 and len(zero.pixels) == 600
    assert (zero.keep[0] ^ zero.keep[1])[:500].all() and not zero.keep[:, 500:].any()
    assert zero.keep[:, :500].sum(0).eq(2).all() and not zero.keep.equal(one.keep) and zero.seed != one.seed
    assert shadow_fleets.draw(-1, 500, 4).seed >= 0  # of a pilot
    said = invented(1.0)
    strangers = [(said.members[m] ^ said.members[said.shadow(m)]).float().mean() for m in range(4)]
    assert all(0.3 < apart < 0.7 for apart in strangers)


@pytest.fixture(scope="module")
def leaky():
    return dict(membership.of_one(invented(4.0), "a"))


def test_attacks_find_members_where_there_is_something_to_find_and_nothing_where_there_is_not(leaky):
    honest = dict(membership.of_one(invented(0.0), "a"))
    kinds = "network network_sorted loss_threshold class_thresholds right_or_wrong likelihood_ratio"
    for kind in kinds.split():
        assert leaky[f"attack_acc[a, {kind}]"] > 0.65 and abs(honest[f"attack_acc[a, {kind}]"] - 0.5) < 0.05
    assert leaky["auc[a, likelihood_ratio]"] > 0.9 and abs(honest["auc[a, likelihood_ratio]"] - 0.5) < 0.05
    assert leaky["tpr_at_fpr_0p01[a, likelihood_ratio]"] > 20 > honest["tpr_at_fpr_0p01[a, likelihood_ratio]"]
    assert leaky["median_loss[a, members]"] < leaky["median_loss[a, non_members]"]


def test_the_bit_knows_half_the_level_and_no_more(leaky):
    assert leaky["train_acc[a]"] == invented(4.0).accuracies()[0].min()  # of the worst
    bit = 0.5 + float(leaky["train_test_gap[a]"]) / 2
    assert leaky["attack_acc[a, right_or_wrong]"] == pytest.approx(bit, abs=1e-9)
    assert leaky["auc[a, right_or_wrong]"] == pytest.approx(bit, abs=1e-9)


def test_at_a_matched_level_curves_are_compared_where_both_have_been():
    curves = {"steep": ([0.1, 0.2, 0.4], [0.6, 0.7, 0.9]), "flat": ([0.0, 0.2], [0.5, 0.6])}
    matched = shadow_fleets.at_matched_gap(curves, {"steep": 0.5, "flat": 0.5})
    assert matched["steep"] == pytest.approx(0.6) and matched["flat"] == pytest.approx(0.55)  # means over 0 to 0.2


def test_a_live_lab_is_shown_the_models_of_its_live_repeat(monkeypatch):
    asked = []
    monkeypatch.setattr(shadow_fleets, "answers", lambda architecture, images, *_: asked.append((architecture, images)))
    shadow_fleets.shown("membership.architectures", "gpu", ["swin"], guest=("a_guest", {}))
    about = find("membership.architectures")
    live = shadow_fleets.draw(about.size("class").range.stop, about.size("class").settings["images"], 4)
    assert [name for (name, _), _ in asked] == ["swin_cifar", "a_guest"] and asked[0][1].pixels.equal(live.pixels)


def test_a_fleet_that_is_enlarged_keeps_its_models_and_gets_other_pairs_on_the_same_images(monkeypatch):
    said = invented(1.0, models=4, unseen=10)
    monkeypatch.setattr(shadow_fleets, "answers", lambda _, images, __: Answers(**vars(images), logits=said.logits))
    more = shadow_fleets.enlarged(said, ("any", {}), {}, models=4)
    assert more.models == 8 and torch.equal(more.keep[:4], said.keep) and torch.equal(more.at()[:4], said.at())
    assert torch.equal(more.members[4::2], ~more.members[5::2]) and not torch.equal(more.keep[4:], said.keep)
    assert not more.keep[:, said.audited :].any()
