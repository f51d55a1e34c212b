"""Lab 03: a hook that leaves a trace is found."""

import pytest
import torch

from privlab.notebook import checks


def listen(model, layer, x, grads=False, off="finally"):
    """What enters a layer, by a hook; and the usual ways to go wrong."""
    heard = []
    hook = model.get_submodule(layer).register_forward_pre_hook(lambda m, given: heard.append(given[0]))
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
        (lambda m, layer, x: listen(m, layer, x, off="never"), "still there after the call"),
        (lambda m, layer, x: listen(m, layer, x, grads=True), "carries a graph"),
        (lambda m, layer, x: listen(m, layer, x, off="after"), "`finally`"),
        (lambda m, layer, x: listen(m.train(), layer, x), "leave the model in eval mode"),
        (lambda m, layer, x: (listen(m, layer, x), m.train())[0], "no longer as it was"),
        (lambda m, layer, x: (listen(m, layer, x),), "a tuple of inputs"),
    ],
)
def test_each_trace_is_named(answer, why):
    assert why in checks.verify("03.entering", answer).why
