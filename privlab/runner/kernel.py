"""A kernel that is this very Python, reached through files of its own, by a client that misses no message."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any
from unittest.mock import patch

from ipykernel.kernelspec import write_kernel_spec
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from traitlets import Type
from traitlets.config import Config

NAME = "python3"
_LOOK_AGAIN = 0.2  # seconds


class PatientChannel(AsyncZMQSocketChannel):
    """A channel that looks again for messages while it waits.

    nbclient answers an Output widget on the very socket on which it awaits the end of the cell, by a send that pyzmq's
    asyncio does not know of. Such a send can swallow the socket's wake-up for a reply that has just come in; the wait
    then lasts until the cell's timeout, or for ever. One run in ten of a lab with a widget stood still so.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return await super().get_msg(min(_LOOK_AGAIN, max(0.0, end - time.monotonic())))
            except Empty:
                if time.monotonic() >= end:
                    raise


class PatientClient(AsyncKernelClient):
    """A kernel client whose shell, iopub and control channels are patient."""

    shell_channel_class = Type(PatientChannel)
    iopub_channel_class = Type(PatientChannel)
    control_channel_class = Type(PatientChannel)


@contextmanager
def alone(environment: Mapping[str, str] | None = None) -> Iterator[Config]:
    """Settings for nbclient under which the kernel NAME is `sys.executable`, with no port, user's profile or history.

    environment: what the kernel inherits beside that of this process, which is changed for the length of the context.
    """
    # the path of a socket may have about a hundred characters; "ip" is its stem, by default a name that parallel labs would share
    with tempfile.TemporaryDirectory(prefix="privlab-", dir="/tmp", ignore_cleanup_errors=True) as place:
        write_kernel_spec(Path(place) / "kernels" / NAME)
        own = {"JUPYTER_PATH": place, "JUPYTER_RUNTIME_DIR": place, "IPYTHONDIR": f"{place}/ipython"}
        with patch.dict(os.environ, own | dict(environment or {})):
            yield Config(KernelManager={"client_factory": PatientClient, "transport": "ipc", "ip": f"{place}/kernel"})
