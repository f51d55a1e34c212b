"""Every check accepts the lab's own solution and turns at least three wrong answers away, each with its reason."""

import math
import re
from pathlib import Path

import jupytext
import pytest
import torch

from privlab import checks
from privlab.attacks import gradient
from privlab.exercises import lab_04
from privlab.leak import Leak

LABS = Path(__file__).parents[1] / "labs"


def flat(grads):
    return torch.cat([g.flatten() for _, g in sorted(grads.items())])


def one_minus_cosine(mine, theirs, extra=0.0):
    a, b = flat(mine), flat(theirs)
    return 1 - a @ b / (a.norm() * b.norm() + extra)


def layer_cosines(mine, theirs):
    return torch.stack([(mine[n] * theirs[n]).sum() / mine[n].norm() / theirs[n].norm() for n in mine])


def adam(
    slopes, signed, beta1=0.9, beta2=0.999, eps=1e-8, fix_m=True, fix_v=True, root=math.sqrt, inside=0.0, late=False
):
    """Adam's lengths, and those of the usual slips."""
    m, v, lengths = 0.0, 0.0, []
    for t, slope in enumerate(slopes, start=1):
        g = math.copysign(1.0, slope) if signed else slope
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        share = 1 - beta2**t if fix_v else 1
        below = (root(v) + eps) / root(share) if late else root(v / share + inside) + eps
        lengths.append(abs(m / (1 - beta1**t if fix_m else 1) / below))
    return lengths


def adam_of_torch(slopes, signed, dtype=torch.float64):
    pixel = torch.zeros(1, dtype=dtype, requires_grad=True)
    optimiser, at, lengths = torch.optim.Adam([pixel], lr=0.1), 0.0, []
    for slope in slopes:
        pixel.grad = torch.tensor([slope], dtype=dtype)
        if signed:
            pixel.grad.sign_()
        optimiser.step()
        lengths.append(abs(pixel.item() - at) / 0.1)
        at = pixel.item()
    return lengths


WRONG = {
    "00.threat": [
        ({"architecture", "weights", "gradients", "batch size", "preprocessing", "images"}, "Take out 'images'"),
        ({"architecture", "gradients", "batch size", "preprocessing"}, "'weights' is missing"),
        ({"gradient"}, "'gradient' is not on the list"),
        (set(), "The set is empty"),
        ("gradients", "Give a set of words"),
    ],
    "00.psnr": [
        (lambda a, b: 10 * (a - b).square().mean().log10(), "sign"),
        (lambda a, b: -10 * (a - b).square().mean().log(), "base 10"),
        (lambda a, b: -10 * (a - b).square().sum().log10(), "takes their mean"),
        (lambda a, b: -20 * (a - b).abs().mean().log10(), "average the squares"),
        (lambda a, b: -10 * (a - b).square().log10(), "Give one number"),
        (lambda a, b: -10 * (a - b).abs().mean().log10(), "Square the differences"),
    ],
    "00.enough": [
        ({"pos_embed"}, "no gradient named 'patch_embed.proj.weight'"),
        ({"pos_embed", "patch_embed.proj.weight", "head.bias"}, "'head.bias' is not needed"),
        ({"pos_embed", "patch_embed.weight"}, "no gradient named 'patch_embed.weight'"),
        ("pos_embed", "Give the set"),
    ],
    "04.cosine": [
        (lambda a, b: 1 - one_minus_cosine(a, b), "take it from 1"),
        (lambda a, b: one_minus_cosine(a, b) - 1, "ends at -1"),
        (lambda a, b: 1 - layer_cosines(a, b).mean(), "mean of one cosine a layer"),
        (lambda a, b: (1 - layer_cosines(a, b)).sum(), "one distance a layer"),
        (lambda a, b: 1 - layer_cosines(a, b).sum(), "adds up one cosine a layer"),
        (
            lambda a, b: 1 - flat(a) @ flat(b) / sum(a[n].norm() * b[n].norm() for n in a),
            "multiplied the lengths layer by layer",
        ),
        (
            lambda a, b: 1 - flat(a) @ flat(b) / sum(g.norm() for g in a.values()) / sum(g.norm() for g in b.values()),
            "Add their squares",
        ),
        (lambda a, b: 1 - flat(a) @ flat(b) / (flat(a).norm() * flat(b).norm()) ** 2, "take the roots"),
        (lambda a, b: 1 - flat(a) @ flat(b), "Not divided"),
        (lambda a, b: 1 - torch.cosine_similarity(*(torch.cat([*g.values()]).flatten() for g in (a, b)), 0), "by name"),
        (
            lambda a, b: (flat(a) - flat(b)).square().sum(),
            "as in DLG. Let the client send the same message 1,000 times",
        ),
        (lambda a, b: (flat(a) - flat(b)).norm(), "root of the squared distance"),
        (lambda a, b: (flat(a) - flat(b)).square().mean(), "mean squared difference"),
        (lambda a, b: (flat(a) / flat(a).norm() - flat(b) / flat(b).norm()).square().sum(), "2 - 2 cos"),
        (lambda a, b: one_minus_cosine(a, b, extra=1e-8), "10,000 times as short"),
        (
            lambda a, b: one_minus_cosine(a, b) if flat(b).norm() < 10 else flat(b).norm(),
            "1,000 times as long, and yours",
        ),
        (lambda a, b: 1 - a["stem"] @ b["stem"].T, "Give one number"),
        (lambda a, b: torch.tensor(math.nan), "yours gives nan"),
        (0.5, "Give a function"),
    ],
    "04.sign": [
        (lambda s, signed: adam(s, signed, fix_m=False, fix_v=False), "has length 3.16"),
        (lambda s, signed: adam(s, signed, fix_m=False), "You correct v for its beginning at 0, and not m"),
        (lambda s, signed: adam(s, signed, fix_v=False), "You correct m for its beginning at 0, and not v"),
        (lambda s, signed: [1.0] * len(s) if signed else adam(s, False), "you took the sign of the step"),
        (lambda s, signed: adam(s, signed, inside=1e-8, eps=0.0), "eps stands under the root"),
        (lambda s, signed: adam(s, signed, eps=0.0), "eps is missing"),
        (lambda s, signed: adam(s, signed, late=True), "before you corrected"),
        (lambda s, signed: adam(s, signed, root=float), "The root is missing"),
        (lambda s, signed: adam(s, signed, beta2=0.0), "remembers the large slopes of long ago"),
        (lambda s, signed: adam(s, signed, beta1=0.0), "Your m holds the last slope alone"),
        (lambda s, signed: adam(s, signed, beta1=0.999, beta2=0.9), "swapped"),
        (lambda s, signed: lab_04.adam([math.copysign(1, a) for a in s] if signed else s, s), "the sign for m alone"),
        (lambda s, signed: lab_04.adam(s, [math.copysign(1, a) for a in s] if signed else s), "the sign for v alone"),
        (lambda s, signed: adam(s, False), "You took no sign"),
        (lambda s, signed: adam(s, True), "unasked"),
        (lambda s, signed: adam(s, not signed), "the other way round"),
        (lambda s, signed: [m * a for m, a in zip(adam(s, signed), s, strict=True)], "never negative"),
        (lambda s, signed: [0.1 * a for a in adam(s, signed)], "step 1 has length 1, and yours 0.1."),
        (lambda s, signed: [math.nan] * len(s), "and yours nan"),
        (lambda s, signed: adam(s, signed)[1:], "6 here, and yours is 5 numbers"),
        (lambda s, signed: adam(s, signed)[-1], "yours is a float"),
        ([1.0], "Give a function"),
    ],
    "04.batchnorm": [
        (lambda x: x, "That is x itself"),
        (lambda x: x + 0.01, "too easy"),
        (lambda x: x + torch.linspace(0, 3, 8), "each pixel in its own way"),
        (lambda x: x * torch.linspace(1, 2, 4).view(4, 1, 1, 1), "each image in its own way"),
        (lambda x: x + torch.linspace(1, 2, 4).view(4, 1, 1, 1), "each image in its own way"),
        (lambda x: torch.nn.functional.instance_norm(x), "each image in its own way"),
        (lambda x: -3 * x, "negative factor"),
        (lambda x: 1 - x, "in eval mode by"),
        (lambda x: 0 * x + 7, "the same everywhere"),
        (lambda x: 0.01 * x, "eps under its root"),
        (lambda x: x + 1e6, "rounds off"),
        (lambda x: x.flip(-1), "no shift or stretch"),
        (lambda x: x**2, "no shift or stretch"),
        (lambda x: x / 0, "NaN or infinity"),
        (lambda x: x.mean((0, 2, 3)), "yours is one of (3,)"),
        (lambda x: 3.0, "yours is a float"),
        (torch.zeros(4, 3, 8, 8), "Give a function"),
    ],
    "04.eval_scale": [
        (1.0, "Very nearly!"),
        (1, "Very nearly!"),
        (math.sqrt(1 + 1e-5), "*divides*"),
        (1 / (1 + 1e-5), "not by a variance"),
        (1 / (1 + math.sqrt(1e-5)), "Add first"),
        (1 / math.sqrt(1e-5), "A fresh running variance is not 0"),
        (0.99, "0.99 is not it"),
        (math.nan, "nan is not it"),
        (True, "this is a bool"),
        ("1 - 5e-6", "this is a str"),
    ],
    "04.label": [
        (lambda rows: rows.sum(1).argmin(), "iDLG's rule"),
        (lambda rows: rows.mean(1).argmin(), "iDLG's rule"),
        (lambda rows: rows.sum(1).argmax(), "its sum is the smallest"),
        (lambda rows: rows.sum(1).abs().argmax(), "LayerNorm makes them sum to 0"),
        (lambda rows: rows.amin(1).argmin(), "GradViT's rule"),
        (lambda rows: rows.argmin() // rows.shape[1], "GradViT's rule"),
        (lambda rows: rows.amax(1).argmax(), "a wrong class, always"),
        (lambda rows: rows.amax(1).argmin(), "features of both signs give every row"),
        (lambda rows: (rows < 0).sum(1).argmax(), "count the negative"),
        (lambda rows: rows.norm(dim=1).argmin(), "shortest row"),
        (lambda rows: (rows @ rows[0]).argmin(), "compare each with each"),
        (lambda rows: rows.argmin(), "classes are 0 to 4, and yours says"),
        (lambda rows: 2.5, "classes are 0 to 4, and yours says 2.5"),
        (lambda rows: rows.argmin(1), "Yours has the shape (5,)"),
        (lambda rows: rows.sum(1) < 0, "Yours has the shape (5,)"),
        (lambda rows: 2, "stretched by a number"),
        (2, "Give a function"),
    ],
    "05.theorem": [
        (lambda w, g: g.T @ w, "transpose"),
        (lambda w, g: w[:3].T @ g[:3], "the part of q alone"),
        (lambda w, g: w[:6].T @ g[:6], "The part of v is missing"),
        (lambda w, g: sum(w[i : i + 3] @ g[i : i + 3] for i in (0, 3, 6)), "Transpose the weight"),
        (lambda w, g: w @ g.T, "yours is (9, 9)"),
    ],
    "05.noise": [
        (lambda g, r: r * g.norm(), "ten times too large"),
        (lambda g, r: r * g.norm() / g.numel(), "sqrt(n)"),
        (lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2, "variance"),
        (lambda g, r: r * g.std(), "norm, not the standard deviation"),
    ],
    "05.width": [
        (lambda w, s, p: max(0, (s // p) ** 2 - w), "LayerNorm"),
        (lambda w, s, p: (s // p) ** 2 - (w - 1), "fewer than no directions"),
        (lambda w, s, p: w <= (s // p) ** 2, "how many directions"),
        (lambda w, s, p: max(0, s // p - (w - 1)), "it should be"),
    ],
    "05.rank": [
        (lambda n, p: (n - 1) ** 2, "3 p^2"),
        (lambda n, p: 2 * n - 1, "what the embedding shows"),
        (lambda n, p: n * n - 1, "no embedding at all"),
        (lambda n, p: 0, "hides nothing"),
    ],
    "05.design": [
        (lambda n, k: n - k, "column of ones"),
        (lambda n, k: 1, "is safe, but"),
        (lambda n, k: n, "at the largest rank"),
        (lambda n, k: None, "Nothing is written yet"),
    ],
}

RIGHT = {  # other ways than the lab's own
    "04.cosine": [
        one_minus_cosine,
        lambda a, b: one_minus_cosine(a, b).item(),
        lambda a, b: 1 - torch.cosine_similarity(flat(a), flat(b), dim=0),
        lambda a, b: (flat(a) / flat(a).norm() - flat(b) / flat(b).norm()).square().sum() / 2,
        lambda a, b: gradient.cosine_distance(None, a, Leak(b, 1, (3, 32, 32))),
    ],
    "04.sign": [adam, adam_of_torch, lambda s, signed: torch.tensor(adam_of_torch(s, signed, torch.float32))],
    "04.batchnorm": [
        lambda x: 2 * x,
        lambda x: x + 1,
        lambda x: x.mul_(3).add_(7),
        lambda x: x * torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1),
        lambda x: torch.cat([x[:, :2], 5 * x[:, 2:]], dim=1),
        torch.nn.BatchNorm2d(3),
    ],
    "04.eval_scale": [0.999995, 1 / math.sqrt(1 + 1e-5), torch.nn.BatchNorm2d(1).eval()(torch.ones(1, 1, 1, 1))],
    "04.label": [
        lambda rows: rows.norm(dim=1).argmax(),
        lambda rows: rows.abs().sum(1).argmax().item(),
        lambda rows: ((rows @ rows.T) < 0).sum(1).argmax()[None],
        lambda rows: int((rows @ rows.T).fill_diagonal_(0).sum(1).argmin()),
        lambda rows: next(i for i, r in enumerate(rows) if all(r @ q < 0 for j, q in enumerate(rows) if j != i)),
    ],
}


def solutions():
    """(exercise, the lab's own answer): the solution cells of every lab, run on their own."""
    for path in sorted(LABS.glob("[0-9]*.py")):
        answer = None
        for cell in jupytext.read(path).cells:
            if "solution" in cell.metadata.get("tags", []):
                scope = {"torch": torch}
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in ("torch", "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


def test_every_exercise_of_the_labs_has_a_check_and_the_other_way_round():
    assert sorted(name for name, _ in solutions()) == checks.names() == sorted(WRONG)


def test_every_lab_has_three_exercises():
    for path in LABS.glob("[0-9]*.py"):
        assert sum(name.startswith(path.name[:2]) for name in checks.names()) >= 3


@pytest.mark.parametrize(("name", "answer"), list(solutions()))
def test_the_solution_is_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)
    assert "right" in outcome._repr_html_()


@pytest.mark.parametrize(("name", "answer"), [(n, answer) for n, answers in RIGHT.items() for answer in answers])
def test_other_right_answers_are_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)


@pytest.mark.parametrize(("name", "wrong", "why"), [(n, w, why) for n, rows in WRONG.items() for w, why in rows])
def test_wrong_answers_are_told_why(name, wrong, why):
    outcome = checks.verify(name, wrong)
    assert not outcome.passed
    assert why in outcome.why, outcome.why


@pytest.mark.parametrize("name", checks.names())
@pytest.mark.parametrize("unwritten", [None, ..., lambda *_: None])
def test_an_open_exercise_is_no_error(name, unwritten):
    outcome = checks.verify(name, unwritten)
    assert not outcome.passed and "Traceback" not in outcome.why


def test_the_readers_own_error_is_shown():
    assert "stopped with ZeroDivisionError" in checks.verify("05.noise", lambda g, r: 1 / 0).why


@pytest.mark.parametrize("signed", [False, True])
def test_adam_by_hand_is_adam_of_torch(signed):
    for slopes in [*lab_04.SLOPES, [0.3, -2.0, 1e-3, 5.0, -1e-8] * 4]:
        given = [math.copysign(1.0, s) for s in slopes] if signed else slopes
        assert lab_04.adam(given, given) == pytest.approx(adam_of_torch(slopes, signed), rel=1e-6)


@pytest.mark.parametrize(("training", "low", "high"), [(True, 0.0, 1e-4), (False, 7.0, 20.0)])
def test_a_fresh_batchnorm_sees_a_stretch_in_eval_mode_only(training, low, high):
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert low <= lab_04.seen_apart(x, 3 * x + 7, training) <= high


def test_the_gradients_of_the_label_exercise_are_those_of_a_linear_layer():
    for truth, probabilities, features in lab_04.LAST_LAYERS:
        weight = (
            torch.outer(torch.tensor(probabilities).log(), torch.tensor(features))
            / torch.tensor(features).square().sum()
        )
        weight.requires_grad_()  # logits are the log probabilities
        loss = torch.nn.functional.cross_entropy((weight @ torch.tensor(features))[None], torch.tensor([truth]))
        assert torch.allclose(
            torch.autograd.grad(loss, weight)[0], lab_04._rows(truth, probabilities, features), atol=1e-6
        )


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
