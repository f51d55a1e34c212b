"""The explorers of one lab each: two bells (02), a proof (05), the morph (09), the switches (10). Numbers by hand."""

import re
import statistics

import pytest
import torch
from scipy.stats import norm

from privlab import metrics, models
from privlab.course.lab_02.two_bells import CONTROLS, TwoBells, _percent
from privlab.course.lab_05 import proof
from privlab.course.lab_09 import morphing
from privlab.course.lab_10 import experiments as micro_designs
from privlab.course.lab_10.switchboard import Switchboard
from privlab.leak import observe
from privlab.notebook import sheet

pytestmark = pytest.mark.usefixtures("shell", "no_widgets_of_other_tests")
KEEP = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]] * 3).bool()  # three pairs: the victim's, and two of shadow models
MARGINS = torch.tensor([[2, -1, 3, 0.5], [9] * 4, [3, -2, 4, 1], [-3, 2, 3, 2], [5, -4, 6, 2], [-1, 4, 1, 4]]).double()
TRUTH = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
BLANK = torch.full_like(TRUTH, 0.5)


def test_the_bells_are_those_of_the_shadow_models_alone_and_the_ratio_that_of_two_densities():
    slider = TwoBells(["A: ship", "B: cat"], MARGINS, KEEP, [0, 3], 1.25)

    def fit(one, kind):
        return [x for side in slider.bells[one, kind].values() for x in (side.mean(), side.std())]

    assert fit(0, "per-example") == pytest.approx([4, 2**0.5, -2, 2**0.5])  # of 3, 5 and of -3, -1
    ins, outs = [3, 5, 2, 4, 4, 6, 2, 4], [-3, -1, -2, -4, 3, 1, 1, 2]  # of all four pictures
    assert fit(1, "fixed") == pytest.approx([3, statistics.stdev(ins), 1.5, statistics.stdev(outs)])
    by_hand = norm.logpdf(2.0, 4, 2**0.5) - norm.logpdf(2.0, -2, 2**0.5)
    assert slider.ratio(0, "per-example", 2.0) == pytest.approx(by_hand) and by_hand > 0
    assert [_percent(margin) for margin in (0, 4, -8, 20)] == ["50%", "98%", "0.034%", "100.0000%"]
    said, chart, folded = slider.drawn(**dict(zip(CONTROLS, ("A: ship", "of this picture alone", 2.0), strict=True)))
    assert said.startswith("The victim is 88% sure (margin +2.0): ")
    assert "The ratio says **a member**, the threshold **a member**" in said
    assert "The picture is a member." in folded
    assert "In, solid: margin 4.0 ± 1.4. Out, dashed: -2.0 ± 1.4." in chart.data and len(chart.data) < 3_000


@pytest.mark.parametrize(
    ("architecture", "patch", "width", "fail"),
    [
        ("a", 16, 768, []),  # 5 tokens, 768 numbers a patch
        ("b", 16, 768, ["Theorem 2", "eq. 10"]),  # a norm between the embedding and attention
        ("a", 8, 64, ["inverse of eq. 11"]),  # 17 tokens, 192 numbers a patch
        ("a", 4, 64, ["Theorem 1"]),  # 65 tokens, 48 numbers a patch
        ("a", 4, 32, ["Theorem 1", "inverse of eq. 11"]),  # the paper's half of the patches
        ("a", 4, 68, []),
    ],
)
def test_each_change_of_the_network_breaks_its_own_row_of_the_proof(architecture, patch, width, fail):
    model = models.april.build(architecture, patch_size=patch, width=width, depth=2).double()
    rows = proof.rows(model, TRUTH.double(), torch.tensor([3]))
    assert [row.where for row in rows] == [
        "eq. 3", "eq. 4", "eq. 5", *["eq. 6"] * 4, *["eq. 7"] * 3, "eq. 8", "Theorem 1", "Theorem 2", "eq. 10",
        "inverse of eq. 11",
    ]  # fmt: skip
    assert [row.where for row in rows if not row.holds] == fail
    shown = proof.table(rows)
    assert shown.html.count("✓") == 15 - len(fail) and shown.html.count("✗") == len(fail)
    assert shown.alt.endswith("All hold.") is not bool(fail) and all(f"{where} (" in shown.alt for where in fail)
    recovered = proof.solved(model, observe(model, TRUTH, torch.tensor([3])))
    assert (metrics.psnr(recovered, TRUTH).item() > 100) is not bool(fail)


def test_a_wrong_gradient_shows_in_the_rows_that_it_enters():
    model = models.april.build("a", width=64, depth=2).double()
    attn, label = model.blocks[0].attn, torch.tensor([3])
    leak, seen = observe(model, TRUTH, label), proof.traced(model, TRUTH.double(), label)

    def fail(leak, **changed):
        return [row.sides[:9] for row in proof.theorem_1(attn, leak, seen | changed) if not row.holds]

    assert fail(leak) == []
    leak.grads[proof.QKV][64:128] *= -1  # of K
    assert fail(leak) == ["∂ℓ/∂k zᵀ ", "∂ℓ/∂z zᵀ ", "z = the p"]
    leak.grads[proof.QKV][64:128] *= -1
    assert fail(leak, summands=seen["summands"][::-1]) == ["Qᵀ ∂ℓ/∂q ", "Vᵀ ∂ℓ/∂v "]
    assert fail(leak, h=[seen["h"][0] * 2]) == ["h = v sof", "a = Wh"]


def test_a_step_has_the_facts_of_the_papers_network_says_what_is_gone_and_frames_its_image():
    assert morphing.facts(1).parameters == pytest.approx(23.53, abs=0.01)  # a ResNet-50 with ten classes
    assert morphing.facts(14).parameters == pytest.approx(27.83, abs=0.01)  # a ConvNeXt-T with ten classes
    assert morphing.facts(9).multiplications == morphing.facts(10).multiplications  # activations multiply nothing
    morph = morphing.Morph({n: TRUTH.lerp(BLANK, 1 - n / 20) for n in (1, 8, 9, 10)}, TRUTH)
    pages = {n: morph.drawn(step=n)[0].data for n in morph.found}
    assert "Here it begins." in pages[1]
    assert "gone: GELU, GELU" in pages[10] and "<strong>new" not in pages[10]
    assert "the stem" in pages[8] and "gone: ReLU, maximum of 3 x 3, stride 2" in pages[8]
    ssim, psnr = (metric(morph.found[10], TRUTH).item() for metric in (metrics.ssim, metrics.psnr))
    assert f"found: SSIM {ssim:.2f}, {psnr:.1f} dB" in pages[10] and f'<meter value="{ssim}" max="1.0"' in pages[10]
    assert morph.ssim[10] == ssim
    assert all(page.count("▲") == 1 and page.count("<img") == page.count(' alt="') == 2 for page in pages.values())


def test_a_setting_of_the_switches_makes_its_network_is_ranked_and_has_an_effect():
    switches = {name: micro_designs.SWITCHES[name] for name in ("addition", "norm")}
    words = {"addition": ("one behind it", "none behind it"), "norm": ("BatchNorm", "LayerNorm")}
    shares = {(0, 0): 0.2, (0, 1): 0.4, (1, 0): 0.6, (1, 1): 0.9}  # how much of the photograph was found
    board = Switchboard(9, switches, words, {one: BLANK.lerp(TRUTH, share) for one, share in shares.items()}, TRUTH)
    assert board.ranked == [(0, 0), (0, 1), (1, 0), (1, 1)] and board.said((1, 0)) == "none behind it, BatchNorm"
    (panel,) = board.drawn(**dict.fromkeys(board.options, True))
    asked = [sheet.picture(image, "", 1).partition('"')[2].partition('"')[0] for image in (board.found[1, 1], TRUTH)]
    assert re.findall(r'src="([^"]+)"', panel.data) == asked  # what was found, then the photograph
    assert "number 4 of 4 from the left" in panel.data and "<strong>changed: </strong>LayerNorm" in panel.data
    db = {one: metrics.psnr(image, TRUTH).item() for one, image in board.found.items()}
    assert board.effects["addition"] == pytest.approx((db[1, 0] + db[1, 1] - db[0, 0] - db[0, 1]) / 2)
