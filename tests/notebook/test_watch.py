"""Searches as a reader watches them: with and without an event loop, in a real kernel, and in a headless run."""

import ast
import asyncio
import re
import time

import pytest
import torch
from jupyter_client.manager import start_new_kernel

from privlab import metrics
from privlab.attacks.gradient_inversion.results import State
from privlab.notebook.control_sweep import sweep
from privlab.notebook.watch import Watch as watch

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")
TRUTH = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))
BLANK = torch.full_like(TRUTH, 0.5)


def way(images, reason="steps"):
    """The states of a search with these images, one a step."""
    for step, image in enumerate(images):
        why = reason if step == len(images) - 1 else ""
        yield State(0, step, step + 1, 0, image, torch.tensor([0]), {"gradients": 1.0}, 1.0, why, {})


def towards(steps):
    return way([BLANK + (TRUTH - BLANK) * k / steps for k in range(steps + 1)])


def two(steps=6):
    return watch({"open": lambda: towards(steps), "<b>shut</b>": lambda: way([BLANK] * (steps + 1))}, TRUTH, stride=2)


def test_it_stands_at_its_start_and_a_step_is_as_many_steps_of_each():
    race = two()
    assert race.line == "step 0 · paused · SSIM above 0.5: none yet"
    race.moves[2].click()
    assert {state.step for state in race.states.values()} == {2}
    third = BLANK + (TRUTH - BLANK) / 3
    ssim, psnr = metrics.ssim(third, TRUTH).item(), metrics.psnr(third, TRUTH).item()
    assert f"SSIM {ssim:.2f}<br>{psnr:.1f} dB" in race.images.value
    alts = re.findall(r'<img [^>]*alt="([^"]*)"', race.images.value)
    assert len(alts) == 3 and alts[1].startswith("&lt;b&gt;shut&lt;/b&gt; after 2 steps: SSIM")
    assert "<b>shut" not in race.images.value and 'aria-hidden="true"' in race.images.value


def test_the_end_who_is_recognised_and_the_way_there():
    race = two(steps=5)  # a stride more than it has
    race.finish()
    assert race.recognised == ["open"] and race.ended and race.line == "step 5 · ended · SSIM above 0.5: open"
    assert all(move.disabled for move in race.moves)
    assert [frame.step for frame in race.ways["open"]] == [0, 2, 4, 5]
    assert "open is at step 5, SSIM 1.00" in race.picture().alt
    page = race.page(5, 10**6)
    assert page.count("data-frame=") == 4 and "open after 2 steps" in page and race.images.value in page


def test_a_single_search_tells_its_losses_and_a_restart_begins_the_same_search_again():
    alone = watch({"one": lambda: way([BLANK, TRUTH * torch.nan], "not finite")}, TRUTH)
    begin = alone.line
    assert begin == "step 0 · paused · gradients 1 · evaluations 1"
    alone.finish()
    assert alone.line == "step 1 · ended · gradients 1 · evaluations 2 · over: not finite"
    assert alone.recognised == [] and alone.ways["one"][-1].images.equal(BLANK)  # NaN is shown grey
    alone.restart()
    assert alone.line == begin and len(alone.ways["one"]) == 1


def test_an_exception_in_a_search_is_shown_and_raised():
    def breaks():
        yield from way([BLANK, BLANK], reason="")
        raise RuntimeError("the <b>network</b> broke")

    race = watch({"fine": lambda: way([BLANK] * 9), "broken": breaks}, TRUTH)
    with pytest.raises(RuntimeError, match="network"):
        race.step()
    assert race.ended and "stopped by RuntimeError, see below" in race.line
    assert race.failure.outputs[0]["evalue"] == "the <b>network</b> broke" and all(b.disabled for b in race.moves)
    race.restart()
    assert not race.ended


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_play_and_pause_between_any_two_states_and_one_plays_at_a_time(shell):
    async def work():
        alone = watch({"one": lambda: towards(100)}, TRUTH, stride=80)
        alone.play()
        assert "playing" in alone.line
        await until(lambda: alone.states["one"].step > 0)
        alone.pause()
        stood = alone.states["one"].step
        await asyncio.sleep(0.1)
        assert alone.states["one"].step == stood < 80 and "paused" in alone.line
        alone.play()
        other = two(steps=40)  # the cell was run again
        assert "paused" in alone.line
        other.play()
        await until(lambda: other.states["open"].step > 0)
        other.finish()
        assert other.recognised == ["open"] and watch.playing is None
        alone.restart()
        assert sweep() == ["Play", "Pause", "Step"]  # and leaves nothing running
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1  # the test's own

    asyncio.run(work())


LAB = """\
import threading, time, torch
from privlab.notebook import widgets
from privlab.attacks.gradient_inversion.results import State

threads = set()

def search():
    for step in range(100_000):
        threads.add(threading.current_thread().name)
        time.sleep(0.005)
        images = torch.full((1, 3, 12, 12), (step % 256) / 255)
        yield State(0, step, step + 1, 0, images, torch.tensor([0]), {"gradients": 1.0}, 1.0, "", {})

p = widgets.watch({"one": search}, torch.zeros(1, 3, 12, 12))
"""


def test_pause_gets_through_while_it_plays_in_a_kernel_where_clicks_arrive_on_a_thread_of_their_own(request):
    manager, client = start_new_kernel()
    request.addfinalizer(lambda: (client.stop_channels(), manager.shutdown_kernel(now=True)))

    def ask(expression, code=""):
        content = client.execute(code, user_expressions={"it": expression}, reply=True, timeout=30)["content"]
        assert content["status"] == "ok", content
        return ast.literal_eval(content["user_expressions"]["it"]["data"]["text/plain"])

    def happens(expression):
        end = time.monotonic() + 30
        while not ask(f"bool({expression})"):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def click(name):
        data = {"method": "custom", "content": {"event": "click"}}
        message = client.session.msg("comm_msg", {"comm_id": models[name], "data": data})
        message["header"] |= {"subshell_id": thread}
        client.shell_channel.send(message)

    models = ask("{b.description: b.model_id for b in p.children[1].children}", LAB)
    client.control_channel.send(client.session.msg("create_subshell_request", {}))
    thread = client.get_control_msg(timeout=30)["content"]["subshell_id"]
    click("Play")
    happens("p.states['one'].step > 0")
    early = ask("p.states['one'].step", "other_cell = 6 * 7")  # while it plays
    happens(f"p.states['one'].step > {early} and p.playing")
    click("Pause")
    happens("p.playing is None")
    stood = ask("p.states['one'].step")
    click("Step")
    happens(f"p.states['one'].step == {stood} + 10")
    assert ask("other_cell") == 42 and ask("threads") == {"MainThread"}  # never beside a cell that runs


@pytest.mark.check  # ten seconds, of a kernel that the runner starts
def test_a_headless_run_ends_although_a_search_plays_on(execute_lab):
    head = '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n# %% [markdown]\n# ## A search\n\n# %%\n'
    kept_out = "for button in p.children[1].children:\n    button.add_class('no_sweep')\np.play()\np\n\n# %%\n"
    more = "import asyncio\nawait asyncio.sleep(0.5)\nprint('reached', p.states['one'].step > 10)"
    found, kept = execute_lab(head + LAB.replace("100_000", "500") + kept_out + more)
    assert (
        found["error"] is None
        and found["controls"] == []
        and all(text in str(kept) for text in ("reached True", "data-frame="))
    )
