"""The search: its loop against one written out by hand, what it compares, where it stops, and that it goes on where it was left."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privlab import metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, Term, descent, matching, presets, results
from privlab.attacks.gradient_inversion.objectives import cosine_distance, relative_distance, squared_distance
from privlab.attacks.gradient_inversion.priors import squared_variation, total_variation
from privlab.compute import Run
from privlab.data import Normalise
from privlab.leak import Leak, observe
from privlab.models import april, parts

COSINE = Term("gradients", 1.0, cosine_distance)
SMOOTH = Term("smoothness", 1e-2, total_variation)


def network(seed=0, activation=nn.Sigmoid, classes=5):
    """A small smooth network on 6 x 6 images: searches on it take a fraction of a second."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, 12, 3, padding=1, stride=2), activation(), nn.Conv2d(12, 12, 3, padding=1), activation()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(108, classes))
        for p in model.parameters():
            nn.init.uniform_(p, -0.5, 0.5)
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    return model.double()


def photo(batch=1, seed=0, size=6):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, 3, size, size, generator=generator, dtype=torch.float64)


def sent(model, batch=1, seed=0):
    images, labels = photo(batch, seed), torch.arange(batch) + 1
    return images, labels, observe(model, images, labels)


# -- what is compared ----------------------------------------------------------------------------------------------------


def two(a, b):
    """Gradients and a leak of two tensors each."""
    grads = {"w": torch.tensor(a[:2]), "b": torch.tensor(a[2:])}
    return grads, Leak({"w": torch.tensor(b[:2]), "b": torch.tensor(b[2:])}, 1, (1, 1, 1))


numbers = st.lists(st.floats(-10, 10).filter(lambda v: abs(v) > 1e-3), min_size=3, max_size=3)


@given(numbers, numbers, st.floats(0.01, 100))
def test_the_cosine_ignores_length_and_knows_direction(a, b, factor):
    grads, leak = two(a, b)
    longer = {n: factor * g for n, g in grads.items()}
    distance = cosine_distance(None, grads, leak)
    assert cosine_distance(None, longer, leak).item() == pytest.approx(distance.item(), abs=1e-5)
    assert cosine_distance(None, leak.grads, leak).item() == pytest.approx(0, abs=1e-6)
    opposite = {n: -g for n, g in leak.grads.items()}
    assert cosine_distance(None, opposite, leak).item() == pytest.approx(2, abs=1e-6)
    # |a/|a| - b/|b||^2 = 2 (1 - cos): the cosine is the squared distance between the two directions
    unit = {n: g / Leak(grads, 1, (1, 1, 1)).norm for n, g in grads.items()}
    target = replace(leak, grads={n: g / leak.norm for n, g in leak.grads.items()})
    assert squared_distance(None, unit, target).item() == pytest.approx(2 * distance.item(), abs=1e-5)


def test_schedules_by_hand():
    assert [matching.staircase(p) for p in (0, 0.374, 0.375, 0.625, 0.875, 1)] == pytest.approx(
        [1, 1, 0.1, 0.01, 1e-3, 1e-3]
    )
    assert [matching.cosine(p) for p in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0])
    assert matching.constant(0.3) == 1


LATE, EARLY = ((0.0, 0.0), (0.5, 1.0)), ((0.0, 1.0), (0.5, 0.0))


def test_a_term_counts_in_its_stages():
    late = Term("late", 1.0, total_variation, LATE)
    early = Term("early", 1.0, total_variation, EARLY)
    assert [late.active(p) for p in (0, 0.49, 0.5, 1.0)] == [False, False, True, True]
    assert [early.active(p) for p in (0, 0.49, 0.5, 1.0)] == [True, True, False, False]

    model = network()
    _, _, leak = sent(model)
    states = list(GradientMatching((COSINE, late, early), steps=4).search(model, leak))
    assert [set(s.losses) for s in states] == [{"gradients", "early"}] * 2 + [{"gradients", "late"}] * 3
    assert [math.isnan(s.score) for s in states] == [True, True, False, False, False]
    assert all(s.score == s.loss for s in states[2:])


def test_a_weight_that_falls():
    falling = Term("smoothness", 1.0, total_variation, end=0.01)
    assert [falling.weigh(p) for p in (0, 0.25, 0.5, 1)] == pytest.approx([1, 10**-0.5, 0.1, 0.01])
    halved = Term("gradients", 4.0, cosine_distance, ((0, 1), (0.5, 0.5)))
    assert [halved.weigh(p) for p in (0, 0.49, 0.5, 1)] == [4, 4, 2, 2]
    both = Term("smoothness", 4.0, total_variation, ((0, 1), (0.5, 3)), end=1.0)
    assert [both.weigh(p) for p in (0, 0.5, 1)] == pytest.approx([4, 6, 3])

    model = network()
    _, _, leak = sent(model)
    for state in GradientMatching((COSINE, falling), 4).search(model, leak):
        roughness = total_variation(leak.normalise(state.images)).item()
        assert state.losses["smoothness"] == pytest.approx(falling.weigh(state.step / 4) * roughness)
        assert state.score == pytest.approx(state.losses["gradients"] + 0.01 * roughness)
    for weight, end in ((0.0, 1.0), (1.0, 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="give both above 0"):
            Term("a", weight, total_variation, end=end)


# -- the loop ------------------------------------------------------------------------------------------------------------


def by_hand(model, leak, steps, lr, signed, tv, seed):
    """Inverting Gradients written out: no terms, no spans, no states."""
    low, high = (leak.normalise(torch.full((1, 3, 6, 6), v, dtype=torch.float64)) for v in (0.0, 1.0))
    x = (
        torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
        .double()
        .clamp(low, high)
        .requires_grad_()
    )
    optimiser, found = torch.optim.Adam([x], lr=lr), []
    for step in range(steps + 1):
        found.append(leak.normalise.inverse(x.detach()).clone())
        loss = F.cross_entropy(model(x), leak.labels)
        mine = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), create_graph=True)])
        theirs = torch.cat([g.flatten() for g in leak.grads.values()])
        total = 1 - F.cosine_similarity(mine, theirs, dim=0) + tv * total_variation(x)
        (slope,) = torch.autograd.grad(total, x)
        x.grad = slope.sign() if signed else slope
        optimiser.param_groups[0]["lr"] = lr * matching.staircase(step / steps)
        optimiser.step()
        with torch.no_grad():
            x.clamp_(low, high)
    return found


@pytest.mark.parametrize("signed", [True, False])
def test_the_loop_is_the_one_written_by_hand(signed):
    model = network()
    _, _, leak = sent(model)
    expected = by_hand(model, leak, 8, 0.1, signed, 1e-2, seed=3)
    states = list(GradientMatching((COSINE, SMOOTH), 8, signed=signed).search(model, leak, seed=3))
    assert [s.step for s in states] == list(range(9))
    for state, images in zip(states, expected, strict=True):
        torch.testing.assert_close(state.images, images, rtol=1e-9, atol=1e-9)


def test_a_state_is_of_one_moment():
    model = network()
    _, labels, leak = sent(model)
    for state in GradientMatching((COSINE, SMOOTH), 5).search(model, leak):
        again = observe(model, state.images, labels).grads
        x = leak.normalise(state.images)
        assert state.losses["gradients"] == pytest.approx(cosine_distance(x, again, leak).item(), abs=1e-9)
        assert state.losses["smoothness"] == pytest.approx(1e-2 * total_variation(x).item(), abs=1e-9)
        assert state.loss == sum(state.losses.values())
        assert state.images.min() >= 0 and state.images.max() <= 1 and not state.images.requires_grad


def test_the_truth_is_a_fixed_point():
    model = network()
    images, _, leak = sent(model)
    attack = GradientMatching((Term("gradients", 1.0, squared_distance),), 3)
    assert next(attack.search(model, leak, start=images)).loss < 1e-20


def test_inverting_gradients_finds_the_image():
    model = network()
    images, _, leak = sent(model)
    result = gradient_inversion.inverting_gradients(600, tv=0).run(model, leak, progress=False)
    assert metrics.psnr(result.images, images).item() > 30


def test_a_batch_is_searched_for_together():
    model = network()
    images, labels, leak = sent(model, batch=2)
    attack = GradientMatching(
        (Term("gradients", 1.0, squared_distance),), 150, lr=1.0, optimiser="lbfgs", schedule=matching.constant
    )
    result = attack.run(model, leak, progress=False)
    assert metrics.psnr(result.images, images).min() > 20 and result.labels.tolist() == labels.tolist()


def test_dlg_finds_image_and_label():
    model = network()
    images, labels, leak = sent(model)
    result = gradient_inversion.dlg(60).run(model, replace(leak, labels=None), restarts=3, progress=False)
    assert metrics.psnr(result.images, images).item() > 40
    assert result.labels.tolist() == labels.tolist()


def test_idlg_reads_the_label_first():
    model = network()  # a sigmoid's features are positive, which is what the rule needs
    images, labels, leak = sent(model)
    attack = gradient_inversion.idlg(60)
    first = next(attack.search(model, replace(leak, labels=None)))
    assert first.labels.tolist() == labels.tolist()
    result = attack.run(model, replace(leak, labels=None), restarts=4, progress=False)  # L-BFGS fails from some starts
    assert metrics.psnr(result.images, images).item() > 40


def test_quasi_newton_gets_further_than_first_order_on_a_vit():
    """For as many evaluations: on a small ViT ten decibels further than a descent along signs; here at half of the preset's steps."""
    model = april.build("b", width=32, depth=1, heads=2, image_size=8, patch_size=4, position_std=1.0)
    coarse = torch.rand(1, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    truth = F.interpolate(coarse, (8, 8), mode="bicubic").clamp(0, 1)
    leak = observe(model, truth, torch.tensor([1]))
    result = gradient_inversion.quasi_newton(4).run(model, leak, progress=False)
    assert 4 < result.evaluations <= 4 * 20 + 1
    other = gradient_inversion.annealed(result.evaluations).run(model, leak, progress=False)
    assert metrics.psnr(result.images, truth).item() > metrics.psnr(other.images, truth).item() + 5


def test_quasi_newton_in_its_own_words():
    """The relative distance, and a smoothness that falls by one factor a step, to its end."""
    attack = gradient_inversion.quasi_newton(4, (0.4, 0.1))
    assert [t.value for t in attack.terms] == [relative_distance, squared_variation]
    assert [attack.terms[1].weigh(p) for p in (0, 0.5, 1)] == pytest.approx([0.4, 0.2, 0.1])
    for word in (
        "1 gradients (relative_distance)",
        "0.3 to 0.01 smoothness (squared_variation)",
        "8 steps of lbfgs",
        "boxed",
    ):
        assert word in repr(gradient_inversion.quasi_newton())
    model = network()
    images, _, leak = sent(model)
    first, *_, last = attack.search(model, leak, start=images)
    roughness = squared_variation(leak.normalise(images)).item()
    assert first.losses == pytest.approx({"gradients": 0.0, "smoothness": 0.4 * roughness}, abs=1e-12)
    assert first.score == pytest.approx(0.1 * roughness) and last.score < first.score and last.reason == "steps"


def test_lbfgs_spends_its_evaluations_inside_a_step():
    model = network()
    _, _, leak = sent(model)
    counts = [s.evaluations for s in gradient_inversion.idlg(3).search(model, leak)]
    assert counts[0] == 1 and all(b - a > 1 for a, b in itertools.pairwise(counts))
    adam = [s.evaluations for s in gradient_inversion.inverting_gradients(3).search(model, leak)]
    assert adam == [1, 2, 3, 4]


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_the_seed_is_all_the_chance_there_is(seed):
    model = network()
    _, _, leak = sent(model)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    one, two = (
        list(gradient_inversion.inverting_gradients(3).search(model, leak, seed=seed))[-1].images for _ in range(2)
    )
    other = list(gradient_inversion.inverting_gradients(3).search(model, leak, seed=seed + 1))[-1].images
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_restarts_begin_elsewhere_and_the_best_by_loss_is_kept():
    model = network()
    _, _, leak = sent(model)
    attack = GradientMatching((COSINE,), 12)
    states = list(attack.search(model, leak, seed=5, restarts=3))
    starts = [s.images for s in states if s.step == 0]
    assert len(starts) == 3 and not torch.equal(starts[0], starts[1]) and not torch.equal(starts[1], starts[2])
    alone = list(attack.search(model, leak, seed=5))
    assert torch.equal(alone[-1].images, states[12].images), "the first restart is the search without restarts"

    result = attack.run(model, leak, seed=5, restarts=3, snapshots=3, progress=False)
    best = min(states, key=lambda s: s.score)
    assert torch.equal(result.images, best.images) and result.score == best.score
    assert (result.restart, result.step) == (best.restart, best.step)
    assert [len(t) for t in result.traces] == [13] * 3 and result.evaluations == 39
    assert [s.step for s in result.snapshots] == [0, 4, 8, 12]
    assert result.trace == result.traces[result.restart] and "restart" in repr(result)


def test_only_what_counts_at_the_end_competes():
    """A term that joins late raises the loss: what came before it must not win for that."""
    model = network()
    _, _, leak = sent(model)
    late = Term("late", 100.0, total_variation, LATE)
    result = GradientMatching((COSINE, late), 10).run(model, leak, progress=False)
    assert result.step >= 5


# -- stopping and going on -----------------------------------------------------------------------------------------------


def test_patience_stops_it():
    model = network()
    _, _, leak = sent(model)
    stuck = GradientMatching((COSINE,), 200, lr=1e-30, patience=7)
    *_, last = stuck.search(model, leak)
    assert last.reason == "patience" and last.step == 7
    *_, last = GradientMatching((COSINE,), 4).search(model, leak)
    assert last.reason == "steps" and last.step == 4


@pytest.mark.parametrize(
    "attack",
    [
        gradient_inversion.inverting_gradients(9),
        replace(gradient_inversion.dlg(5), patience=100),
        gradient_inversion.quasi_newton(4),
    ],
    ids=["adam", "lbfgs", "quasi_newton"],
)
@pytest.mark.parametrize("at", [0, 3])
def test_a_search_goes_on_bit_for_bit(attack, at):
    model = network()
    _, _, leak = sent(model)
    leak = replace(leak, labels=None)
    whole = list(attack.search(model, leak, seed=2, restarts=2))
    stopped = next(s for s in attack.search(model, leak, seed=2, restarts=2) if (s.restart, s.step) == (1, at))
    kept = stopped.checkpoint()
    rest = list(attack.search(model, leak, seed=2, restarts=2, resume=kept))
    expected = [s for s in whole if s.restart == 1 and s.step >= at]
    assert [s.step for s in rest] == [s.step for s in expected]
    for one, other in zip(rest, expected, strict=True):
        assert torch.equal(one.images, other.images) and one.losses == other.losses
        assert (one.evaluations, one.labels.tolist(), one.reason) == (
            other.evaluations,
            other.labels.tolist(),
            other.reason,
        )


def test_patience_survives_a_stop():
    model = network()
    _, _, leak = sent(model)
    attack = GradientMatching((COSINE,), 200, lr=1e-30, patience=7)
    states = attack.search(model, leak)
    kept = next(s for s in states if s.step == 4).checkpoint()
    *_, last = attack.search(model, leak, resume=kept)
    assert last.reason == "patience" and last.step == 7


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_from_the_store(tmp_path, monkeypatch):
    model = network()
    _, _, leak = sent(model)
    attack = gradient_inversion.inverting_gradients(20)
    whole = attack.run(model, leak, restarts=2, snapshots=[0, 5, 20], progress=False)

    monkeypatch.setattr(results, "_EVERY", 0.0)
    store, calls = Run("inversion", {"a": 1}, tmp_path), itertools.count()

    def killing(images, grads, leak):
        if next(calls) == 33:  # in the second restart
            raise Killed
        return cosine_distance(images, grads, leak)

    dying = replace(attack, terms=(Term("gradients", 1.0, killing), *attack.terms[1:]))
    with pytest.raises(Killed):
        dying.run(model, leak, restarts=2, snapshots=[0, 5, 20], store=store, progress=False)
    assert not store.complete and "checkpoint" in store.names()

    steps = []

    def counting(images, grads, leak):
        steps.append(1)
        return cosine_distance(images, grads, leak)

    counted = replace(attack, terms=(Term("gradients", 1.0, counting), *attack.terms[1:]))
    rest = counted.run(
        model, leak, restarts=2, snapshots=[0, 5, 20], store=Run("inversion", {"a": 1}, tmp_path), progress=False
    )
    assert len(steps) < 15, "it began again from the start"
    assert torch.equal(rest.images, whole.images) and rest.score == whole.score
    assert rest.traces == whole.traces and rest.reasons == whole.reasons and rest.evaluations == whole.evaluations
    assert [s.step for s in rest.snapshots] == [s.step for s in whole.snapshots] == [0, 5, 20]
    assert all(torch.equal(a.images, b.images) for a, b in zip(rest.snapshots, whole.snapshots, strict=True))

    steps.clear()
    again = counted.run(
        model, leak, restarts=2, snapshots=[0, 5, 20], store=Run("inversion", {"a": 1}, tmp_path), progress=False
    )
    assert not steps and torch.equal(again.images, whole.images) and again.seconds == rest.seconds
    finished = Run("inversion", {"a": 1}, tmp_path)
    assert torch.equal(results.kept(finished).images, whole.images) and not finished.load("checkpoint")
    with pytest.raises(FileNotFoundError):
        results.kept(Run("inversion", {"a": 2}, tmp_path))


def test_what_is_kept_lies_on_the_cpu():
    """A part that goes on elsewhere must not mix devices."""
    there = torch.empty(1, 3, 2, 2, device="cpu")
    notes, moved = results._Notes(), []
    state = descent.State(0, 0, 1, there, torch.tensor([1]), {"gradients": 1.0}, 1.0, "", there[None], dict)

    class Elsewhere:
        def cpu(self):
            moved.append(self)
            return there

    notes.add(replace(state, images=Elsewhere(), labels=Elsewhere()), shots={0})
    assert len(moved) == 3 and all(t is there for t in notes.images.values())


def test_a_budget_stops_a_search_that_is_kept(tmp_path):
    model = network()
    _, _, leak = sent(model)
    attack = gradient_inversion.inverting_gradients(20)
    whole = attack.run(model, leak, progress=False)
    store, parts = Run("inversion", {"b": 1}, tmp_path), 0
    while not store.complete:
        parts += 1
        try:
            found = attack.run(model, leak, store=store, budget=0.02, progress=False)
        except TimeoutError as over:
            assert "call it again to go on" in str(over)
    assert parts > 1 and torch.equal(found.images, whole.images) and found.traces == whole.traces
    with pytest.raises(ValueError, match=r"budget=1 without a store"):
        attack.run(model, leak, budget=1, progress=False)


# -- models as they are --------------------------------------------------------------------------------------------------


def test_train_mode_leaves_no_trace_in_the_victim():
    model = models.build("resnet_cifar", layers=(1, 1, 1, 1), channels=(4, 4, 8, 8)).train()
    before = {n: b.clone() for n, b in model.named_buffers()}
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    leak = observe(model, images, torch.tensor([1, 2]))
    evaluated = observe(model.eval(), images, torch.tensor([1, 2]))
    assert not torch.allclose(leak["fc.weight"], evaluated["fc.weight"]), "train mode normalises by the batch"
    assert len(list(gradient_inversion.inverting_gradients(2).search(model.train(), leak))) == 3
    assert model.training and all(torch.equal(b, before[n]) for n, b in model.named_buffers())
    start = next(gradient_inversion.inverting_gradients(2).search(model, leak, start=images))
    assert start.losses["gradients"] == pytest.approx(0, abs=1e-5), "the search must run in the mode of the client"


def test_a_map_of_one_pixel_in_train_mode_is_named():
    model = models.build("resnet_cifar", stem="imagenet", channels=(4, 4, 8, 8))
    image, label = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor([1])
    leak = observe(model, image, label)
    model.train()
    with pytest.raises(ValueError, match=r"train mode.*batch of 1.*model\.eval\(\)"):
        next(gradient_inversion.inverting_gradients(2).search(model, leak))
    with pytest.raises(ValueError, match=r"train mode.*batch of 1.*model\.eval\(\)"):
        observe(model, image, label)


class Attends(nn.Module):
    """Attention as PyTorch users write it, by the fused kernel."""

    def __init__(self, how):
        super().__init__()
        self.how, self.stem, self.head = how, nn.Conv2d(3, 8, 2, stride=2), nn.Linear(8, 5)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True) if how == "module" else None

    def forward(self, images):
        x = self.stem(images).flatten(2).mT.contiguous()  # (batch, tokens, width)
        if self.how == "module":
            x = x + self.attention(x, x, x, need_weights=False)[0]
        else:
            heads = x.unflatten(2, (2, 4)).transpose(1, 2)  # (batch, heads, tokens, 4)
            x = x + F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)
        return self.head(x.mean(1))


@pytest.mark.parametrize("how", ["module", "function"])
def test_fused_attention_is_switched_and_said(how):
    torch.manual_seed(0)
    model = Attends(how)
    images = photo().float()
    leak = observe(model, images, torch.tensor([1]))
    with pytest.warns(UserWarning, match="fused kernel, which cannot be differentiated twice"):
        states = list(gradient_inversion.inverting_gradients(3).search(model, leak))
    assert states[-1].loss < states[0].loss
    loss = F.cross_entropy(model(images), torch.tensor([1]))  # and outside it is as it was
    (first,) = torch.autograd.grad(loss, model.stem.weight, create_graph=True)
    with pytest.raises(RuntimeError, match="flash_attention"):
        torch.autograd.grad(first.square().sum(), model.stem.weight)


@pytest.mark.parametrize("name", ["resnet_cifar", "swin_cifar", "vit_cifar", "convnext_cifar"])
def test_every_family_can_be_searched_by_part(name):
    model = models.build(name)
    images = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    leak = observe(model, images, torch.tensor([1]))
    for part, names in parts.group(model).items():
        states = list(gradient_inversion.inverting_gradients(2).search(model, leak.only(names)))
        assert all(math.isfinite(s.loss) for s in states), part


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_begin_alike():
    model = network().float()
    _, _, leak = sent(model)
    *_, here = gradient_inversion.inverting_gradients(5).search(model, leak)
    *_, there = gradient_inversion.inverting_gradients(5).search(model.cuda(), leak)
    torch.testing.assert_close(there.images.cpu(), here.images, atol=1e-3, rtol=1e-3)


# -- bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(steps=0), r"steps=0 searches nothing; give 1 or more"),
        (dict(steps=2.5), r"steps=2\.5"),
        (dict(steps=True), r"steps=True"),
        (dict(lr=0.0), r"lr=0\.0 is no step length; give a positive number"),
        (dict(lr=-1.0), r"lr=-1\.0"),
        (dict(lr=math.nan), r"lr=nan"),
        (dict(terms=()), r"terms=\(\) leaves nothing to minimise"),
        (dict(terms=(COSINE, COSINE)), r"the names .* repeat"),
        (dict(terms=(Term("a", 1.0, cosine_distance, EARLY),)), r"none of them lasts to the end"),
        (dict(terms=(replace(SMOOTH, of="images"),)), r"none of them ever looks at the client's gradients.*blind=True"),
        (dict(terms=(replace(SMOOTH, of="images"), replace(COSINE, weight=0.0))), r"none of them ever looks"),
        (
            dict(terms=(COSINE, replace(SMOOTH, of="group"))),
            r"group=1, and 'smoothness' compares several seeds.*2 or more",
        ),
        (dict(group=0), r"group=0"),
        (dict(optimiser="sgd"), r"optimiser='sgd' is not known here; try 'adam' or 'lbfgs'"),
        (dict(optimiser="lbfgs", signed=True), r"signed=True"),
        (dict(labels="guess"), r"labels='guess' is no rule"),
        (dict(patience=0), r"patience=0"),
    ],
)
def test_settings_that_cannot_work_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GradientMatching(**{"terms": (COSINE,), "steps": 5} | settings)


def test_stages_that_divide_no_run():
    for stages in ((), ((0.5, 1),), ((0, 1), (0.5, 1), (0.5, 2)), ((0, 1), (1, 2)), ((0, 1), (0.8, 1), (0.2, 1))):
        with pytest.raises(ValueError, match=r"stages=.* of term 'a' do not divide a run.*begin at 0"):
            Term("a", 1.0, cosine_distance, stages)
    for weight in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"weight={weight} of term 'a' is no weight"):
            Term("a", weight, cosine_distance)
    for factor in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match="a factor is 0 or a positive number"):
            Term("a", 1.0, cosine_distance, ((0, factor),))
    with pytest.raises(ValueError, match="of='labels'"):
        Term("a", 1.0, cosine_distance, of="labels")


def test_leaks_that_do_not_fit_are_named():
    model = network()
    images, _, leak = sent(model)
    attack = gradient_inversion.inverting_gradients(2)

    def fails(leak, message, **arguments):
        with pytest.raises(ValueError, match=message):
            next(attack.search(model, leak, **arguments))

    fails(leak.only([]), r"leak holds no gradients.*leak\.only")
    fails(replace(leak, labels=torch.tensor([1, 2])), r"leak\.labels: shape \(2,\) for a batch of 1")
    fails(replace(leak, grads={"nowhere": torch.ones(3)}), r"'nowhere'.*has no such parameter")
    fails(replace(leak, grads={"0.bias": torch.ones(3)}), r"'0\.bias' is \(3,\).*\(12,\)")
    fails(leak, r"restarts=0", restarts=0)
    fails(leak, r"start: shape \(1, 3, 5, 5\)", start=torch.rand(1, 3, 5, 5))
    fails(leak, r"start: pixels go from .*not normalised", start=leak.normalise(images))
    for steps in ([3], [-1]):
        with pytest.raises(ValueError, match=r"snapshots holds step"):
            attack.run(model, leak, snapshots=steps, progress=False)
    with pytest.raises(ValueError, match=r"snapshots=-1"):
        attack.run(model, leak, snapshots=-1, progress=False)


def test_a_leak_of_zeros_ends_with_a_reason():
    model = network()
    _, _, leak = sent(model)
    zeros = replace(leak, grads={n: torch.zeros_like(g) for n, g in leak.grads.items()})
    states = list(gradient_inversion.inverting_gradients(5).search(model, zeros, restarts=2))
    assert [s.reason for s in states] == ["not finite"] * 2
    with pytest.raises(ValueError, match=r"never had a finite loss \(ended by not finite\).*zeros"):
        gradient_inversion.inverting_gradients(5).run(model, zeros, progress=False)


def test_settings_are_printed_in_words():
    text = repr(gradient_inversion.inverting_gradients())
    for word in (
        "1 gradients (cosine_distance)",
        "0.0001 smoothness (total_variation)",
        "3000 steps of signed adam",
        "staircase",
        "boxed",
    ):
        assert word in text
    assert (
        "lbfgs" in repr(gradient_inversion.dlg())
        and "labels by search" in repr(gradient_inversion.dlg())
        and "unboxed" in repr(gradient_inversion.dlg())
    )
    assert "0.1 to 0.001 late" in repr(Term("late", 0.1, total_variation, end=1e-3))
    assert "x0 from 0%, x1 from 50%" in repr(Term("late", 1.0, total_variation, LATE))
    assert "2 seeds together" in repr(GradientMatching((COSINE,), 5, group=2))
    assert "patience 5" in repr(GradientMatching((COSINE,), 5, patience=5))


def test_a_balanced_april_without_the_position_gradient_is_a_plain_one():
    model = models.build("vit_cifar", embed_dim=64, depth=1, num_heads=1)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([1])).without(["pos_embed"])
    with pytest.warns(UserWarning, match="position"):
        assert presets.april_balanced(5, model, leak) == presets.april(5)
