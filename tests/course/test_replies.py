"""What the checks that are written by hand say of an answer: of each usual way to go wrong, and of right answers in an unusual form."""

import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from privlab import data
from privlab.attacks.membership_inference import signals
from privlab.course.lab_04.checks import GRADIENTS, adam
from privlab.course.lab_14 import checks as lab_14
from privlab.models import morph, skip_connections
from privlab.notebook import checks, kit


def odds(logits, labels):
    p = logits.softmax(1)[torch.arange(len(labels)), labels]
    return (p / (1 - p)).log()


def attack(train=False, shift=lambda: 0, signal=signals.margin, sign=1):
    """The attack of lab 02 with its four bugs mended, or with some of them left."""

    def score(victim, models, keep, pixels, labels):
        with torch.no_grad():
            own, *others = (signal(model.train(train)(pixels.roll(shift(), -1)), labels) for model in (victim, *models))
        outside = [torch.stack(others)[~column, i] for i, column in enumerate(keep.T)]
        mean, std = (torch.stack([f(each) for each in outside]) for f in (torch.mean, torch.std))
        return sign * (own - mean) / std

    return score


def drawn(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def listen(model, layer, x, grads=False, off="always"):
    """What enters a layer, by a hook.  off: when it is removed: always, where the pass succeeds ("after"), or never."""
    heard = []
    hook = model.get_submodule(layer).register_forward_pre_hook(lambda m, given: heard.append(given[0]))
    with torch.set_grad_enabled(grads), hook if off == "always" else nullcontext():
        model(x)
    if off == "after":
        hook.remove()
    return torch.cat(heard)


def row_by_row(r, x, v):
    return torch.stack([(torch.autograd.grad(part, x, retain_graph=True)[0] * v).sum() for part in r])


def persuade(model, picture, target, steps=50, sign=1, inside=True, start=torch.clone):
    x = start(picture).requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(steps):
        (x.grad,) = torch.autograd.grad(sign * torch.nn.functional.cross_entropy(model(x), torch.tensor([target])), x)
        optimiser.step()
        if inside:
            x.data.clamp_(0, 1)
    return x.detach()


def poincare(z, t, below=0.0):
    """Without a guard.  below: what is added to the sum that u is divided by."""
    u, v = z / (z.abs().sum() + below), (torch.eye(len(z))[t] - 1e-4).clamp(0, 1)
    return torch.arccosh(1 + 2 * (u - v).square().sum() / ((1 - u.square().sum()) * (1 - v.square().sum())))


def forward_of(block):
    block.downsample = skip_connections.Scale(0)
    return block.forward


STEM = ["pos_embed", "patch_embed.proj.weight"]
SAID = [  # exercise, answer, what is said of it; nothing of a right one
    ("00.enough", {*STEM, "head.bias"}, "'head.bias' is not needed"),
    ("01.split", lambda n, seed: data.four_way(torch.zeros(n), seed), ""),
    ("01.split", lambda n, seed: drawn(n, seed).chunk(2), "Yours are 2"),
    ("01.split", lambda n, seed: (drawn(n, seed) + 1)[: n // 4 * 4].chunk(4), "from 0 to n - 1"),
    ("01.split", lambda n, seed: [drawn(n, seed + k)[: n // 4] for k in range(4)], "in two of your parts"),
    ("01.split", lambda n, seed: drawn(n, seed).chunk(4), "11, 11, 11, 9 images"),
    ("01.split", lambda n, seed: torch.randperm(n)[: n // 4 * 4].chunk(4), "of your own"),
    ("01.split", lambda n, seed: torch.arange(n)[: n // 4 * 4].chunk(4), "Another seed"),
    ("02.four_bugs", attack(train=True), "wrong mode"),
    ("02.four_bugs", attack(signal=odds), "NaN, infinite"),
    ("02.four_bugs", attack(sign=-1), "The sign is turned"),
    ("02.four_bugs", attack(signal=signals.loss), "You compare log p"),
    ("02.four_bugs", attack(shift=lambda: 1), "in another order"),
    ("02.four_bugs", lambda *given: 3 * attack()(*given) + 1, ""),  # any scores in the right order
    ("03.entering", partial(listen, off="never"), "still there after the call"),
    ("03.entering", partial(listen, grads=True), "carries a graph"),
    ("03.entering", partial(listen, off="after"), "`finally`"),
    ("03.entering", lambda m, layer, x: listen(m.train(), layer, x), "leave the model in eval mode"),
    ("04.push", lambda r, x, v: torch.autograd.grad(r, x, v.flatten())[0].flatten(), "That is J^T v"),
    ("04.push", row_by_row, "6 times backward through r"),
    ("06.twin", lambda image: image * 0.99, "but for a few hundredths"),
    ("06.twin", lambda image: image.roll(4, dims=-1), "move whole patches"),
    ("06.twin", lambda image: torch.cat([image[..., :8], image[..., :24]], -1), "a bag of patches"),
    ("07.stages", {"gradients": [[0, 1], [0.5, 0.5]], "statistics": ((0, 0), (0.25, 0), (0.5, 1))}, ""),
    ("07.registration", lambda m: torch.tensor((m - m.mean(0)).flatten(1).norm(dim=1).tolist()), "still zero"),
    ("07.registration", lambda m: (m.detach() - m.mean(0)).flatten(1).norm(dim=1), "driven *away*"),
    ("08.fewest", {"blocks.0.attn.qkv.weight"}, "subspace finds the image in these 150,528 numbers"),
    ("08.fewest", {*STEM, "cls_token"}, "But 46,816 are enough"),
    ("08.fewest", {"pos_embed"}, "'pos_embed' is right, and not enough"),
    ("08.fewest", {"blocks.0.mlp.fc1.weight"}, "No closed form of ours"),
    ("08.label", {"head.weight", "head.bias"}, "Ten are enough"),
    ("08.label", {"norm.bias"}, "one number for each class"),
    ("09.variant", morph.STEPS[9], "nothing is taken away"),
    ("09.variant", morph.variant(8, activations="010"), "out of step 9"),
    ("11.remove", forward_of, "Return the block itself"),
    ("11.convince", lambda m, x, t, n=50: persuade(m, x, t, n, inside=False).clamp(0, 1), ""),
    ("11.convince", partial(persuade, sign=-1), "Mind the sign"),
    ("11.convince", partial(persuade, inside=False), "Outside [0, 1]"),
    ("11.convince", partial(persuade, start=lambda x: x), "changes what it is given"),
    ("11.convince", lambda m, x, t, n=50: persuade(m, x, t, 1), "Are your steps long enough"),
    ("11.poincare", poincare, "1) gives nan: the sum of absolute values is 0"),
    ("11.poincare", partial(poincare, below=1e-9), "u lies on the rim of the ball"),
    ("11.fold", lambda weight, *rest: weight, "Give two tensors, the new weight and the new bias"),
    ("14.repeats", partial(lab_14._repeats, root=0), "does not make your limit smaller"),
    ("14.flaws", {"D": "S", "C": "R", "B": " P ", "A": "Q"}, ""),
    ("14.flaws", dict.fromkeys("ABCD", ...), kit.OPEN),
]


@pytest.mark.parametrize(("name", "answer", "why"), SAID)
def test_what_is_said_of_an_answer(name, answer, why):
    outcome = checks.verify(name, answer)
    assert outcome.passed is not bool(why) and why in outcome.why


@pytest.mark.parametrize("signed", [False, True])
def test_adam_by_hand_is_adam_of_torch(signed):
    for gradients in GRADIENTS:
        pixel = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimiser, lengths = torch.optim.Adam([pixel], lr=0.1), []
        for gradient in gradients:
            before = pixel.item()
            pixel.grad = torch.tensor([math.copysign(1.0, gradient) if signed else gradient], dtype=torch.float64)
            optimiser.step()
            lengths.append(abs(pixel.item() - before) / 0.1)
        assert adam(gradients, signed) == pytest.approx(lengths, rel=1e-6)
