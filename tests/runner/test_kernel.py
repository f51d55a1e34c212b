"""The kernel is this Python and alone; its client hears a message whose wake-up got lost."""

import asyncio
import json
import os
import sys
from queue import Empty

import pytest
import zmq
import zmq.asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.session import Session

from privlab.runner import kernel


async def hears_after_a_lost_wakeup() -> bool:
    """Whether a channel that waits without limit gets a message although a send beside it took the socket's wake-up."""
    context = zmq.asyncio.Context()
    here, there = context.socket(zmq.DEALER), zmq.Context.shadow(context.underlying).socket(zmq.DEALER)
    try:
        there.bind("inproc://shell")
        here.connect("inproc://shell")
        session = Session()
        channel = kernel.PatientChannel(here, session)
        with pytest.raises(Empty):
            await channel.get_msg(timeout=0.3)
        waiting = asyncio.ensure_future(channel.get_msg())
        await asyncio.sleep(0.05)  # it waits now
        session.send(there, session.msg("execute_reply", {"status": "ok"}))
        channel.send(session.msg("comm_msg", {}))  # the Output widget answers before the loop has looked at the socket
        done, _ = await asyncio.wait([waiting], timeout=3)
        waiting.cancel()
        return bool(done) and waiting.result()["msg_type"] == "execute_reply"
    finally:
        here.close(0)
        there.close(0)
        context.term()


@pytest.mark.parametrize("repeat", range(3))
def test_a_reply_whose_wake_up_got_lost_is_heard(repeat):
    assert asyncio.run(hears_after_a_lost_wakeup())


def test_jupyter_finds_this_python_and_nothing_of_the_users(tmp_path, monkeypatch):
    other = tmp_path / "kernels" / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text(json.dumps({"argv": ["/usr/bin/other"], "display_name": "x", "language": "x"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == "/usr/bin/other"
    before = dict(os.environ)
    with kernel.alone({"PRIVLAB_STRICT": "1"}) as settings:
        assert KernelSpecManager().get_kernel_spec(kernel.NAME).argv[0] == sys.executable
        place = os.environ["JUPYTER_RUNTIME_DIR"]
        assert os.environ["IPYTHONDIR"].startswith(place) and os.environ["PRIVLAB_STRICT"] == "1"
        assert settings.KernelManager.transport == "ipc" and settings.KernelManager.ip.startswith(place)
    assert dict(os.environ) == before
    assert not os.path.exists(place)
