"""Passes leave no trace, and gradients through BatchNorm and its kin are right for one image, however maps lie in memory."""

import itertools
from functools import partial

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

from privlab.models.forward import RightGradients, functional

CHANNELS = 4
LAYERS = {
    "batch, train": lambda: nn.BatchNorm2d(CHANNELS),
    "batch, eval": lambda: nn.BatchNorm2d(CHANNELS).eval(),
    "instance": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
}
SHAPES = [(1, CHANNELS, 4, 3), (1, CHANNELS, 1, 3), (2, CHANNELS, 4, 1)]


def drawn(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def layouts(x):
    """The same numbers in every order of memory."""
    for order in itertools.permutations(range(x.ndim)):
        back = [order.index(i) for i in range(x.ndim)]
        yield x.permute(order).contiguous().permute(back)


def derivatives(layer, x, pull):
    """The answer, its gradients along `pull`, and the gradients of those."""
    x, pull = x.detach().requires_grad_(), pull.detach().requires_grad_()
    variables = [x, *layer.parameters()]
    y = layer(x)
    gradients = torch.autograd.grad(y, variables, pull, create_graph=True)
    second = torch.autograd.grad(sum(g.pow(3).sum() for g in gradients), [pull, *variables], materialize_grads=True)
    return [y, *gradients, *second]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_first_and_second_derivatives_do_not_depend_on_the_layout(layer, shape):
    layer = LAYERS[layer]().double()
    x, pull = drawn(shape, torch.float64, 0), drawn(shape, torch.float64, 1)
    right = derivatives(layer, x, pull)
    both = zip(layouts(x), layouts(pull), strict=True)
    for a, b in [*((a, pull) for a in layouts(x)), *((x, b) for b in layouts(pull)), *both]:
        with RightGradients():
            got = derivatives(layer, a, b)
        for g, r in zip(got, right, strict=True):
            assert (g - r).norm() <= 1e-10 * r.norm().clamp(min=1e-3)


def test_the_functional_forms_and_keyword_arguments_are_reached():
    x, pull = (drawn((1, 4, 3, 3), torch.float64, seed) for seed in (0, 1))
    mean, var, tokens = torch.zeros(4).double(), torch.ones(4).double(), pull.flatten(2).transpose(1, 2).contiguous()
    x.requires_grad_()
    for norm in (
        lambda: F.batch_norm(input=x, running_mean=mean, running_var=var),
        lambda: torch.batch_norm(x, None, None, mean, var, False, 0.1, 1e-5, False),
    ):
        with RightGradients():
            read = norm().flatten(2).transpose(1, 2)
        (got,), (right,) = torch.autograd.grad((read * tokens).sum(), x), torch.autograd.grad(norm(), x, pull)
        torch.testing.assert_close(got, right)


def test_a_pass_is_mended_at_every_call_and_not_only_where_the_first_shape_needed_it():
    norm = nn.BatchNorm2d(4).double().eval()
    forward = partial(functional(norm), {})
    for images in (2, 1, 2, 1):
        x, pull = (drawn((images, 4, 3, 3), torch.float64, seed) for seed in (0, 1))
        tokens = pull.flatten(2).transpose(1, 2).contiguous()
        read = forward(x.requires_grad_()).flatten(2).transpose(1, 2)
        (got,), (right,) = torch.autograd.grad((read * tokens).sum(), x), torch.autograd.grad(norm(x), x, pull)
        torch.testing.assert_close(got, right)


def test_gradients_that_arrive_in_the_usual_order_stay_equal_to_the_bit():
    first, second = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), (nn.Conv2d(8, 4, 3), nn.InstanceNorm2d(4))
    layer = nn.Sequential(*first, *second, nn.Flatten())
    for n in (1, 2):
        x, pull = drawn((n, 3, 8, 8), torch.float32, 0), drawn((n, 64), torch.float32, 1)
        plain = derivatives(layer, x, pull)
        with RightGradients():
            assert all(torch.equal(a, b) for a, b in zip(derivatives(layer, x, pull), plain, strict=True))


class Keeping(nn.Module):
    """What a layer computes from its weights in its first pass, and keeps under any name."""

    def __init__(self):
        super().__init__()
        self.weight, self.held = nn.Parameter(torch.arange(10.0) / 10), {}

    def forward(self, x):
        return x.flatten(1)[:, :10] + self.held.setdefault("bias", self.weight.square())


def test_what_a_layer_keeps_with_a_graph_breaks_no_later_pass_and_stays_with_the_layer():
    model = Keeping()
    model(torch.rand(1, 10)).sum().backward()  # frees the graph of what is kept
    held, before, weight, forward = model.held, dict(model.held), model.weight, functional(model)
    for weights in ({}, {}, {"weight": weight * 2}):
        assert torch.autograd.grad(forward(weights, torch.rand(1, 10)).sum(), weight)[0].any()
    assert model.held is held and held["bias"] is before["bias"] and model.weight is weight


def test_a_pass_leaves_no_trace_in_buffers_and_caches(stirred):
    """timm's LeViT keeps attention biases between calls in eval mode: made without a graph, they would have no gradient."""
    levit = stirred(timm.create_model("levit_128s", num_classes=2))
    x = torch.rand(1, 3, 224, 224)
    with torch.no_grad():
        levit(x)
    caches = [m.attention_bias_cache for m in levit.modules() if hasattr(m, "attention_bias_cache")]
    held = [dict(cache) for cache in caches]
    bias = next(p for name, p in levit.named_parameters() if name.endswith("attention_biases"))
    for weights in ({}, dict(levit.named_parameters())):
        assert torch.autograd.grad(functional(levit)(weights, x).sum(), bias)[0].any()
    for cache, before in zip(caches, held, strict=True):
        assert cache.keys() == before.keys() and all(cache[key] is before[key] for key in before)
    norm = nn.BatchNorm2d(CHANNELS)
    before = dict(norm.named_buffers())
    forward = functional(norm)
    for inference in (True, False, False):
        torch.inference_mode(inference)(forward)({}, torch.rand(2, CHANNELS, 3, 3))
    assert all(norm.get_buffer(n) is b for n, b in before.items()) and norm.num_batches_tracked == 0
