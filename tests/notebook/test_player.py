"""The player, as a reader works it: with and without an event loop, in a real kernel (clicks on both threads), and in a headless run."""

from __future__ import annotations

import ast
import asyncio
import base64
import gc
import io
import itertools
import re
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ipywidgets.widgets import widget as registry
from jupyter_client.manager import AsyncKernelManager
from markup import Page
from PIL import Image
from torch import nn

from privlab import metrics
from privlab.attacks.gradient_inversion import GradientMatching, Term
from privlab.attacks.gradient_inversion.descent import State
from privlab.attacks.gradient_inversion.objectives import cosine_distance
from privlab.data import Normalise
from privlab.leak import observe
from privlab.notebook import playback, player
from privlab.notebook.control_sweep import sweep
from privlab.runner import kernel

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")


def real(steps=25, batch=1, restarts=1):
    """A search on a network so small that it takes milliseconds: (what begins it, the true images)."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Sigmoid(), nn.Flatten(), nn.Linear(36, 5))
    model.normalise = Normalise((0.5,) * 3, (0.25,) * 3)
    images = torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    leak = observe(model, images, torch.arange(batch))
    attack = GradientMatching((Term("gradients", 1.0, cosine_distance),), steps)
    return lambda: attack.search(model, leak, restarts=restarts), images


def grey(level, step=0, restart=0, reason="", **losses):
    images = torch.full((1, 3, 4, 4), level)
    return State(
        restart,
        step,
        step + 1,
        images,
        torch.tensor([0]),
        losses or {"gradients": 1.0},
        1.0,
        reason,
        images[None],
        dict,
    )


def endless():
    step = 0
    while True:
        yield grey((step % 256) / 255, step)
        step += 1


def shown(widget):
    """(height, width, 3) bytes of the image that a player's HTML shows."""
    (image,) = Page(widget.value).all("img")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(image["src"].split("base64,")[1]))))


def line(p):
    return Page(p.text.value).text


def button(p, name):
    return next(b for b in p.children[1].children if b.description == name)


# -- step by step --------------------------------------------------------------------------------------------------------


def test_it_begins_with_the_noise_and_does_not_move_by_itself():
    begin, _ = real()
    p = player.watch(begin)
    first = next(begin())
    assert (shown(p.found) == (first.images[0] * 255).round().byte().permute(1, 2, 0).numpy()).all()
    expected = f"step 0 · paused · gradients {first.losses['gradients']:.3g} · 1 evaluation"
    assert line(p) == expected and p.chart.value == ""
    assert p._repr_mimebundle_()["text/plain"] == f"Player: {expected}"
    assert [b.description for b in p.children[1].children] == ["Play", "Pause", "Step", "Restart"]
    assert all(b.tooltip and not b.disabled for b in p.children[1].children)


@pytest.mark.parametrize("stride", [1, 4, 10])
def test_a_step_is_a_stride_of_states_and_shows_the_last_of_them(stride):
    begin, _ = real()
    states = list(begin())
    p = player.watch(begin, stride=stride)
    for clicks in (1, 2):
        button(p, "Step").click()
        state = states[clicks * stride]
        assert p.state.step == state.step == clicks * stride
        assert (shown(p.found) == (state.images[0] * 255).round().byte().permute(1, 2, 0).numpy()).all()
        assert f"step {state.step} · paused · gradients {state.losses['gradients']:.3g} · " in line(p)
        assert line(p).endswith(f"{state.evaluations} evaluations")


def test_the_truth_stands_beside_and_is_compared():
    begin, truth = real(batch=3)
    p = player.watch(begin, truth, stride=5)
    p.step()
    found, true = p.children[0].children
    assert found is p.found
    assert (
        shown(true)[:, 7:13] == (truth[1] * 255).round().byte().permute(1, 2, 0).numpy()
    ).all()  # a white line between
    mean = metrics.psnr(p.state.images, truth).mean().item()
    assert f"mean PSNR {mean:.1f} dB" in line(p)
    before = metrics.psnr(next(begin()).images, truth).mean().item()
    assert f"PSNR in dB: {before:.3g} at step 0, {mean:.3g} at step 5" in p.chart.value


def test_psnr_by_hand():
    p = player.watch(iter([grey(0.4), grey(0.5, 1)]), truth=torch.full((1, 3, 4, 4), 0.5), stride=1)
    assert "PSNR 20.0 dB" in line(p)  # -10 log10(0.1 ** 2)
    p.step()
    assert "PSNR inf dB" in line(p) and p.chart.value == ""  # no place for infinity on an axis


def test_every_image_has_an_alt_text_and_crisp_pixels():
    begin, truth = real(batch=2)
    p = player.watch(begin, truth)
    found, true = (Page(w.value).all("img")[0] for w in p.children[0].children)
    assert found["alt"] == "2 images that the attack has found, at step 0." and true["alt"] == "The true images."
    assert "image-rendering:pixelated" in found["style"] and "aspect-ratio:13/6" in found["style"]
    p.step()
    assert 'role="img" aria-label="PSNR in dB: ' in p.chart.value
    large_image = torch.zeros(1, 3, 300, 300)
    large = player.watch(iter([State(0, 0, 1, large_image, torch.tensor([0]), {}, 0.0, "", large_image[None], dict)]))
    assert "pixelated" not in large.found.value  # shrunk, and smoothly


def test_the_chart_by_hand():
    states = [grey(0.5, i, gradients=10.0**-i) for i in range(3)]
    p = player.watch(iter(states), stride=1)
    p.step(), p.step()
    assert 'points="60.0,24.0 230.0,54.0 400.0,84.0"' in p.chart.value  # a straight line on a log axis
    assert "loss: 1 at step 0, 0.01 at step 2; from 0.01 to 1" in p.chart.value and "loss (log scale)" in p.chart.value
    player._chart([(0, 1.0), (1, 2.0), (0, 3.0)], "PSNR in dB", "step")  # a search of your own may count as it likes
    flat = player.watch(iter([grey(0.5), grey(0.5, 1), grey(0.5, 2, gradients=0.0)]), stride=1)
    flat.step(), flat.step()
    assert 'points="60.0,84.0 400.0,84.0"' in flat.chart.value  # 0 has no place on a log axis


def test_texts_are_escaped():
    p = player.watch(
        iter([grey(0.5, i, reason="<i>r</i>" * i, **{"<b>t</b>": 1.0}) for i in (0, 1)]), label='"<u>s</u>'
    )
    p.step()
    page = Page(p.found.value + p.text.value + p.chart.value)
    assert not {"b", "u", "i"} & set(page.names)
    assert '"<u>s</u> 1 · ended: <i>r</i> · <b>t</b> 1 · 2 evaluations' in page.text
    assert page.all("img")[0]["alt"].endswith('at "<u>s</u> 1.')
    assert [has["aria-label"] for _, has in page.tags if "aria-label" in has] == [
        'loss: 1 at "<u>s</u> 0, 1 at "<u>s</u> 1; from 1 to 1'
    ]


# -- the end -------------------------------------------------------------------------------------------------------------


def test_the_end_is_seen_at_the_last_state():
    begin, _ = real(steps=25)
    p = player.watch(begin, stride=10)
    for step, ended in ((10, False), (20, False), (25, True)):
        p.step()
        assert (p.state.step, p.ended) == (step, ended)
        assert [b.disabled for b in p.children[1].children] == [ended, ended, ended, False]
    assert line(p).startswith("step 25 · ended: all steps are done · ")
    for name in ("Step", "Play", "Pause"):
        button(p, name).click()  # a click that was on its way does no harm
    assert p.state.step == 25 and p.task is None


@pytest.mark.parametrize("reason", player.REASONS)
def test_why_it_ended(reason):
    p = player.watch(iter([grey(0.5, reason=reason)]))
    assert p.ended and f"ended: {player.REASONS[reason]}" in line(p)


def test_a_search_that_ends_without_a_reason():
    p = player.watch(iter([grey(0.5), grey(0.6, 1)]), stride=5)
    p.step()
    assert p.ended and p.state.step == 1 and "step 1 · ended: the search is over" in line(p)


def test_the_end_of_a_restart_is_shown_and_the_next_follows():
    begin, _ = real(steps=6, restarts=2)
    p = player.watch(begin, stride=4)
    seen = []
    while not p.ended:
        p.step()
        seen.append((p.state.restart, p.state.step, line(p).split(" · ")[1]))
    over = "this restart has ended: all steps are done"
    expected = [(0, 4, "paused"), (0, 6, f"paused; {over}"), (1, 3, "paused"), (1, 6, "ended: all steps are done")]
    assert seen == expected
    assert line(p).startswith("step 6 of restart 1 · ")
    assert "at step 3, " in p.chart.value and "at step 0" not in p.chart.value  # the chart is of this restart


def test_restart_begins_the_same_search_again():
    begin, truth = real()
    p = player.watch(begin, truth)
    first = p.found.value, line(p)
    p.step(), p.step(), p.step()
    assert p.ended
    button(p, "Restart").click()
    assert (p.found.value, line(p)) == first and not p.ended and p.chart.value == ""
    assert not any(b.disabled for b in p.children[1].children)
    p.step()
    assert p.state.step == 10


def test_a_search_that_has_begun_cannot_restart():
    p = player.watch(real()[0]())
    assert button(p, "Restart").disabled and "give watch() what begins it" in button(p, "Restart").tooltip
    with pytest.raises(ValueError, match="A search that has begun cannot restart"):
        p.restart()
    p.step()
    assert p.state.step == 10


def test_nan_is_shown_grey():
    p = player.watch(iter([grey(float("nan"), reason="not finite")]), truth=torch.zeros(1, 3, 4, 4))
    assert (shown(p.found) == 128).all()
    assert "ended: the loss or its gradient is no finite number" in line(p) and "no PSNR, pixels are NaN" in line(p)


# -- errors --------------------------------------------------------------------------------------------------------------


def breaks():
    yield grey(0.5)
    yield grey(0.6, 1)
    raise RuntimeError("the <b>network</b> broke")


def test_an_exception_in_the_search_is_shown_and_raised():
    p = player.watch(breaks)
    with pytest.raises(RuntimeError, match="network"):
        p.step()
    assert p.state.step == 1 and (shown(p.found) == 153).all()  # the last that it reached
    assert "step 1 · stopped by RuntimeError, see below" in line(p)
    (output,) = p.failure.outputs
    assert output["output_type"] == "error" and output["ename"] == "RuntimeError"
    assert output["evalue"] == "the <b>network</b> broke" and "in breaks" in "".join(output["traceback"])
    assert [b.disabled for b in p.children[1].children] == [True, True, True, False]
    p.restart()
    assert p.failure.outputs == () and line(p).startswith("step 0 · paused")


def test_an_exception_while_it_plays_is_shown():
    async def play():
        p = player.watch(breaks)
        p.play()
        await asyncio.wait_for(p.task, 5)
        return p

    p = asyncio.run(play())
    assert "stopped by RuntimeError" in line(p) and p.failure.outputs[0]["evalue"] == "the <b>network</b> broke"
    assert p.task is None and not playback._playing


def test_an_exception_when_it_begins_again():
    made = [endless()]
    p = player.watch(lambda: made.pop())
    p.step()
    with pytest.raises(IndexError, match="pop from empty list"):
        p.restart()
    assert "stopped by IndexError" in line(p) and len(p.failure.outputs) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (dict(stride=0), r"stride=0 goes nowhere; give 1 or more"),
        (dict(stride=True), r"stride=True goes nowhere"),
        (dict(stride=2.5), r"stride=2\.5 goes nowhere"),
        (dict(search=[grey(0.5)]), r"search: got list where a State should be; give a function that begins one"),
        (dict(search=lambda: 3), r"search: got int where a State should be"),
        (dict(search=iter([])), r"search: got no state at all; give a function"),
        (dict(search=iter([torch.zeros(1)])), r"search: got Tensor where a State should be"),
        (dict(truth=torch.zeros(1, 3, 6, 6)), r"is not the shape of truth, \(1, 3, 6, 6\)"),
        (dict(truth=torch.full((1, 3, 4, 4), 255.0)), r"truth: 255 to 255 leaves \[0, 1\]"),
    ],
)
def test_bad_input_is_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        player.watch(**{"search": iter([grey(0.5)]), **arguments})
    assert not registry._instances  # nothing half-made is left for a sweep to click


def test_what_the_search_refuses_comes_straight_through():
    begin, _ = real(restarts=0)
    with pytest.raises(ValueError, match="restarts=0 searches nothing"):
        player.watch(begin)


# -- playing -------------------------------------------------------------------------------------------------------------


async def until(condition, seconds=60):
    for _ in range(round(seconds / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def test_play_and_pause_on_an_event_loop():
    async def watch():
        p = player.watch(endless, stride=3)
        p.play()
        task = p.task
        p.play()  # once more changes nothing
        assert p.task is task and "playing" in line(p)
        frames = []
        p.found.observe(lambda _: frames.append(p.state.step), "value")
        await until(lambda: p.state.step >= 7)
        assert frames[:2] == [3, 6]
        p.pause()
        stood = p.state.step
        assert (
            "paused" in line(p) and (shown(p.found) == stood).all()
        )  # the state that it stands at, within a stride too
        await asyncio.sleep(0.1)
        assert p.state.step == stood and task.cancelled()
        p.step()
        assert p.state.step == stood + 3
        p.play()
        await until(lambda: p.state.step > stood + 3)
        p.step()  # stops it, too
        p.play(), p.restart()
        assert p.state.step == 0 and p.task is None

    asyncio.run(watch())


def test_a_pause_gets_through_between_any_two_states():
    async def watch():
        p = player.watch(itertools.islice(endless(), 2000), stride=2000)
        p.play()
        await until(lambda: p.state.step > 0)
        p.pause()
        assert p.state.step < 1999

    asyncio.run(watch())


def test_frames_come_no_faster_than_the_eye_sees_them():
    async def watch():
        p = player.watch(endless, stride=1)
        p.play()
        await asyncio.sleep(5 * playback.REST)
        assert 1 <= p.state.step <= 6
        p.pause()

    asyncio.run(watch())


def test_it_plays_on_when_play_follows_pause_at_once():
    async def watch():
        p = player.watch(endless, stride=1)
        p.play()
        await until(lambda: p.state.step > 0)
        p.pause(), p.play()
        stood = p.state.step
        await until(lambda: p.state.step > stood + 1)
        assert p.task is not None and "playing" in line(p)
        p.pause()

    asyncio.run(watch())


def test_a_click_from_another_thread_works_on_the_loop_of_the_player():
    threads = []

    def search():
        for state in endless():
            threads.append(threading.current_thread())
            yield state

    async def watch():
        p = player.watch(search)
        for name in ("Step", "Play", "Pause", "Restart"):
            await asyncio.to_thread(button(p, name).click)
            await asyncio.sleep(0.05)
        assert p.state.step == 0 and p.task is None
        assert len(threads) > 12 and set(threads) == {threading.current_thread()}

    asyncio.run(watch())


def test_it_plays_to_the_end():
    async def watch():
        begin, _ = real(steps=25)
        p = player.watch(begin)
        p.play()
        await asyncio.wait_for(p.task, 10)
        p.play()
        assert p.task is None  # there is nothing left to play
        return p

    p = asyncio.run(watch())
    assert p.ended and p.state.step == 25 and "ended: all steps are done" in line(p) and p.task is None


def test_one_plays_at_a_time():
    async def watch():
        one = player.watch(endless)
        one.play()
        await until(lambda: one.state.step > 0)
        two = player.watch(endless)  # the cell was run again
        assert one.task is None and "paused" in line(one)
        one.play()
        two.play()
        assert one.task is None and two.task is not None and playback._playing == {two}
        two.close()
        assert two.task is None and not playback._playing

    asyncio.run(watch())


def test_a_loop_that_ends_leaves_a_player_that_goes_on_elsewhere(caplog):
    async def begin():
        p = player.watch(endless)
        p.play()
        await until(lambda: p.state.step > 0)
        return p

    p = asyncio.run(begin())
    assert p.task is None and "paused" in line(p)
    stood = p.state.step
    button(p, "Step").click()
    assert p.state.step == stood + 10
    button(p, "Play").click()  # no loop runs here: as Step
    assert p.state.step == stood + 20 and p.task is None
    gc.collect()
    assert not caplog.records  # asyncio complains of a task that was lost


# -- headless ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_loop", [False, True])
def test_a_sweep_clicks_every_button_and_leaves_nothing_running(shell, with_loop):
    clicks = []

    def run():
        p = player.watch(endless)
        for b in p.children[1].children:
            b.on_click(lambda b: clicks.append((b.description, p.state.step, p.task is not None)))
        assert list(sweep()) == ["Play", "Pause", "Step", "Restart"]

    async def on_a_loop():
        run()
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1  # the test's own

    asyncio.run(on_a_loop()) if with_loop else run()
    after_play = 0 if with_loop else 10  # without a loop, Play is a step
    expected = [("Pause", after_play, False), ("Step", after_play + 10, False), ("Restart", 0, False)]
    assert clicks == [("Play", after_play, with_loop), *expected]


@pytest.mark.parametrize("last", ["Pause", "Step", "Restart"])
def test_each_of_the_other_buttons_stops_it(last):
    async def run():
        p = player.watch(endless)
        button(p, "Play").click()
        assert p.task
        button(p, last).click()
        assert p.task is None
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1  # the test's own


def test_a_sweep_finds_what_the_search_raises(shell):
    player.watch(breaks)
    with pytest.raises(RuntimeError, match=r"at a click: RuntimeError: the <b>network</b> broke"):
        sweep()


# -- a real kernel -------------------------------------------------------------------------------------------------------

LAB = """\
import threading, time, torch
from privlab.notebook import player
from privlab.attacks.gradient_inversion.descent import State

threads = set()

def search():
    for step in range(100_000):
        threads.add(threading.current_thread().name)
        time.sleep(0.005)
        images = torch.full((1, 3, 4, 4), (step % 256) / 255)
        yield State(0, step, step + 1, images, torch.tensor([0]), {"gradients": 1.0}, 1.0, "", images[None], dict)

p = player.watch(search)
"""


@asynccontextmanager
async def running():
    """A kernel that has run LAB: ask(code, expression), until(expression), click(button), and subshell(), where JupyterLab sends clicks."""
    with kernel.alone() as config:
        manager = AsyncKernelManager(kernel_name=kernel.NAME, config=config)
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)

            async def answer(receive, sent):
                while (reply := await receive(timeout=30))["parent_header"].get("msg_id") != sent:
                    pass
                assert reply["content"]["status"] == "ok", reply["content"]
                return reply["content"]

            async def ask(code, expression="None"):
                content = await answer(client.get_shell_msg, client.execute(code, user_expressions={"it": expression}))
                return ast.literal_eval(content["user_expressions"]["it"]["data"]["text/plain"])

            async def until(expression, seconds=10):
                for _ in range(seconds * 50):
                    if await ask("", f"bool({expression})"):
                        return
                    await asyncio.sleep(0.02)
                raise AssertionError(f"not within {seconds} s: {expression}")

            async def subshell():
                request = client.session.msg("create_subshell_request", {})
                client.control_channel.send(request)
                return (await answer(client.get_control_msg, request["header"]["msg_id"]))["subshell_id"]

            await ask(LAB)
            models = await ask("", "{b.description: b.model_id for b in p.children[1].children}")

            def click(name, thread=None):
                data = {"method": "custom", "content": {"event": "click"}}
                message = client.session.msg("comm_msg", {"comm_id": models[name], "data": data})
                if thread:
                    message["header"]["subshell_id"] = thread
                client.shell_channel.send(message)

            yield SimpleNamespace(ask=ask, until=until, click=click, subshell=subshell)
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("threads", [False, True], ids=["clicks on the main thread", "clicks on a thread of their own"])
def test_pause_gets_through_while_it_plays_in_a_kernel(threads):
    async def work():
        async with running() as lab:
            if threads and "kernel subshells" not in await lab.ask(
                "", "get_ipython().kernel.kernel_info.get('supported_features', [])"
            ):
                pytest.skip("this ipykernel knows no subshells")
            thread = await lab.subshell() if threads else None
            lab.click("Play", thread)
            await lab.until("p.state.step > 0")
            early = await lab.ask("other_cell = 6 * 7", "p.state.step")  # while it plays
            await lab.until(f"p.state.step > {early} and p.task")
            lab.click("Pause", thread)
            await lab.until("p.task is None", seconds=1)
            stood = await lab.ask("", "p.state.step")
            await asyncio.sleep(0.3)
            assert await lab.ask("", "p.state.step") == stood
            assert f"step {stood} · paused" in await lab.ask("", "p.text.value")
            lab.click("Step", thread)
            await lab.until(f"p.state.step == {stood} + 10")
            lab.click("Play", thread)
            lab.click("Restart", thread)
            await lab.until("p.task is None and p.state.step == 0")
            assert await lab.ask("", "other_cell") == 42
            assert await lab.ask("", "threads") == {"MainThread"}  # never beside a cell that runs

    asyncio.run(work())


HEAD = (
    '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n# %% [markdown]\n# ## A search\n\n# %%\n'
)


@pytest.fixture
def run(execute_lab):
    return lambda code: execute_lab(HEAD + code)


def test_a_headless_run_keeps_the_frame(run):
    found, kept = run(LAB + "p.step()\np")
    assert found["error"] is None
    assert found["controls"].keys() == {"Play", "Pause", "Step", "Restart"}
    assert max(found["controls"].values()) < 2
    assert re.search(r'alt=\\+"1 image that the attack has found, at step 0\.', kept)  # the sweep's Restart came last
    assert "data:image/png;base64," in kept and "step 0 · paused" in kept


def test_a_headless_run_ends_although_a_search_plays_on(run):
    kept_out = "for button in p.children[1].children:\n    button.add_class('no_sweep')\np.play()\np\n\n# %%\n"
    found, kept = run(LAB + kept_out + "import asyncio\nawait asyncio.sleep(0.5)\nprint('reached', p.state.step > 10)")
    assert found["error"] is None and found["controls"] == {}
    assert "reached True" in kept


def test_an_error_stays_in_the_saved_state(run):
    """As that of an interact does: the cell is green, nobody clicks, and the runner finds it in the widget."""
    broken = LAB.replace("100_000):", "100_000):\n        1 / (3 - step)")
    caught = "button = p.children[1].children[3].add_class('no_sweep')\ntry:\n    p.step()\nexcept ZeroDivisionError:\n    pass\np"
    found, _ = run(broken + caught)
    assert found["error"] == "widget of In [3], under 'A search': ZeroDivisionError: division by zero"
    assert "1 / (3 - step)" in found["traceback"]
