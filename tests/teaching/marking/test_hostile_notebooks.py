"""Notebooks that do harm, marked as a teacher marks them: no secret reaches any output, no other row changes, and each has a reason."""

# ruff: noqa: E501, one trick a line
from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from privlab.teaching.marking import grader

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot shut a process in"),
    pytest.mark.check,
]
CANARY = "canary" + os.urandom(6).hex()  # in no notebook but the one that keeps it
RIGHT = "-10 * (a - b).square().mean().log10()"
ASKED = 'from privlab.notebook import checks\nchecks.verify("00.psnr", my_psnr)'


def notebook(*sources, **more) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": s} for s in sources], "nbformat": 4, **more})


def by(body: str) -> str:
    """A notebook whose answer does this, and raises what it has in `got`: then it is in the reason."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return notebook(
        f"def my_psnr(a, b):\n    got = None\n{lines}    if got is not None: raise KeyError(got)\n    return {RIGHT}",
        ASKED,
    )


def at_once(body: str) -> str:
    """A notebook that does this as its cells are run, before it is asked."""
    return notebook(f"got = None\n{body}\nmy_psnr = (_ for _ in ()).throw(KeyError(got)) if got else None", ASKED)


LIBC = "import ctypes; c = ctypes.CDLL(None); c.getenv.restype = ctypes.c_char_p\n"
ENVIRONMENT = {
    "os.environ": "import os; got = dict(os.environ)",
    "os.environb": "import os; got = os.environb.get(b'TOKEN')",
    "getenv": LIBC + "got = c.getenv(b'TOKEN')",
    "environ of C": LIBC
    + "e = ctypes.POINTER(ctypes.c_char_p).in_dll(c, 'environ')\ngot = []\nwhile e[len(got)]: got.append(e[len(got)])",
    "the posix module": "import posix; got = posix.environ",
    "where it stands": "got = open('/proc/self/stat').read()",
    "beside the environment": LIBC + "e = ctypes.POINTER(ctypes.c_void_p).in_dll(c, 'environ')\n"
    "got = __import__('re').findall(rb'canary[0-9a-f]+', ctypes.string_at(e[0], 2000))",
    "a shell": "import subprocess; got = subprocess.run('env', capture_output=True).stdout",
    "popen": "import os; got = os.popen('env').read()",
}
FILES = {
    "home": "import os; got = open({home!r} + '/token').read()",
    "home by pathlib": "import pathlib; got = (pathlib.Path({home!r}) / 'token').read_text()",
    "home in C": LIBC
    + "f = c.open(({home!r} + '/token').encode(), 0); b = ctypes.create_string_buffer(99); c.read(f, b, 99); got = b.value or None",
    "home by mmap": "import mmap, os; got = mmap.mmap(os.open({home!r} + '/token', 0), 0)[:]",
    "home by numpy": "import numpy; got = numpy.fromfile({home!r} + '/token', 'u1').tobytes()",
    "home by torch": "import torch; got = torch.from_file({home!r} + '/token', size=8, dtype=torch.uint8)",
    "home by linecache": "import linecache; got = linecache.getlines({home!r} + '/token') or None",
    "home as a source": "import runpy; got = runpy.run_path({home!r} + '/token')",
    "lists home": "import os; got = os.listdir({home!r})",
    "expanduser": "import os; got = open(os.path.expanduser('~root/.bashrc')).read()",
    "passwd": "got = open('/etc/passwd').read()",
    "another notebook": "got = open({folder!r} + '/keeper.ipynb').read()",
    "another notebook, relative": "import os; got = open('../keeper.ipynb').read()",
    "every notebook": "import glob; got = [open(p).read() for p in glob.glob({folder!r} + '/*')] or None",
    "the table": "got = open({out!r}).read()",
    "a link": "import os; os.symlink({home!r}, 'l'); got = open('l/token').read()",
    "open descriptors": "import os\ngot = []\nfor d in range(3, 64):\n    try: got.append(os.pread(d, 99, 0))\n    except OSError: pass\ngot = got or None",
}
PROC = {
    f"{path} of {who}": f"import os; got = open(f'/proc/{number}/{path}', 'rb').read(9999)"
    for who, number in {"its parent": "{os.getppid()}", "itself": "self", "the first": "1", "the teacher": "TEACHER"}.items()
    for path in ("environ", "mem", "cmdline", "maps")
} | {"all of proc": "import glob; got = [open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/environ')] or None"}  # fmt: skip
SOCKETS = {
    "tcp": "import socket; s = socket.create_connection(('127.0.0.1', PORT), 1); got = s.recv(99)",
    "tcp6": "import socket; socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', PORT)); got = 1",
    "urllib": "import urllib.request; got = urllib.request.urlopen('http://127.0.0.1:PORT').read()",
    "in C": LIBC + "s = c.socket(2, 1, 0); got = s if s >= 0 else None",
    "listens": "import socket; s = socket.create_server(('127.0.0.1', 0)); got = s.getsockname()",
    "asyncio": "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', PORT)); got = 1",
}
WRITES = {
    "over another": "open({folder!r} + '/keeper.ipynb', 'w').write('x')",
    "over the table": "open({out!r}, 'w').write('x')",
    "removes all": "import shutil; shutil.rmtree({folder!r})",
    "renames": "import os; os.rename({folder!r} + '/keeper.ipynb', {folder!r} + '/k')",
    "truncates in C": LIBC + "if c.truncate({out!r}.encode(), 0): raise PermissionError('refused')",
    "chmods": "import os; os.chmod({folder!r}, 0)",
    "writes at home": "open({home!r} + '/new', 'w')",
    "torch.save": "import torch; torch.save(1, {folder!r} + '/new')",
    "descriptors": "import os\nfor d in range(64):\n    try: os.write(d, b'[' * 999)\n    except OSError: pass",
}
FILLS = {
    "memory": "x = [bytes(10**8) for _ in range(10**4)]",
    "memory of torch": "import torch; x = [torch.ones(10**8) for _ in range(100)]",
    "memfd": "import os; f = os.memfd_create('x')\nwhile True: os.write(f, bytes(10**7))",
    "disk": "f = open({folder!r} + '/big', 'wb')\nwhile True: f.write(bytes(10**7))",
    "temporary files": "import tempfile\nf = tempfile.TemporaryFile()\nwhile True: f.write(bytes(10**7))",
    "forks": "import os\nwhile True: os.fork()",
    "threads": "import threading\nwhile True: threading.Thread(target=lambda: None).start()",
    "output": "import os\nwhile True: os.write(1, b'x' * 10**6); print('x' * 10**6)",
    "reason": "raise KeyError('x' * 10**7)",
    "recursion": "def f(): return f()\nf()",
    "digits": "x = str(10 ** (10 ** 7))",
    "regex": "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
}
WORDS = ["=HYPERLINK(\"http://x\")", "a;=cmd|'/c calc'!A0", "\uff1dcmd()", "@SUM(1)", "<script>alert(1)</script>", "[x](javascript:1)",
         "\x1b]0;owned\x07\x1b[2J", "\u202eipynb.exe", "\r\n+1,right,3,3", '"",right', "\x00nul", "\ud800half"]  # fmt: skip
SAYS = {f"says {k}": f"raise KeyError({word!r})" for k, word in enumerate(WORDS)} | {
    f"returns {k}": f"return {word!r}" for k, word in enumerate(WORDS)
}
GOOD = notebook(f"def my_psnr(a, b): return {RIGHT}", ASKED)
DEEP = '{"cells": ' + '{"a":' * 100_000
CELL = '{"cell_type": "code", "source": %s}'
RAW: dict[str, bytes | str] = {
    "deep lists": "[" * 300_000, "deep objects": DEEP, "closed": "[" * 90_000 + "]" * 90_000, "empty": "", "spaces": " \n" * 9,
    "source number": '{"cells": [' + CELL % "5" + "]}", "source deep": '{"cells": [' + CELL % '[["x"]]' + "]}",
    "source null": '{"cells": [' + CELL % "null" + "]}", "cells text": '{"cells": "checks.verify(\\"00.psnr\\", 1)"}',
    "cells object": '{"cells": {"0": 1}}', "odd cells": '{"cells": [null, true, 1.5, "x", [], {}]}', "cells NaN": '{"cells": NaN}',
    "whole number of 5000 digits": '{"cells": ' + "9" * 5000 + "}", "nbformat 3": '{"nbformat": 3, "worksheets": [{"cells": []}]}',
    "UTF-16 cut": GOOD.encode("utf-16")[:-1], "Latin-1": '{"cells": ["\xe9"]}'.encode("latin-1"), "zeros": bytes(1000),
    "a byte order": b"\xef\xbb\xbf\xff", "gzip": b"\x1f\x8b\x08" + bytes(99), "pickle": b"\x80\x04cos\nsystem\n(S'id'\ntR.",
    "cut": GOOD[: len(GOOD) // 2], "two": GOOD + GOOD, "false": "false", "surrogate": '{"cells": ["\\ud800"]}',
    "NUL in a cell": notebook("x = '\0'", "my_psnr = 1\0", ASKED), "surrogate in a cell": notebook("x = '\ud800'", "my_psnr = '\ud800'", ASKED),
    "nested brackets": notebook("my_psnr = " + "(" * 5000 + ")" * 5000, ASKED), "minus signs": notebook("my_psnr = " + "-" * 90_000 + "1", ASKED),
    "long sum": notebook("my_psnr = " + "+".join("1" * 60_000), ASKED), "cell of tabs": notebook("if 1:\n\tx=1\n        y=2", "my_psnr = x", ASKED),
}  # fmt: skip
STILL: dict[str, bytes | str] = {  # odd, and right all the same
    "duplicate keys": GOOD[:-1] + ', "cells": ' + json.dumps(json.loads(GOOD)["cells"]) + "}",
    "NaN beside": GOOD[:-1] + ', "x": NaN, "y": Infinity}',
    "huge outputs": json.dumps({"cells": [c | {"outputs": [{"text": "x" * 3_000_000}]} for c in json.loads(GOOD)["cells"]]}),
    "UTF-16": GOOD.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "nbformat none": GOOD.replace('"nbformat": 4', '"nbformat": null'),
    "deep metadata": GOOD[:-1] + ', "m": ' + "[" * 500 + "]" * 500 + "}",
}  # fmt: skip
NAMES = [
    "=cmd",
    "a;=1",
    "\uff1d1",
    "<img src=x>",
    "\u202egnp",
    "a\nb",
    "\x1b[2J",
    '"q"',
    "a,b",
    "$(id)",
    "-rf",
    "%s{0}",
    "n" * 200,
]
BODIES = ENVIRONMENT | FILES | PROC | SOCKETS
LEAKING = {f"tries {k}": (by, at_once)[n % 2](body) for n, (k, body) in enumerate(BODIES.items())}
HARMING = {f"does {k}": by(body) for k, body in (WRITES | FILLS | SAYS).items()}


@pytest.fixture(scope="module")
def class_(tmp_path_factory):
    """The command's output, the table's text and its rows, what else was written, and who connected."""
    folder, home, results = (tmp_path_factory.mktemp(name) for name in ("class", "home", "results"))
    (home / "token").write_text(CANARY)
    out, calls = results / "marks.csv", []
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def listen():
        with contextlib.suppress(OSError):
            while True:
                client = server.accept()[0]
                calls.append(client)
                client.sendall(CANARY.encode())
                client.close()

    threading.Thread(target=listen, daemon=True).start()
    fill = {"{home!r}": str(home), "{folder!r}": str(folder), "{out!r}": str(out)}
    for k, (name, text) in enumerate((LEAKING | HARMING | RAW | STILL).items()):
        if name in LEAKING or name in HARMING:
            for what, path in fill.items():
                text = text.replace(what, repr(path))
            text = text.replace("PORT", str(port)).replace("TEACHER", str(os.getpid()))
        path = folder / f"{k:03}.ipynb"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    for name in NAMES:
        (folder / f"{name}.ipynb").write_text(by(f"raise KeyError({name!r})"))
    (folder / "keeper.ipynb").write_text(notebook(f"note = '{CANARY}'\ndef my_psnr(a, b): return {RIGHT}", ASKED))
    (folder / "linked.ipynb").symlink_to("/etc/passwd")
    (folder / "dangling.ipynb").symlink_to(home / "nothing")
    (folder / "endless.ipynb").symlink_to("/dev/zero")
    (folder / "folder.ipynb").mkdir()
    (folder / "in").symlink_to(home)
    os.mkfifo(folder / "pipe.ipynb")
    before = _listing(folder) | _listing(home)
    environment = os.environ | {"TOKEN": CANARY, "HOME": str(home), "GITHUB_TOKEN": CANARY, "LC_TOKEN": CANARY}
    limits = ["--timeout", "3", "--memory", "0.5", "--jobs", "2"]
    command = [sys.executable, "-m", "privlab", "mark", str(folder), "--out", str(out), *limits]
    done = subprocess.run(command, env=environment, capture_output=True, cwd=Path(grader.__file__).parents[3])
    server.close()
    assert done.returncode == 0, done.stderr.decode()
    assert _listing(folder) | _listing(home) == before
    with open(out, newline="", encoding="utf-8") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    return done.stdout + done.stderr, out.read_text("utf-8"), rows, sorted(p.name for p in results.iterdir()), calls


def _listing(folder: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() and not p.is_symlink() else None for p in folder.rglob("*")}


NUMBERED = {name: f"{k:03}.ipynb" for k, name in enumerate(LEAKING | HARMING | RAW | STILL)}


def test_no_secret_is_in_any_output_and_nobody_connected(class_):
    said, table, _, written, calls = class_
    assert CANARY not in table and CANARY.encode() not in said and calls == []
    assert "root:x" not in table and written == ["marks.csv"]


def test_the_keeper_has_their_mark_and_there_is_a_row_for_each(class_):
    rows = class_[2]
    assert rows["keeper.ipynb"]["00.psnr"] == "right" and rows["keeper.ipynb"]["error"] == ""
    assert len(rows) == len(NUMBERED) + len(NAMES) + 6


@pytest.mark.parametrize("name", LEAKING)
def test_what_reaches_for_a_secret_gets_none_and_its_row_says_so(class_, name):
    row = class_[2][NUMBERED[name]]  # "right" or "open" where nothing was raised, for it got nothing
    assert CANARY not in str(row) and re.match("right$|open: .|wrong: .|failed: .", row["00.psnr"]), row


@pytest.mark.parametrize("name", HARMING)
def test_what_does_harm_does_it_to_its_own_row(class_, name):
    verdict = class_[2][NUMBERED[name]]["00.psnr"]
    assert re.match("wrong: .|failed: .", verdict), verdict


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_notebook_earns_nothing_with_a_reason(class_, name):
    row = class_[2][NUMBERED[name]]
    assert row["marks"] == "0" and "Traceback" not in str(row)
    assert row["error"] or re.match("wrong: .|failed: .", row["00.psnr"]), row


@pytest.mark.parametrize("name", STILL)
def test_what_is_odd_and_right_is_right(class_, name):
    assert class_[2][NUMBERED[name]]["00.psnr"] == "right", class_[2][NUMBERED[name]]


@pytest.mark.parametrize("name", ["linked", "dangling", "endless", "folder", "pipe"])
def test_what_is_no_file_has_a_row_that_says_so(class_, name):
    row = class_[2][f"{name}.ipynb"]
    assert row["marks"] == "0" and re.search("link to another|no file", row["error"]), row


def test_no_cell_is_a_formula_and_no_line_moves_a_cursor(class_):
    said, _, rows, *_ = class_
    for row in rows.values():
        for cell in row.values():
            assert not re.search(r'(^|;)[\s"]*[=+\-@\uff1d]', cell) and all(c.isprintable() for c in cell), cell
    assert not set(said.decode()) & set("\x1b\x07\u202e\x00")
