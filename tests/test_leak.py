"""The line between client and attacker: what crosses it, and what the errors say."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Observed, Tokens
from torch import nn
from weights import same

from privlab import models
from privlab.attacks import gradient_inversion, model_inversion
from privlab.attacks.model_inversion import generators
from privlab.leak import observe


@pytest.fixture(scope="module")
def small():
    return models.build("vit_cifar", depth=1, embed_dim=64, num_heads=4)


def images(n=1):
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_gradients_are_those_of_the_mean_loss(small):
    x, y = images(3), torch.tensor([1, 2, 3])
    names, parameters = zip(*small.named_parameters(), strict=True)
    expected = torch.autograd.grad(F.cross_entropy(small(small.normalise(x)), y), parameters)
    torch.testing.assert_close(observe(small, x, y).grads, dict(zip(names, expected, strict=True)))


def test_a_linear_model_by_hand():
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False)), torch.arange(12.0).view(1, 3, 2, 2) / 12
    nn.init.zeros_(model[1].weight)
    leak = observe(model, x, torch.tensor([0]))
    # logits are 0, so the softmax is (1/2, 1/2) and the rows of the gradient are -x/2 and x/2
    torch.testing.assert_close(leak["1.weight"], torch.stack([-x.flatten() / 2, x.flatten() / 2]))


def test_observe_in_train_mode_normalises_by_the_batch_and_leaves_running_statistics_alone():
    model, x, y = models.build("resnet_cifar", channels=(4, 4, 8, 8)).train(), images(2), torch.tensor([0, 1])
    before = copy.deepcopy(model.state_dict())
    leak = observe(model, x, y)
    assert model.training and same(model, before)
    loss = F.cross_entropy(model(model.normalise(x)), y)  # a plain forward pass does count
    assert not same(model, before)
    torch.testing.assert_close(leak["fc.weight"], torch.autograd.grad(loss, model.fc.weight)[0])


@pytest.mark.parametrize("derivative", ["exact", "auto"])
def test_neither_a_client_nor_a_search_writes_into_a_models_buffers(derivative):
    model = Observed().eval()
    held = model.largest
    leak = observe(model, images(), torch.tensor([0]))
    attack = replace(gradient_inversion.inverting_gradients(steps=60), derivative=derivative)
    attack.run(model, leak, progress=False)
    assert model.mean is None and model.largest is held and held == 0
    model(images())
    assert held > 0  # a plain pass does write


def test_client_and_searches_differentiate_whatever_the_caller_has_switched_off(small):
    public, x, found = generators.Eigenfaces(images(20), width=5), images(), []
    newton = gradient_inversion.GaussNewton(8)
    people = model_inversion.ppa(pool=8, candidates=2, kept=1, views=0, steps=1)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            leak = observe(small, x, torch.tensor([0]))
            searches = [s.run(small, leak, progress=False) for s in (gradient_inversion.annealed(1), newton)]
            searches.append(people.run(small, public, [0]))
        found.append([leak["head.weight"], *(result.images for result in searches)])
    assert all(map(torch.equal, *found))


def test_a_leak_is_split_and_rounded(small):
    leak, names = observe(small, images(), torch.tensor([0])), {"pos_embed", "head.bias"}
    assert leak.only(names).grads.keys() == names and leak.without(names).grads.keys() == leak.grads.keys() - names
    short = leak.rounded(torch.bfloat16)
    assert short.precision is torch.bfloat16 and short["pos_embed"].dtype is torch.float32
    torch.testing.assert_close(short["pos_embed"], leak["pos_embed"], rtol=2**-8, atol=0)
    assert torch.equal(short.rounded(torch.bfloat16)["pos_embed"], short["pos_embed"])


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (images(), [10], r"labels: got \[10\]; this model knows the classes 0 to 9"),
        (images(2), [1], r"labels of shape \(1,\)"),
        (images(), [0.5], "type torch.float32"),
        (images() * torch.nan, [1], "pixels go from nan to nan; give finite values"),
        (images()[..., :30], [1], r"shape \(1, 3, 32, 30\) does not fit the model"),
    ],
)
def test_bad_input_is_named(small, x, y, says):
    with pytest.raises(ValueError, match=says):
        observe(small, x, torch.tensor(y))


def test_missing_and_broken_gradients_are_named(small):
    leak = observe(small, images(), torch.tensor([0]))
    for call in (lambda: leak["pos"], lambda: leak.only(["pos"]), lambda: leak.without("pos")):
        with pytest.raises(ValueError, match="leak holds no gradient named 'pos'; it has"):
            call()
    for names, says in ((["pos"], "learns no parameter named 'pos'"), ([], "its step sends nothing")):
        with pytest.raises(ValueError, match=says):
            observe(small, images(), [0], names=names)
    leak.grads["pos_embed"][0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="'pos_embed' holds NaN"):
        leak["pos_embed"]


@pytest.mark.parametrize("train", [True, False])
def test_one_image_and_the_same_image_twice_have_one_gradient(train):
    model = Tokens(3, 8, nn.BatchNorm2d(6), 10).train(train)
    one, two = (observe(model, images().repeat(n, 1, 1, 1), torch.tensor([3] * n)) for n in (1, 2))
    off = nn.utils.get_total_norm([two[n] - g for n, g in one.grads.items()])
    assert off / one.norm < 100 * torch.finfo(torch.float32).eps


def test_a_parameter_that_the_forward_pass_leaves_alone_sends_zeros():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    model[0].aside = nn.Linear(4, 4)
    leak = observe(model, images(), torch.tensor([3]))
    assert not leak["0.aside.weight"].any() and leak["0.aside.weight"].shape == (4, 4) and leak["1.weight"].any()
