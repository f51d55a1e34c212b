"""Functions, graphs and models that live on the other side of a pipe behave as if they were here, and tell the truth."""

from __future__ import annotations

import contextlib
import copy
import os
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privlab.teaching.marking import remote, serialisation


@pytest.fixture
def asked():
    """A function: another as its check has it, called across a pipe."""
    ends = []

    def asked(function):
        (a, b), (c, d) = os.pipe(), os.pipe()
        check, answer = remote.Link(a, d, answering=False), remote.Link(c, b, answering=True)
        number = answer.export(function)

        def serve():
            with contextlib.suppress(EOFError, OSError):
                while True:
                    answer.answer(serialisation.receive(c))

        thread = threading.Thread(target=serve)
        thread.start()
        ends.append((d, thread, (a, b, c)))
        return check.function(number)

    yield asked
    for end, thread, others in ends:
        os.close(end)
        thread.join()
        for other in others:
            os.close(other)


def curve(x):
    return (x.sin() * x).flatten()


def test_derivatives_of_any_order_come_across(asked):
    x, there = torch.linspace(0, 1, 6, dtype=torch.float64).requires_grad_(), asked(curve)
    for values in (there(x), curve(x)):
        first = torch.autograd.grad(values.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
        third = torch.autograd.grad(second.sum(), x)[0]
        torch.testing.assert_close(third, -3 * x.sin() - x * x.cos())


def test_an_answer_differentiates_what_it_is_handed(asked):
    x = torch.linspace(0, 1, 6, dtype=torch.float64).requires_grad_()

    def push(r, x, v):
        u = torch.zeros_like(r, requires_grad=True)
        return torch.autograd.grad(torch.autograd.grad(r, x, u, create_graph=True)[0], u, v)[0]

    v = torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(asked(push)(curve(x), x, v), push(curve(x), x, v))


def test_a_value_without_a_path_to_the_question_has_no_gradient(asked):
    x = torch.rand(3, requires_grad=True)
    value = asked(lambda x: torch.ones(3, requires_grad=True) * 2)(x)
    assert value.requires_grad and torch.autograd.grad(value.sum(), x, allow_unused=True) == (None,)


def model():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2)).eval()


def test_a_hook_that_stays_is_on_the_checks_model_and_one_that_comes_off_is_not(asked):
    mine, heard = model(), []

    def leave(m, x):
        m.get_submodule("3").register_forward_pre_hook(lambda layer, inputs: heard.append((layer, inputs[0].shape)))
        m[0].register_forward_hook(lambda *a: None).remove()
        return m(x)

    x = torch.rand(1, 1, 4, 4)
    torch.testing.assert_close(asked(leave)(mine, x), mine(x))
    assert len(mine[3]._forward_pre_hooks) == 1 and not mine[0]._forward_hooks
    assert type(heard[0][0]) is nn.Linear and heard[0][1] == (1, 8)


def test_a_pass_in_train_mode_changes_the_checks_statistics_and_a_copy_does_not(asked):
    x = torch.rand(3, 1, 4, 4)
    mine, local = model(), model()
    local.load_state_dict(mine.state_dict())

    def once(m, x):
        return m.train()(x)

    torch.testing.assert_close(asked(once)(mine, x), once(local, x))
    torch.testing.assert_close(mine.state_dict(), local.state_dict())
    assert mine.training
    before = copy.deepcopy(mine.state_dict())
    asked(lambda m, x: once(copy.deepcopy(m), x))(mine, x)
    torch.testing.assert_close(mine.state_dict(), before)


def test_weights_and_settings_that_an_answer_sets_are_set_on_the_checks_model(asked):
    mine = model()

    def change(m):
        m[1].momentum = 0.5
        m[3].weight.data.zero_()
        m[3].bias.requires_grad_(False)

    asked(change)(mine)
    assert mine[1].momentum == 0.5 and not mine[3].weight.any() and not mine[3].bias.requires_grad


def test_a_forward_that_is_replaced_is_called(asked):
    mine, x = model(), torch.rand(1, 1, 4, 4)

    def doubled(m, x):
        own = m[3].forward
        m[3].forward = lambda y: 2 * own(y)
        return m(x)

    torch.testing.assert_close(asked(doubled)(mine, x), 2 * mine(x))


@pytest.mark.parametrize(
    "wrong", [lambda m: setattr(m[3].weight, "data", torch.zeros(1)), lambda m: m.register_forward_hook(None)(1)]
)
def test_what_cannot_be_set_stops_the_answer_and_not_its_check(asked, wrong):
    mine = model()
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        asked(lambda m: (wrong(m), m(torch.rand(1, 1, 4, 4))))(mine)
    assert mine[3].weight.shape == (2, 8)


KINDS = [
    "tensor",
    "array",
    "dict",
    "list",
    "set",
    "complex",
    "fraction",
    "step",
    "other",
    "graph",
    "function",
    "model",
    "iterator",
    "dots",
]
SHAPES, TEXT = st.lists(st.integers(-2, 2**40), max_size=3), st.sampled_from(["", "!", "AAAAAAAAAAA=", "7/7/fw=="])


def parts(kind, names):
    return st.tuples(st.sampled_from(names), SHAPES, TEXT, st.booleans()).map(lambda parts: {kind: list(parts)})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(KINDS), inner, min_size=1, max_size=1),
        parts("tensor", serialisation.KINDS),
        parts("array", ["O", "<f8", ">f4", "<U4", "V4", "f4,O"]),
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(JSON, JSON, JSON)
def test_whatever_comes_back_is_a_value_or_no_answer(value, tensors, after):
    link = remote.Link(0, 0, answering=False)
    link.reply = lambda: {"value": value, "tensors": tensors, "after": after, "pull": 3}
    link._send = lambda message: None
    with contextlib.suppress(remote.Lost):
        link.call(0, [torch.zeros(2), [1]], {})
