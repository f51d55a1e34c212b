"""The line between client and attacker: what crosses it, and what the errors say."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privlab import models
from privlab.attacks import gradient_inversion, model_inversion
from privlab.attacks.model_inversion import generators
from privlab.leak import observe


@pytest.fixture(scope="module")
def small():
    return models.build("vit_cifar", depth=1, embed_dim=64, num_heads=4)


def images(n=1, size=32, seed=0):
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(seed))


def test_gradients_are_those_of_the_mean_loss(small):
    x, y = images(3), torch.tensor([1, 2, 3])
    leak = observe(small, x, y)
    small.zero_grad()
    F.cross_entropy(small(small.normalise(x)), y).backward()
    assert leak.grads.keys() == {n for n, _ in small.named_parameters()}
    for name, p in small.named_parameters():
        torch.testing.assert_close(leak.grads[name], p.grad)
    small.zero_grad(set_to_none=True)


def test_a_linear_model_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False))
    nn.init.zeros_(model[1].weight)
    x = torch.arange(12.0).view(1, 3, 2, 2) / 12
    leak = observe(model, x, torch.tensor([0]))
    # logits are 0, so the softmax is (1/2, 1/2) and the rows of the gradient are -x/2 and x/2
    torch.testing.assert_close(leak["1.weight"], torch.stack([-x.flatten() / 2, x.flatten() / 2]))


def test_observe_in_train_mode_normalises_by_the_batch_and_leaves_running_statistics_alone():
    model, y = models.build("resnet_cifar", channels=(4, 4, 8, 8)).train(), torch.tensor([0, 1])
    before = {n: b.clone() for n, b in model.named_buffers()}
    leak = observe(model, images(2), y)
    assert model.training and all(torch.equal(b, before[n]) for n, b in model.named_buffers())
    loss = F.cross_entropy(model(model.normalise(images(2))), y)  # a plain forward pass does count
    assert not torch.equal(model.bn1.running_mean, before["bn1.running_mean"])
    torch.testing.assert_close(leak["fc.weight"], torch.autograd.grad(loss, model.fc.weight)[0])


class Observed(nn.Module):
    """A linear model with buffers that a pass writes in any mode: the largest pixel so far, and the first batch's mean."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 32 * 32, 10)
        self.register_buffer("largest", torch.zeros(()))
        self.register_buffer("mean", None)

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.detach().max()))
        if self.mean is None:
            self.mean = x.detach().mean((0, 2, 3), keepdim=True)
        return self.fc((x - self.mean).flatten(1))


@pytest.mark.parametrize("derivative", ["exact", "auto"])
def test_neither_a_client_nor_a_search_writes_into_a_models_buffers(derivative):
    model = Observed().eval()
    held = model.largest
    leak = observe(model, images(), torch.tensor([0]))
    attack = gradient_inversion.inverting_gradients(steps=60)  # so many that it would do without care if it could
    replace(attack, derivative=derivative).run(model, leak, progress=False)
    assert model.mean is None and model.largest is held and held == 0
    model(images())
    assert held > 0  # a plain pass does write


def test_client_and_searches_differentiate_whatever_the_caller_has_switched_off(small):
    public, x = generators.Eigenfaces(images(20), width=5), images()
    found = []
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            leak = observe(small, x, torch.tensor([0]))
            first = gradient_inversion.inverting_gradients(steps=2).run(small, leak, progress=False)
            second = gradient_inversion.GaussNewton(passes=12).run(small, leak, progress=False)
            people = model_inversion.ppa(pool=8, candidates=2, kept=1, views=0, steps=1).run(small, public, [0])
        found.append((leak["head.weight"], first.images, second.images, people.images))
    assert all(map(torch.equal, *found))


def test_a_leak_is_split_and_rounded(small):
    leak, names = observe(small, images(), torch.tensor([0])), ["pos_embed", "head.bias"]
    assert set(leak.only(names).grads) == set(names)
    assert set(leak.only(names).grads) | set(leak.without(names).grads) == set(leak.grads)
    short = leak.rounded(torch.bfloat16)
    assert short.precision is torch.bfloat16 and short["pos_embed"].dtype is torch.float32
    torch.testing.assert_close(short["pos_embed"], leak["pos_embed"], rtol=2**-8, atol=0)
    assert torch.equal(short.rounded(torch.bfloat16)["pos_embed"], short["pos_embed"])


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (torch.rand(1, 3, 32, 32), torch.tensor([10]), r"labels: got \[10\]; this model knows the classes 0 to 9"),
        (torch.rand(2, 3, 32, 32), torch.tensor([1]), r"labels of shape \(1,\)"),
        (torch.rand(1, 3, 32, 32), torch.tensor([0.5]), "type torch.float32"),
        (torch.full((1, 3, 32, 32), float("nan")), torch.tensor([1]), "pixels go from nan to nan; give finite values"),
        (torch.rand(1, 3, 30, 30), torch.tensor([1]), r"shape \(1, 3, 30, 30\) does not fit the model"),
    ],
)
def test_bad_input_is_named(small, x, y, says):
    with pytest.raises(ValueError, match=says):
        observe(small, x, y)


def test_missing_and_broken_gradients_are_named(small):
    leak = observe(small, images(), torch.tensor([0]))
    for call in (lambda: leak["pos"], lambda: leak.only(["pos"]), lambda: leak.without("pos")):
        with pytest.raises(ValueError, match="leak holds no gradient named 'pos'; it has"):
            call()
    with pytest.raises(ValueError, match="learns no parameter named 'pos'"):
        observe(small, images(), torch.tensor([0]), names=["pos"])
    with pytest.raises(ValueError, match="its step sends nothing"):
        observe(small, images(), [0], names=[])
    leak.grads["pos_embed"][0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="'pos_embed' holds NaN"):
        leak["pos_embed"]


class Tokens(nn.Module):
    """A map behind a BatchNorm, read as tokens: the gradient arrives in an order of memory that PyTorch's CPU kernel misreads."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 6, 8, stride=8), nn.BatchNorm2d(6)
        self.head = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 10))

    def forward(self, x):
        return self.head(self.norm(self.patches(x)).flatten(2).transpose(1, 2)).tanh().mean(1)


@pytest.mark.parametrize("train", [True, False])
def test_one_image_and_the_same_image_twice_have_one_gradient(train):
    model = Tokens().train(train)
    one = observe(model, images(), torch.tensor([3])).grads
    two = observe(model, images().repeat(2, 1, 1, 1), torch.tensor([3, 3])).grads
    off = nn.utils.get_total_norm([two[n] - g for n, g in one.items()])
    assert off / nn.utils.get_total_norm(one.values()) < 100 * torch.finfo(torch.float32).eps


class Keeping(nn.Module):
    """A bias of the logits that a layer computes from its weights, and keeps, as timm's LeViT does."""

    def __init__(self, name):
        super().__init__()
        self.weight, self.held = nn.Parameter(torch.arange(10.0) / 10), {}
        setattr(self, name, self.held)

    def forward(self, x):
        if "bias" not in self.held:
            self.held["bias"] = self.weight.square()
        return x.flatten(1)[:, :10] + self.held["bias"]


@pytest.mark.parametrize("look", ["never", "with a graph"])
@pytest.mark.parametrize("name", ["cache", "memory"])
def test_what_a_layer_keeps_breaks_no_gradient_and_stays_with_the_layer(name, look):
    x, y = images(), torch.tensor([3])
    model = Keeping(name)
    if look != "never":
        F.cross_entropy(model(x), y).backward()  # frees the graph
        model.weight.grad = None
    held, before = model.held, dict(model.held)
    first, second = (observe(model, x, y).grads["weight"] for _ in range(2))
    assert first.any() and torch.equal(first, second)
    assert getattr(model, name) is held and held.keys() == before.keys() and all(held[n] is before[n] for n in held)
    right = (F.cross_entropy(x.flatten(1)[:, :10] + model.weight.square(), y),)
    torch.testing.assert_close(first, torch.autograd.grad(right, model.weight)[0])


def test_a_parameter_that_the_forward_pass_leaves_alone_sends_zeros():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    model[0].aside = nn.Linear(4, 4)
    leak = observe(model, images(), torch.tensor([3]))
    assert not leak["0.aside.weight"].any() and leak["0.aside.weight"].shape == (4, 4)
    assert leak["1.weight"].any()
