"""The compiled step beside the one that it takes the place of: the same search, step by step, whatever is compared and assumed."""

import math
import shutil
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from privlab import models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, Term, compiled, label_recovery
from privlab.attacks.gradient_inversion.objectives import (
    by_part,
    cosine_distance,
    layer_norms,
    position_direction,
    squared_distance,
    weighted,
)
from privlab.attacks.gradient_inversion.priors import total_variation
from privlab.data import Normalise
from privlab.leak import observe

SMOOTH = Term("smoothness", 1e-2, total_variation, of="images")


@pytest.fixture(autouse=True)
def without_inductor(monkeypatch):
    """The list of operations that would be compiled, run as it stands: what is on it is ours, how it is compiled is PyTorch's."""
    monkeypatch.setattr(compiled, "BACKEND", "eager")


def convolutions(norm=False, inside=nn.Sigmoid):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 8, 3, padding=1, stride=2), *([nn.BatchNorm2d(8)] if norm else []), inside()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(72, 5))
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double().eval()


def transformer():
    return models.build("vit_cifar", seed=0, depth=1, embed_dim=48, position_std=1.0).double()


def sent(model, batch=2):
    size = 32 if hasattr(model, "patch_embed") else 6
    images = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return observe(model, images, torch.arange(batch) + 1)


def prior():
    """A small network with BatchNorm; its statistics are read by hooks, which dynamo alone would not follow."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6))


def together(attack, model, leak, **options):
    """The states of both searches, pair by pair, after holding them equal."""
    plain, quick = (list(attack.search(model, leak, compiled=c, **options)) for c in (False, True))
    for a, b in zip(plain, quick, strict=True):
        assert torch.allclose(a.members, b.members, rtol=1e-9, atol=1e-9)
        assert a.losses == pytest.approx(b.losses, rel=1e-9) and a.score == pytest.approx(
            b.score, rel=1e-9, nan_ok=True
        )
        assert (a.evaluations, a.reason) == (b.evaluations, b.reason)
    assert not torch.equal(plain[0].images, plain[-1].images)
    return plain, quick


@pytest.mark.parametrize("distance", [cosine_distance, squared_distance, layer_norms])
def test_the_compiled_search_is_the_same(distance):
    model = convolutions()
    together(GradientMatching((Term("gradients", 1.0, distance), SMOOTH), 4), model, sent(model))


def test_april_and_weights_by_part():
    """On a ViT: squared distance, direction of the position embedding, cosine; the layers' norms are in gradvit's test below."""
    model = transformer()
    leak = sent(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing to tell here
        plain, _ = together(gradient_inversion.april(4), model, leak)
    assert set(plain[0].losses) == {"gradients", "position"}
    term = Term("gradients", 1.0, weighted(position_direction, by_part(model, attention=2.0, stem=0.5)))
    together(
        GradientMatching((term, Term("cosine", 1.0, weighted(cosine_distance, {"pos_embed": 3.0}))), 3), model, leak
    )


@pytest.mark.parametrize(
    "build, backend", [(convolutions, "eager"), pytest.param(transformer, "aot_eager", marks=pytest.mark.check)]
)
def test_gradvit_through_its_change_of_stage(build, backend, monkeypatch):
    """A group with its registration, a prior that begins at half time, gradients that count half from there on."""
    monkeypatch.setattr(compiled, "BACKEND", backend)
    made = []
    monkeypatch.setattr(compiled, "make_fx", lambda f, made_by=compiled.make_fx: made.append(f) or made_by(f))
    model = build()
    side = 8 if build is transformer else 3
    _, quick = together(gradient_inversion.gradvit(6, prior(), patch=side), model, sent(model))
    assert len(made) == 2  # one function before the change and one after it, for both seeds
    assert "statistics" not in quick[2].losses and quick[3].losses["statistics"] > 0
    assert quick[3].members.shape[0] == 2 and quick[3].losses["registration"] > 0
    assert math.isnan(quick[2].score) and math.isfinite(quick[3].score)


def test_restarts_share_what_was_compiled(monkeypatch):
    made = []
    monkeypatch.setattr(compiled, "make_fx", lambda f, made_by=compiled.make_fx: made.append(f) or made_by(f))
    model = convolutions()
    attack = GradientMatching((Term("gradients", 1.0, squared_distance), SMOOTH), 3, signed=True)
    falling = replace(attack, terms=(attack.terms[0], replace(SMOOTH, end=1e-4)))  # other weights, the same function
    together(falling, model, sent(model), restarts=2)
    assert len(made) == 1


def test_part_of_a_leak_and_a_blind_search():
    model = convolutions()
    leak = sent(model)
    together(GradientMatching((Term("gradients", 1.0, cosine_distance),), 3), model, leak.only(["0.weight"]))
    together(gradient_inversion.deep_inversion(4, prior()), model, leak)


def test_labels_read_by_a_rule_and_lbfgs():
    model = convolutions()
    leak = replace(sent(model, batch=1), labels=None)
    attack = replace(gradient_inversion.idlg(3), labels=label_recovery.row_products)
    _, quick = together(attack, model, leak)
    assert quick[0].labels.tolist() == [1]


def test_batchnorm_in_train_mode_counts_into_copies():
    model = convolutions(norm=True).train()
    leak = sent(model)
    before = {n: b.clone() for n, b in model.named_buffers()}
    together(GradientMatching((Term("gradients", 1.0, cosine_distance), SMOOTH), 3), model, leak)
    assert all(torch.equal(b, before[n]) for n, b in model.named_buffers())


def test_a_compiled_search_goes_on_from_a_plain_one():
    model = convolutions()
    leak, attack = sent(model), GradientMatching((Term("gradients", 1.0, cosine_distance), SMOOTH), 6)
    for state in attack.search(model, leak):
        if state.step == 3:
            kept = {n: t.clone() for n, t in state.checkpoint().items()}
    quick = list(attack.search(model, leak, resume=kept, compiled=True))
    assert [s.step for s in quick] == [3, 4, 5, 6]
    assert torch.allclose(quick[-1].images, state.images, atol=1e-9)
    result = attack.run(model, leak, progress=False, compiled=True)
    assert result.trace[0] == pytest.approx(next(attack.search(model, leak)).losses, rel=1e-9)


def test_the_fused_attention_is_replaced_and_told():
    model = transformer()
    leak = sent(model)
    for block in model.blocks:
        block.attn.fused_attn = True
    with pytest.warns(UserWarning, match="computes attention by a fused kernel") as told:
        list(gradient_inversion.april(2).search(model, leak, compiled=True))
    assert sum("fused" in str(w.message) for w in told) == 1


def test_what_cannot_be_compiled():
    model = convolutions()
    leak = sent(model)
    with pytest.raises(
        ValueError, match=r"compiled=True needs labels that are known, and labels='search' looks for them"
    ):
        next(gradient_inversion.dlg(2).search(model, replace(leak, labels=None), compiled=True))
    next(gradient_inversion.dlg(2).search(model, leak, compiled=True))
    attack = GradientMatching((Term("gradients", 1.0, cosine_distance),), 2)
    with pytest.raises(ValueError, match=r"compiled=True takes the 2 images at once, and chunk=1 takes them apart"):
        next(attack.search(model, leak, chunk=1, compiled=True))
    next(attack.search(model, leak, chunk=2, compiled=True))

    def by_numpy(images, *_):
        return torch.as_tensor(images.detach().numpy().mean()) * images.sum()

    def by_choice(images, *_):
        return images.sum() if images.sum() > 0 else -images.sum()

    for value in (by_numpy, by_choice):
        odd = replace(attack, terms=(*attack.terms, Term("odd", 1.0, value, of="images")))
        next(odd.search(model, leak))
        with pytest.raises(ValueError, match=r"one of the terms gradients, odd, is more than operations on tensors"):
            next(odd.search(model, leak, compiled=True))


@pytest.mark.check
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler")
def test_inductor(monkeypatch):
    """The real compiler, on a network so small that it is through in seconds."""
    monkeypatch.setattr(compiled, "BACKEND", "inductor")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Sigmoid(), nn.Linear(4, 3)).double()
    leak = observe(model, torch.rand(1, 3, 2, 2, dtype=torch.float64), torch.tensor([2]))
    together(GradientMatching((Term("gradients", 1.0, squared_distance),), 3), model, leak)
