"""Lab 03: a hook that leaves a trace is found."""

import pytest
import torch

from privlab.notebook import checks


def listen(model, layer, x, grads=False, off="finally", side="in", heard=None):
    """What enters a layer, by a hook; and the usual ways to go wrong."""
    heard = [] if heard is None else heard
    module = model.get_submodule(layer)
    if side == "in":
        hook = module.register_forward_pre_hook(lambda m, given: heard.append(given[0]))
    else:
        hook = module.register_forward_hook(lambda m, given, out: heard.append(out))
    try:
        with torch.set_grad_enabled(grads):
            model(x)
        if off == "after":
            hook.remove()
    finally:
        if off == "finally":
            hook.remove()
    return torch.cat(heard)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda m, layer, x: listen(m, layer, x, side="out"), "what leaves the layer"),
        (lambda m, layer, x: listen(m, layer, x, off="never"), "still there after the call"),
        (lambda m, layer, x: listen(m, layer, x, grads=True), "carries a graph"),
        (lambda m, layer, x: listen(m, layer, x, off="after"), "`finally`"),
        (lambda m, layer, x: listen(m, "head", x), "argument `layer`"),
        (lambda m, layer, x, heard=[]: listen(m, layer, x, heard=heard if layer == "head" else None), "A second call"),
        (lambda m, layer, x: listen(m.train(), layer, x), "the shape should be"),
        (lambda m, layer, x: (listen(m, layer, x), m.train())[0], "no longer as it was"),
        (lambda m, layer, x: (listen(m, layer, x),), "a tuple of inputs"),
    ],
)
def test_each_trace_is_named(answer, why):
    assert why in checks.verify("03.entering", answer).why


def test_a_copy_leaves_no_trace_either():
    assert checks.verify("03.entering", listen).passed
