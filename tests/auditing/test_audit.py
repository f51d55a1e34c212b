"""The audit: its numbers are those of the attacks called by hand, its report says what was found, and bad input is explained."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import types
from collections.abc import Callable

import pytest
import torch
from markup import Page
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from weights import same

import privlab
from privlab import __main__ as cli
from privlab import auditing, data, metrics, models
from privlab.attacks.gradient_inversion import GradientMatching, closed_form
from privlab.attacks.gradient_inversion.closed_form import first_layer
from privlab.auditing import exposure, inputs, stages, validation
from privlab.data import Normalise
from privlab.defences import perturbation
from privlab.leak import observe
from privlab.models import april, parts, zoo


class Plain(nn.Module):
    """A classifier of nobody's, with a bias in its first layer."""

    def __init__(self, classes: int = 7) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.first, self.act, self.last = nn.Linear(3 * 16 * 16, 32), nn.GELU(), nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.act(self.first(x.flatten(1))))


def pictures(n: int = 2, side: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    photos = data.load("cifar10_samples")
    images = torch.cat([photos.one(i, size=side)[0] for i in range(n)])
    return images, torch.arange(n)


def vit() -> nn.Module:
    return models.build("vit_cifar", embed_dim=192, depth=2)


def resnet() -> nn.Module:
    return models.build("resnet_cifar", channels=(8, 16, 32, 64))


@pytest.fixture(scope="module")
def of_vit():
    return privlab.audit(vit(), *pictures(), name="a small ViT", steps=3, progress=False)


@pytest.fixture(scope="module")
def of_resnet():
    return privlab.audit(resnet(), *pictures(), steps=3, progress=False, public=pictures(6)[0][2:])


@pytest.fixture(scope="module")
def of_plain():
    return privlab.audit(Plain().eval(), *pictures(side=16), steps=3, progress=False)


# -- what it measures ------------------------------------------------------------------------------------------------------


def test_importing_privlab_stays_light_and_the_audit_is_a_function():
    code = "import sys, privlab; assert 'audit' in privlab.__all__ and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert privlab.audit is auditing.audit
    with pytest.raises(AttributeError, match="module 'privlab' has no attribute 'audits'"):
        privlab.audits  # noqa: B018


def test_closed_forms_are_those_called_by_hand(of_vit):
    model, (images, labels) = vit(), pictures()
    for i in range(2):
        leak = observe(model, images[i : i + 1], labels[i : i + 1])
        for how, sent, noise in (
            ("float32", leak, None),
            ("bfloat16", leak.rounded(torch.bfloat16), None),
            ("gaussian 0.01", perturbation.gaussian(leak.only(exposure.FORMS["patch_embedding"]), 0.01, seed=i), 0.01),
        ):
            recovery = closed_form.patch_embedding(model, sent, noise)
            (found,) = (s for s in of_vit.solves if (s.form, s.image, s.how) == ("patch_embedding", i, how))
            assert found.psnr == metrics.psnr(recovery.clamped, images[i : i + 1]).item()
            assert (found.condition, found.rank, found.unknowns) == (recovery.condition, recovery.rank, 16)
    assert "Theorem 1 does not hold" in of_vit.why["attention"]
    assert "is used in 16 places" in of_vit.why["first_layer"]


def test_the_paper_s_form_is_tried_on_the_paper_s_architecture():
    model, (images, labels) = april.build("a", depth=2), pictures(1)
    found = privlab.audit(model, images, labels, steps=1, progress=False)
    by_hand = closed_form.attention(model, observe(model, images, labels))
    (attention,) = (s for s in found.solves if s.form == "attention" and s.how == "float32")
    assert attention.psnr == metrics.psnr(by_hand.clamped, images).item() > 40
    assert "subspace" in found.why  # no norm before its attention


def test_a_frozen_position_embedding_is_told_as_the_reason():
    model = models.build("vit_cifar", embed_dim=64, depth=2, position="random")
    found = privlab.audit(model, *pictures(1), steps=1, progress=False)
    assert "no learnable position embedding" in found.why["patch_embedding"]


def test_a_plain_module_gives_its_image_away_by_the_first_layer(of_plain):
    model, (images, labels) = Plain().eval(), pictures(side=16)
    by_hand = first_layer.image(model, observe(model, images[:1], labels[:1]))
    found = next(s for s in of_plain.leaks if s.image == 0)
    assert found.form == "first_layer" and found.psnr == metrics.psnr(by_hand.clamped, images[:1]).item() > 100
    assert of_plain.needs["first_layer"] == ("first.weight", "first.bias")
    assert [p.name for p in of_plain.parts] == ["first", "last"]
    assert of_plain.features.layer == "last" and of_plain.features.error < 1e-5
    # without the bias the weights still hold the image's direction, and its length is found by trying
    told = {d.withheld: (d.psnr, d.holds) for d in of_plain.defences if d.withheld}
    assert told["first.bias",][0] > 40 and not told["first.bias",][1] and told["first.weight",] == (None, True)
    assert exposure.cheapest(of_plain.defences)[1].withheld == ("first.weight",)


def test_a_resnet_has_no_closed_form_and_so_no_defence_to_measure(of_resnet):
    assert not of_resnet.solves and not of_resnet.defences and set(of_resnet.why) == set(exposure.FORMS)
    said = " ".join(of_resnet.text().split())
    assert "No closed form of this book reads an image" in said and "no proof that it is safe" in said
    untried = dataclasses.replace(
        of_resnet, why={**of_resnet.why, "patch_embedding": "model: so this form was not tried"}
    )
    said = " ".join(untried.text().split())
    assert "No closed form that was tried (not patch_embedding: see why) reads an image" in said
    public = pictures(6)[0][2:].mean(0, keepdim=True)
    assert of_resnet.search.baseline == "the mean of 4 public images"
    assert of_resnet.search.baseline_psnr == metrics.psnr(public, pictures(1)[0]).item()


def test_shares_are_those_of_the_squared_gradient(of_vit):
    model, (images, labels) = vit(), pictures()
    leaks = [observe(model, images[i : i + 1], labels[i : i + 1]) for i in range(2)]
    for part, names in parts.group(model).items():
        (found,) = (p for p in of_vit.parts if p.name == part)
        by_hand = sum((leak.only(names).norm / leak.norm).item() ** 2 for leak in leaks) / 2
        assert found.share == pytest.approx(by_hand, rel=1e-4) and found.tensors == len(names)
        assert 1 <= found.rank <= 16 and found.condition >= 1 and found.change > 0
    assert sum(p.share for p in of_vit.parts) == pytest.approx(1)


def test_a_wrapper_is_looked_into_for_its_parts():
    wrapped = nn.Sequential(Plain())
    assert stages._groups(wrapped) == {
        "0.first": ["0.first.weight", "0.first.bias"],
        "0.last": ["0.last.weight", "0.last.bias"],
    }


def test_search_is_the_preset_and_a_short_one_stops_at_its_time(of_vit, monkeypatch):
    from privlab.attacks import gradient_inversion

    model, (images, labels) = vit(), pictures()
    by_hand = gradient_inversion.annealed(3).run(model, observe(model, images[:1], labels[:1]), seed=0, progress=False)
    assert torch.equal(of_vit.pictures["search"], by_hand.images)
    assert of_vit.search.psnr == metrics.psnr(by_hand.images, images[:1]).item()
    assert (of_vit.search.steps, of_vit.search.ended, of_vit.search.baseline) == (3, "steps", "a grey image")

    monkeypatch.setattr(stages, "BRIEF", 0.0)
    stopped = privlab.audit(Plain().eval(), *pictures(1, 16), progress=False).search
    assert (stopped.planned, stopped.steps, stopped.ended) == (200, 0, "time") and stopped.psnr is not None
    monkeypatch.setattr(stages, "_seconds_a_step", lambda *_: 0.001)
    longer = privlab.audit(Plain().eval(), *pictures(1, 16), minutes=0.01, progress=False).search
    assert longer.planned == 600 and longer.steps > 0


def test_ctrl_c_ends_the_search_and_keeps_the_rest(monkeypatch):
    search = GradientMatching.search

    def interrupted(self, *args, **kwargs):
        for state in search(self, *args, **kwargs):
            if state.step == 2:
                raise KeyboardInterrupt
            yield state

    monkeypatch.setattr(GradientMatching, "search", interrupted)
    found = privlab.audit(Plain().eval(), *pictures(1, 16), steps=9, progress=False)
    assert (found.search.steps, found.search.planned, found.search.ended) == (1, 9, "interrupted")
    assert found.leaks and "it was interrupted" in found.text()


def test_a_search_that_cannot_run_is_reported_and_not_raised(monkeypatch):
    def refused(*args, **kwargs):
        raise NotImplementedError("derivative for aten::some_backward is not implemented\nand more")

    monkeypatch.setattr(GradientMatching, "search", refused)
    found = privlab.audit(Plain().eval(), *pictures(1, 16), progress=False)
    assert found.search.ended == "it could not be run: derivative for aten::some_backward is not implemented"
    assert found.search.psnr is None and "search" not in found.pictures and found.leaks
    assert "It found nothing: it could not be run" in found.text()


@pytest.mark.parametrize("build", [vit, resnet])
def test_the_model_and_the_generator_stay_as_they_were(build):
    model, state = build(), torch.get_rng_state()
    model.eval()
    model.get_submodule("norm" if build is vit else "act1").train()  # a mode that an audit allows, and must keep
    before = {n: v.clone() for n, v in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    privlab.audit(model, *pictures(1), steps=1, progress=False)
    assert same(model, before)
    assert [m.training for m in model.modules()] == modes and torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_same_seed_gives_the_same_report(of_plain):
    again = privlab.audit(Plain().eval(), *pictures(side=16), steps=3, progress=False)
    ours, theirs = of_plain.json(), again.json()
    for each in (ours, theirs):
        del each["seconds"], each["peak_gb"], each["search"]["seconds"]
    assert ours == theirs


# -- defences --------------------------------------------------------------------------------------------------------------


def rows(read: Callable, *values: tuple[str, int, str, float]) -> list[exposure.Exposure]:
    needs = {"patch_embedding": ("pos", "patch"), "subspace": ("qkv",)}
    solves = tuple(exposure.Solve(form, image, how, psnr, 1.0, 1, 1) for form, image, how, psnr in values)
    energies = {how: 0.1 for _, _, how, _ in values if how != "float32"}
    return [exposure.Exposure(solves, {}, needs, read(frozenset()), energies, {})]


HOWS = ["bfloat16", *(f"gaussian {relative:g}" for relative in exposure.NOISE)]


def ways(*all_: tuple[str, float, set[str]]) -> Callable:
    """What still reads where names are withheld: form, PSNR and names of each way."""

    def read(withheld: frozenset[str]) -> list[tuple[frozenset[str], exposure.Solve]]:
        solves = ((frozenset(n), exposure.Solve(form, 0, "float32", psnr, 1.0, 1, 1)) for form, psnr, n in all_)
        return [(names, solve) for names, solve in solves if not names & withheld]

    return read


def test_defences_by_hand():
    left = {"bfloat16": 40.0, "gaussian 0.001": 20.0, "gaussian 0.01": 16.0, "gaussian 0.1": 14.0, "gaussian 1": 9.0}
    read = ways(("patch_embedding", 100.0, {"pos", "patch"}), ("subspace", 80.0, {"qkv"}))
    made = rows(
        read,
        ("patch_embedding", 0, "float32", 100.0),
        ("subspace", 0, "float32", 80.0),
        *(("patch_embedding", 0, how, left[how]) for how in HOWS),
        *(("subspace", 0, how, 12.0) for how in HOWS),
    )
    found = exposure.defences(made, "float32", [15.0], {"pos": 10, "patch": 30, "qkv": 50}, read)
    told = {d.withheld or d.name: (d.psnr, d.holds, d.numbers) for d in found}
    assert told["bfloat16"] == (40.0, False, 0) and told["gaussian 0.1"] == (14.0, True, 0)
    assert told[("pos",)] == (80.0, False, 10) and told[("qkv",)] == (100.0, False, 50)
    assert told[("pos", "qkv")] == (None, True, 60) and told[("patch", "qkv")] == (None, True, 80)
    assert ("pos", "patch") not in told and ("pos", "patch", "qkv") not in told  # no better than what stands there
    noise, kept = exposure.cheapest(found)
    assert noise.name == "gaussian 0.1" and kept.withheld == ("pos", "qkv")


def test_a_form_that_is_below_the_level_is_no_leak_and_an_image_has_its_own_level():
    read = ways(("subspace", 14.0, {"qkv"}))
    made = rows(read, ("subspace", 0, "float32", 14.0), *(("subspace", 0, how, 14.0) for how in HOWS))
    assert exposure.defences(made, "float32", [15.0], {"qkv": 50}, read) == []
    assert exposure.cheapest([]) == (None, None)
    assert exposure.defences(made, "float32", [13.0], {"qkv": 50}, read)[-1].withheld == ("qkv",)


def test_a_way_that_opens_where_another_is_closed_is_stopped_as_well():
    """A form that would read b where a is withheld, and c where both are: nothing holds that was not tried."""
    order = [("a", 100.0), ("b", 80.0), ("c", 60.0)]

    def read(withheld: frozenset[str]) -> list[tuple[frozenset[str], exposure.Solve]]:
        left = [(name, psnr) for name, psnr in order if name not in withheld][:1]
        return [(frozenset(name), exposure.Solve("first_layer", 0, "float32", psnr, 1.0, 1, 1)) for name, psnr in left]

    made = rows(read, ("first_layer", 0, "float32", 100.0), *(("first_layer", 0, how, 90.0) for how in HOWS))
    found = exposure.defences(made, "float32", [15.0], dict(a=1, b=2, c=3), read)
    told = {d.withheld: (d.psnr, d.holds) for d in found if d.withheld}
    assert told == {
        ("a",): (80, False),
        ("b",): (100, False),
        ("c",): (100, False),
        ("a", "b"): (60, False),
        ("a", "b", "c"): (None, True),
    }


def test_of_many_ways_the_least_sets_that_stop_all_are_few_and_soon_found():
    sizes = {f"{kind}{i}": 1 + i for i in range(20) for kind in "ab"}
    ways = [frozenset({f"a{i}", f"b{i}"}) for i in range(20)]
    found = exposure._stopping(ways, sizes)
    assert len(found) == exposure.SETS and all(some & way for some in found for way in ways)
    assert all(len(some) == 20 for some in found)
    beside = [frozenset("a"), frozenset("ab"), frozenset("cd")]  # b is of no use beside a
    assert exposure._stopping(beside, dict(a=5, b=1, c=3, d=2)) == [frozenset("ad"), frozenset("ac")]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_way_that_shows_is_not_hidden_by_one_of_a_higher_psnr_that_does_not(monkeypatch, order):
    image, leak = torch.full((1, 3, 16, 16), 0.5), observe(Plain().eval(), *pictures(1, side=16))
    level = types.SimpleNamespace(psnr=30.0, nearer=lambda like: like.psnr < 13)  # 12.4 dB is, 14 dB is not
    readers = [
        ("first_layer", ((name,), lambda leak, noise, found=found: (closed_form.Recovery(found, 1.0, 1, 1), "")))
        for name, found in (("first.weight", image + 0.24), ("first.bias", image + 0.2))
    ]
    others = [(form, ((), exposure._refusal(ValueError("no")))) for form in exposure.FORMS if form != "first_layer"]
    monkeypatch.setattr(exposure, "_readers", lambda model, leak: [*others, *(readers[i] for i in order)])
    found = exposure.expose(nn.Identity(), leak, image, level)
    assert all(s.nearer and s.psnr == pytest.approx(-20 * math.log10(0.24), abs=0.01) for s in found.solves)
    assert found.needs["first_layer"] == ("first.weight",) and {"gaussian 0.1", "bfloat16"} < {
        s.how for s in found.solves
    }


class TwoStems(nn.Module):
    """Two layers see the image, as the two patch embeddings of a CrossViT do."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(192, 40), nn.Linear(192, 60), nn.Linear(100, 5)

    def forward(self, x):
        return self.head(torch.cat([self.a(x.flatten(1)).relu(), self.b(x.flatten(1)).relu()], 1))


def test_what_is_withheld_holds_only_if_no_other_layer_gives_the_image_away():
    torch.manual_seed(0)
    model, (images, labels) = TwoStems().eval(), pictures(side=8)
    found = privlab.audit(model, images, labels, steps=1, progress=False)
    told = {d.withheld: d.holds for d in found.defences if d.withheld}
    assert told.pop(("a.weight", "b.weight")) and not any(told.values())
    # the same algebra, by hand, on what is left: a row of b's weights over its bias
    left = observe(model, images[:1], labels[:1]).without(["a.weight", "a.bias"])
    row = left["b.bias"].abs().argmax()
    torch.testing.assert_close(left["b.weight"][row] / left["b.bias"][row], images[0].flatten(), rtol=1e-3, atol=1e-3)
    # and noise holds only if neither layer shows the image through it
    for noisy in (d for d in found.defences if not d.withheld):
        assert noisy.psnr == max(s.psnr for s in found.solves if s.how == noisy.name)


def test_an_image_that_leaks_beside_one_that_does_not_has_its_needs_and_its_defence():
    torch.manual_seed(0)
    model, (images, labels) = Plain().eval(), pictures(2, side=16)
    model.act = nn.ReLU()
    with torch.no_grad():  # a layer that the dark image does not wake
        model.first.weight.abs_()
        model.first.bias.fill_(-0.5 * model.first.weight.sum(1).max().item())
    images = torch.cat([images[:1] * 0.2, images[1:] * 0.2 + 0.8])
    found = privlab.audit(model, images, labels, steps=1, progress=False)
    assert {s.image for s in found.leaks} == {1} and found.needs["first_layer"] == ("first.weight", "first.bias")
    assert exposure.cheapest(found.defences)[1].withheld == ("first.weight",)


def test_energies_are_the_squares_of_the_noise(of_vit):
    energy = {d.name: d.energy for d in of_vit.defences if not d.withheld}
    for relative in exposure.NOISE:
        assert energy[f"gaussian {relative:g}"] == pytest.approx(relative**2, rel=0.02)
    assert 1e-6 < energy["bfloat16"] < 1e-5  # rounding errs by up to 2^-9 of a number, 2^-9 / sqrt(3) or so in the mean


def test_an_image_that_is_nearly_flat_has_a_level_of_its_own():
    image = torch.full((1, 3, 16, 16), 0.5)
    image[..., ::2] = 0.52
    model = Plain().eval()
    model.normalise = Normalise((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    found = privlab.audit(model, image, [1], steps=1, progress=False)
    assert found.levels[0] == pytest.approx(-10 * torch.tensor(0.02**2 / 2).log10().item() + 0.5, abs=0.01)


# -- how it is read --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["of_vit", "of_resnet", "of_plain"])
def test_json_goes_round_and_is_strict(which, request):
    found = request.getfixturevalue(which).json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["settings"]["seed"] == 0 and set(found["versions"]) == {"privlab", "torch", "timm", "python"}
    assert "pictures" not in found and found["model"]["parameters"] > 0


def test_an_infinite_condition_is_a_word_in_json():
    from privlab.auditing.report import _plain

    assert _plain({"x": (float("inf"), 1.0)}) == {"x": ["inf", 1.0]}


@pytest.mark.parametrize("which", ["of_vit", "of_resnet", "of_plain"])
def test_the_page_stands_alone_and_every_picture_is_described(which, request, tmp_path):
    found = request.getfixturevalue(which)
    path = found.page(tmp_path / "new" / "audit.html")
    text = path.read_text()
    page = Page(text)
    assert not {"script", "link", "iframe", "object"} & set(page.names)
    assert "@import" not in text and "url(" not in text
    pointed = [value for _, has in page.tags for key, value in has.items() if key in ("src", "href", "srcset", "data")]
    assert pointed and all(value.startswith("data:image/webp;base64,") for value in pointed)
    described = [has["aria-label"].strip() for _, has in page.tags if has.get("role") == "img"]
    assert all(described) and len(described) == (1 if which == "of_resnet" else 2) and page.names.count("h1") == 1
    assert page.all("html")[-1]["lang"] == "en"
    assert f"<h3>What a gradient of {found.model['name']}" in found._repr_html_()


def test_text_says_the_main_things(of_vit):
    said = repr(of_vit)
    assert said == of_vit.text() and said.startswith("What a gradient of a small ViT gives away\n\nWithout a search,")
    for words in (
        "A lower bound, no verdict.",
        "patch_embedding reads the gradients of pos_embed and patch_embed.proj.weight.",
        "What a defence costs in accuracy is not measured here",
        "Not looked at: batches",
    ):
        assert words in " ".join(said.split())
    best = max(of_vit.leaks, key=lambda s: s.psnr)
    assert f"{best.form}, at {best.psnr:.1f} dB" in " ".join(said.split())
    assert of_vit.search.psnr < of_vit.search.baseline_psnr and "By PSNR it is not above" in " ".join(said.split())


def test_channels_that_no_screen_shows_leave_pictures_out(tmp_path):
    class Spectral(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5 * 64, 32)

    with torch.random.fork_rng():
        model = Spectral().eval()
        images = torch.rand(1, 5, 8, 8)
    found = privlab.audit(model, images, [0], steps=1, progress=False)
    assert "<img" not in found.page(tmp_path / "a.html").read_text() and found.search.ssim is None


# -- bad input -------------------------------------------------------------------------------------------------------------


class Several(Plain):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor):
        logits = super().forward(x)
        return {"tuple": (logits, x), "dict": {"logits": logits, "aux": 3}, "tokens": logits[:, None]}[self.kind]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "tuple",
            r"returned a tuple of 2: \(1, 7\), \(1, 3, 16, 16\), and an audit needs one tensor.*put a module around",
        ),
        ("dict", r"returned a dict with logits: \(1, 7\), aux: int"),
        ("tokens", r"returned a tensor of shape \(1, 1, 7\)"),
    ],
)
def test_a_model_that_returns_more_than_logits_is_explained(kind, message):
    with pytest.raises(ValueError, match=message):
        privlab.audit(Several(kind).eval(), *pictures(1, 16))


def in_train_mode(module: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 8), module, nn.Linear(8, 3)).train()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(model="resnet50"), "model='resnet50' is a str, not an nn.Module"),
        (dict(model=Plain().eval().requires_grad_(False)), "Plain learns no parameter"),
        (dict(model=nn.Flatten()), "Flatten learns no parameter"),
        (dict(model=in_train_mode(nn.BatchNorm1d(8))), r"'2', a BatchNorm1d, is in train mode.*call model.eval\(\)"),
        (dict(model=in_train_mode(nn.Dropout(0.1))), "'2', a Dropout, is in train mode, where it draws anew"),
        (dict(model=Plain(1).eval(), labels=[0]), "Plain has 1 class"),
        (dict(images=pictures(1, 16)[0] * 255), r"images: pixels go from .*give values in \[0, 1\]"),
        (dict(images=pictures(1, 16)[0] - 0.5), "images: pixels go from -0.39"),
        (dict(images=torch.full((1, 3, 16, 16), float("nan"))), "images: pixels go from nan"),
        (dict(images=pictures(1, 16)[0][0]), r"images: got \(3, 16, 16\); give \(n, channels, height, width\)"),
        (dict(images=[1]), "images: got list"),
        (dict(images=pictures(1, 32)[0]), r"images: \(3, 32, 32\) does not fit Plain: .*mat1"),
        (dict(labels=[7]), r"labels: got \[7\]; this model knows the classes 0 to 6"),
        (dict(labels=[-1]), r"labels: got \[-1\]"),
        (dict(labels=[0, 1]), r"labels: got shape \(2,\) .* for 1 images"),
        (dict(labels=[0.5]), "type torch.float32 for 1 images; give a whole number each"),
        (dict(public=torch.zeros(2, 3, 8, 8)), r"public: got shape \(2, 3, 8, 8\); give images of \(3, 16, 16\)"),
        (dict(minutes=-1), "minutes=-1 is no time to search; give 0"),
        (dict(minutes=float("nan")), "minutes=nan is no time"),
        (dict(target=float("inf")), "target=inf is no PSNR"),
        (dict(steps=0), "steps=0 searches nothing"),
        (dict(groups={"mine": ["first.weigh"]}), "'mine' names 'first.weigh', .* such as 'first.weight'"),
        (dict(groups={"mine": "first.weight"}), "give a list of names"),
    ],
)
def test_bad_input_is_explained(change, message):
    images, labels = pictures(1, 16)
    given = dict(model=Plain().eval(), images=images, labels=labels, progress=False) | change
    with pytest.raises(ValueError, match=message):
        privlab.audit(**given)


def test_a_hair_beyond_the_range_passes_for_rounding():
    images, labels = pictures(1, 16)
    found = privlab.audit(Plain().eval(), images / images.max() * 1.005, labels, steps=1, progress=False)
    assert found.pictures["truth"].max() == 1


def test_a_timm_model_says_its_own_size():
    with pytest.raises(ValueError, match=r"images: \(3, 16, 16\) does not fit VisionTransformer: Input height"):
        privlab.audit(vit(), *pictures(1, 16))


def test_weights_without_a_gradient_are_explained():
    model = Plain().eval()
    with torch.no_grad():
        model.last.bias[0] = 1e4  # sure of class 0
    with pytest.raises(ValueError, match="the gradient of image 0 is zero"):
        privlab.audit(model, *pictures(1, 16), progress=False)
    with torch.no_grad():
        model.first.weight[0] = float("nan")
    with pytest.raises(ValueError, match="the gradient of image 0 holds NaN"):
        privlab.audit(model, *pictures(1, 16), progress=False)


# -- the command line ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """A member of the zoo that takes no time, and a search of two steps."""
    name, settings = zoo.CIFAR["vit_cifar"]
    monkeypatch.setitem(zoo._NAMED, "vit_cifar", (name, settings | {"embed_dim": 64, "depth": 2}))
    monkeypatch.setattr(stages, "STEPS", ((0, 2),))


def run(*arguments: object) -> int:
    return cli.main(["audit", *map(str, arguments)])


def test_the_command_prints_and_writes(tiny, tmp_path, capsys):
    assert run("vit_cifar", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert said.startswith("What a gradient of vit_cifar gives away") and "the mean of 16 public images" in said
    assert said.rstrip().endswith(f"wrote {tmp_path / 'out/audit.html'} and {tmp_path / 'out/audit.json'}")
    written = json.loads((tmp_path / "out/audit.json").read_text())
    assert written["command"] == {"weights": "fresh", "images": "public photographs"}
    assert written["settings"]["images"] == 4 and written["model"]["image_shape"] == [3, 32, 32]
    assert (tmp_path / "out/audit.html").read_text().startswith("<!doctype html>")


def test_the_command_takes_a_folder_weights_and_classes(tiny, tmp_path):
    for i, where in enumerate(("b", "a", "b")):
        (tmp_path / "photos" / where).mkdir(parents=True, exist_ok=True)
        colours = torch.randint(256, (40, 50, 3), generator=torch.Generator().manual_seed(i)).byte().numpy()
        Image.fromarray(colours).save(tmp_path / "photos" / where / f"{i}.png")
    model = models.build("vit_cifar", num_classes=3, seed=5)
    save_file(model.state_dict(), tmp_path / "mine.safetensors")
    given = ("--images", tmp_path / "photos", "--weights", tmp_path / "mine.safetensors", "--classes", 3)
    assert run("vit_cifar", *given, "--out", tmp_path) == 0
    found = json.loads((tmp_path / "audit.json").read_text())
    assert found["settings"]["labels"].count(1) == 2 and found["settings"]["labels"].count(0) == 1
    assert found["search"]["baseline"] == "a grey image"  # no photograph is left over
    loaded = inputs.named("vit_cifar", 3, tmp_path / "mine.safetensors")
    assert same(loaded, model)


def test_images_without_folders_get_the_models_own_answers(tmp_path):
    Image.new("L", (30, 20), 128).save(tmp_path / "grey.jpg")
    model = Plain().eval()
    images, labels, public = inputs.photographs(str(tmp_path), model, (3, 16, 16))
    torch.testing.assert_close(images, torch.full((1, 3, 16, 16), 128 / 255), atol=2 / 255, rtol=0)
    assert labels.tolist() == model(images).argmax(1).tolist() and public is None


def test_sets_are_cut_to_the_model_and_labels_count_modulo_its_classes():
    model = Plain(3).eval()
    held = data.load("cifar10_samples")
    images, labels, public = inputs.photographs("cifar10_samples", model, (3, 16, 16))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0)).tolist()
    assert images.shape == (4, 3, 16, 16) and public.shape == (16, 3, 16, 16)
    assert labels.tolist() == [held.labels[i].item() % 3 for i in order[:4]]
    whole, _, _ = inputs.photographs("cifar10_samples", nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), (3, 32, 32))
    torch.testing.assert_close(whole, held.take(order[:4])[0])  # nothing is changed where nothing has to be


@pytest.mark.parametrize(
    ("name", "shape"), [("vit_cifar", (3, 32, 32)), ("face_transformer", (3, 112, 112)), ("resnet18", (3, 224, 224))]
)
def test_the_size_that_a_model_is_made_for(name, shape):
    with torch.device("meta"):
        model = models.build(name)
    assert inputs.input_shape(model, name) == shape


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vit_cifr"], "privlab audit: name='vit_cifr' is not in the zoo; nearest: vit_cifar"),
        (["vit_cifar", "--minutes", -2], "privlab audit: minutes=-2.0 is no time to search"),
        (["vit_cifar", "--classes", 1], "classes=1 leaves nothing to tell apart"),
        (["vit_cifar", "--images", "cifar10_sample"], "is neither a folder nor a known set; did you mean 'cifar10_samples'?"),
        (["vit_cifar", "--images", "{tmp}"], "holds no image"),
        (["vit_cifar", "--images", "{tmp}/broken"], "x.png' cannot be read"),
        (["vit_cifar", "--weights", "{tmp}/x.pt"], "x.pt' is no .safetensors file"),
        (["vit_cifar", "--weights", "{tmp}/no.safetensors"], "no.safetensors' is not there"),
        (["vit_cifar", "--weights", "{tmp}/junk.safetensors"], "junk.safetensors' cannot be read"),
        (["vit_cifar", "--weights", "{tmp}/other.safetensors"], "32 lack, such as 'cls_token' and 1 are unknown, such as 'x'"),
        (["vit_cifar", "--weights", "{tmp}/ten.safetensors", "--classes", 4], "'head.weight' is (10, 64), and in vit_cifar (4, 64)"),
    ],
)  # fmt: skip
def test_bad_command_lines_are_explained_in_one_line(tiny, arguments, message, tmp_path, capsys):
    (tmp_path / "junk.safetensors").write_bytes(b"not that")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    save_file(models.build("vit_cifar").state_dict(), tmp_path / "ten.safetensors")
    if "{tmp}/broken" in arguments:
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken/x.png").write_bytes(b"no picture")
    assert run(*(str(a).replace("{tmp}", str(tmp_path)) for a in arguments), "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_ctrl_c_on_the_command_line_still_writes_what_was_found(tiny, tmp_path, monkeypatch, capsys):
    search = GradientMatching.search

    def interrupted(self, *args, **kwargs):
        yield next(search(self, *args, **kwargs))
        raise KeyboardInterrupt

    monkeypatch.setattr(GradientMatching, "search", interrupted)
    assert run("vit_cifar", "--out", tmp_path) == 130
    assert json.loads((tmp_path / "audit.json").read_text())["search"]["ended"] == "interrupted"
    monkeypatch.setattr(validation, "observe", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("vit_cifar", "--out", tmp_path) == 130
    assert capsys.readouterr().err.endswith("\nstopped\n")
