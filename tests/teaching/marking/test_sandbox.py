"""A process that is shut in reaches no canary: not in the environment, in files, in its parent, nor behind a socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from privlab.teaching.marking import gradebook, sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot shut a process in")
CANARY = "canary-7f3a"
LIBC = "import ctypes; c = ctypes.CDLL(None, use_errno=True); c.getenv.restype = ctypes.c_char_p\n"
FILES = ("folder + '/secret'", "'/proc/self/environ'", "f'/proc/{parent}/environ'", "f'/proc/{parent}/mem'", "f'/proc/{parent}/maps'",
         "f'/proc/{parent}/cmdline'", "'/proc/self/mem'", "'/proc/self/maps'", "'/proc/1/environ'", "'/etc/passwd'", "'/etc/shadow'",
         "'/etc/hosts'", "'/etc/hostname'", "'/root/.ssh/id_rsa'", "'/root/.bash_history'", "folder + '/link'")  # fmt: skip
SYSTEM = {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "socket": 41, "pidfd_open": 434, "io_uring_setup": 425,
          "keyctl": 250, "bpf": 321, "perf_event_open": 298, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "tkill": 200,
          "unshare": 272,
          "mount": 165, "chroot": 161, "setns": 308, "userfaultfd": 323, "open_by_handle_at": 304, "shmget": 29, "mq_open": 240,
          "prlimit64": 302, "setuid": 105, "symlink": 88, "unlink": 87, "truncate": 76, "chmod": 90}  # fmt: skip
ATTEMPTS = (  # each leaves what it got in `got`
    {f"reads {path}": f"got = open({path}, 'rb').read(4000)" for path in FILES}
    | {f"lists {path}": f"import os; got = os.listdir({path})" for path in ("folder", "'/proc'", "'/etc'", "'/root'", "'/tmp'", "'/home'")}
    | {f"calls {name}": LIBC + f"got = c.syscall({n}, 0, parent, 0, 0, 0, 0)\ngot = got if got >= 0 else None"
       for name, n in SYSTEM.items()}
    | {
        "os.environ": "import os; got = dict(os.environ)",
        "getenv": LIBC + "got = c.getenv(b'TOKEN')",
        "loopback": "import socket; s = socket.create_connection(('127.0.0.1', port), 1); got = s.recv(99)",
        "abstract socket": "import socket; s = socket.socket(socket.AF_UNIX); s.connect(name); got = s.recv(99)",
        "dns": "import socket; got = socket.gethostbyname('example.org')",
        "udp": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', port)); got = 'sent'",
        "writes": "got = open(folder + '/new', 'w').write('x')",
        "makes a link": "import os; os.symlink(folder, '/tmp/canary_link'); got = 1",
        "signals": "import os; os.kill(parent, 0); got = 1",
        "a thread": "import threading; threading.Thread(target=print).start(); got = 1",
        "a process": "import subprocess; got = subprocess.run(['ls'])",
    }
)  # fmt: skip
CHILD = """
import json, os, sys
from privlab.teaching.marking import sandbox
told = json.loads(sys.stdin.readline())
out = os.dup(1)
if os.fork():
    os.wait()
    raise SystemExit
unheld, report = sandbox.close_in(60, 2), {}
for what, body in told["attempts"].items():
    scope = dict(told, got=None)
    try:
        exec(body, scope)
        report[what] = repr(scope["got"])
    except BaseException as error:
        report[what] = "stopped: " + type(error).__name__
os.write(out, json.dumps([unheld, report]).encode())
os._exit(0)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What each attempt got, in a process whose environment holds the canary from its start."""
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "secret").write_text(CANARY)
    (folder / "link").symlink_to(folder / "secret")
    tcp, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    unix.bind(f"\0{CANARY}")
    unix.listen()
    told = {
        "attempts": ATTEMPTS,
        "folder": str(folder),
        "parent": os.getpid(),
        "port": tcp.getsockname()[1],
        "name": f"\0{CANARY}",
    }
    with tcp, unix:
        environment = os.environ | {"TOKEN": CANARY, "PRIVLAB_TOKEN": CANARY}
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            input=json.dumps(told) + "\n",
            env=environment,
            capture_output=True,
            text=True,
        )
    assert done.stdout, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["link", "secret"]
    return json.loads(done.stdout)


def test_all_is_held_here(report):
    assert report[0] == []


@pytest.mark.parametrize("what", ATTEMPTS)
def test_no_attempt_reaches_the_canary(report, what):
    got = report[1][what]
    assert CANARY not in got
    assert got == "None" or got.startswith("stopped: ") or what == "os.environ", got


def test_of_the_environment_a_short_list_goes_in(tmp_path):
    mine = {
        "TOKEN": CANARY,
        "AWS_SECRET_ACCESS_KEY": CANARY,
        "LANG": "C",
        "LC_ALL": "C",
        "LC_TOKEN": CANARY,
        "PRIVLAB_STORE": CANARY,
        "PYTHONPATH": CANARY,
    }
    given = sandbox.environment(str(tmp_path), mine)
    assert CANARY not in " ".join(given.values()) and given["LC_ALL"] == "C" and given["HOME"] == str(tmp_path)


def test_a_terminal_is_told_no_escape_sequence():
    assert gradebook.shown("\x1b[2Janna\x07\u202e.ipynb\r\n=1") == " [2Janna  .ipynb  =1"
