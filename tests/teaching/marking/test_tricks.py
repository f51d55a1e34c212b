"""No trick earns a mark: what an answer does is done in its own process, and the check's verdict is about its values alone.

A trick is a body that runs in the answer's function before that returns `out`, which is wrong for every exercise in TARGETS unless a trick
puts something else there. In a body `args` are the check's.
"""

# ruff: noqa: E501, one trick a line or two
from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab.notebook import exercises
from privlab.teaching.marking import gradebook, reference

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot shut a process in")

# -- the table -----------------------------------------------------------------------------------------------------------------

MARKING = "privlab.teaching.marking"
TARGETS = {  # an exercise of each kind of question -> a wrong answer of the right type
    "00.psnr": "0.0",  # numbers
    "02.four_bugs": "torch.arange(10.0)",  # models
    "03.entering": "torch.zeros(5, 3)",  # a model and its hooks
    "04.push": "torch.ones(6, dtype=torch.float64)",  # a graph to differentiate
    "07.registration": "torch.zeros(3)",  # a graph that is asked for
    "10.block": "torch.zeros(1, 8)",  # functions
    "11.convince": "args[1].clone()",  # a function to differentiate
    "14.holm": "set()",  # words
}
NOTHING = {"nothing": ""}  # the control: wrong without any trick


def _patched(module: str, names: str, to: str = "lambda *a, **k: True") -> dict[str, str]:
    body = "import importlib\nm = importlib.import_module({!r})\nm.{} = {}"
    return {f"patches {module}.{n}": body.format(module, n, to) for n in names.split()}


def _tensor(names: str, to: str) -> dict[str, str]:
    return {f"patches Tensor.{n}": f"torch.Tensor.{n} = {to}" for n in names.split()}


VERDICT = 'lambda *a, **k: {"state": "right", "why": "", "tried": []}'
PATCHES = (
    _patched(f"{MARKING}.grader", "_verdict grade across _asked forked _serve", VERDICT)
    | _patched(f"{MARKING}.grader", "_stopped _until _ended main", "lambda *a, **k: ''")
    | _patched(f"{MARKING}.serialisation", "encode decode refuse update send receive", "lambda *a, **k: {'state': 'right', 'why': ''}")
    | _patched(f"{MARKING}.remote", "Link.answer Link._called Link._packed Link.reply Owner.forward Twin.push _states exception as_data", VERDICT)
    | _patched(f"{MARKING}.sandbox", "limit close_in", "lambda *a, **k: []")
    | _patched("privlab.notebook.checks", "verify _why", "lambda *a, **k: ''")
    | _patched("privlab.notebook.exercises", "of labs", "lambda *a, **k: {}")
    | _patched("torch", "allclose equal isclose is_tensor all any abs", "lambda *a, **k: torch.tensor(True)")
    | _patched("math", "isclose isfinite prod", "lambda *a, **k: True")
    | _patched("numpy", "allclose isclose array_equal shape", "lambda *a, **k: True")
    | _patched("builtins", "abs float isinstance all any next zip sorted len max set", "lambda *a, **k: True")
    | _patched("json", "dumps loads", """lambda *a, **k: '{"state": "right", "why": ""}'""")
    | _patched("json.encoder", "JSONEncoder.encode JSONEncoder.default", """lambda *a, **k: '{"state": "right", "why": ""}'""")
    | _patched("os", "waitpid fork write read _exit", "lambda *a, **k: 0")
    | _tensor("__eq__ __ne__ allclose equal any all", "lambda *a, **k: torch.ones(()).bool()")
    | _tensor("item __float__ tolist", "lambda *a, **k: 20.0")
    | _tensor("numpy detach cpu contiguous requires_grad_", "lambda self, *a, **k: self")
)  # fmt: skip

ALL_EQUAL = """class All({}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __eq__
    def __hash__(self): return 0
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __abs__ = __sub__
    def __float__(self): return 20.0
    def __array__(self, *a, **k):
        import numpy
        return numpy.full(10, numpy.nan)
out = All{}"""
VALUES = {
    f"is equal to everything, {base or 'object'}": ALL_EQUAL.format(base, args)
    for base, args in (
        ("", "()"), ("float", "(0)"), ("int", "(0)"), ("str", "('x')"), ("set", "()"), ("frozenset", "()"), ("list", "([0] * 6)"),
        ("tuple", "((0,) * 6)"), ("dict", "()"), ("complex", "(0)"),
    )
} | {
    "a tensor that agrees": "class All(torch.Tensor):\n    __torch_function__ = classmethod(lambda c, f, t, a=(), k=None: "
    "torch.tensor(True))\nout = torch.zeros(6).as_subclass(All)",
    "a tensor that lies about its shape": "class All(torch.Tensor):\n    shape = property(lambda s: (6,))\nout = torch.zeros(2).as_subclass(All)",
    "an array that agrees": "import numpy\nclass All(numpy.ndarray):\n    __array_ufunc__ = lambda *a, **k: True\nout = numpy.zeros(6).view(All)",
    "an array of objects": "import numpy\nout = numpy.array([None] * 6)",
    "NaN": "out = float('nan')", "infinity": "out = float('inf')", "tensor of NaN": "out = torch.full_like(torch.as_tensor(out), float('nan')) "
    "if isinstance(out, torch.Tensor) else torch.tensor(float('nan'))", "huge": "out = 10 ** 400", "huge digits": "out = 10 ** 5000",
    "tensor of infinity": "out = torch.full((6,), float('inf'))", "empty tensor": "out = torch.empty(0)",
    "complex NaN": "out = complex('nan')", "meta tensor": "out = torch.empty(6, device='meta')", "sparse": "out = torch.zeros(6).to_sparse()",
    "true": "out = True", "dots": "out = ...", "itself": "out = f", "a class": "out = float", "a module": "out = torch",
    "a module of torch": "out = torch.nn.Linear(1, 1)", "an iterator": "out = iter([0.0] * 6)", "its arguments": "out = args",
    "its first argument": "out = args[0] if args else 0", "an endless generator": "out = iter(int, 1)", "an exception": "out = Exception('')",
    "nested without end": "out = []\nout.append(out)", "a view of a view": "out = torch.zeros(6)[None].expand(2, 6).T[:, 0]",
    "quantised": "out = torch.quantize_per_tensor(torch.zeros(6), 0.1, 0, torch.qint8)", "bytes": "out = b'right'",
    "empty words": "out = ''", "raises nothing to say": "raise Exception('')", "raises stop": "raise StopIteration",
    "raises generator exit": "raise GeneratorExit", "raises its own": "class E(BaseException): pass\nraise E('')",
    "raises one that cannot be told": "class E(Exception):\n    def __str__(self): raise E\nraise E",
    "needs a gradient": "out = torch.zeros(3, requires_grad=True)", "a gradient of its own":
    "class G(torch.autograd.Function):\n    forward = staticmethod(lambda ctx, x: x.flatten(1).norm(dim=1) * 0)\n    backward = "
    "staticmethod(lambda ctx, g: None)\nout = G.apply(args[0]) if args else 0",
}  # fmt: skip

ALONE = """import gc, sys
for o in gc.get_objects():
    if isinstance(o, type(f)) and ({test}):
        o.__code__ = (lambda *a, **k: None).__code__"""
FRAMES = {
    "code of every function of privlab": ALONE.format(test="str(o.__module__).startswith('privlab')"),
    "code of every check": ALONE.format(test="'exercises' in str(o.__module__)"),
    "code of torch.allclose": "import torch.functional\nf2 = torch.functional.norm\nf2.__code__ = (lambda *a, **k: 0).__code__",
    "defaults of the encoder": "import json\njson.JSONEncoder.__init__.__kwdefaults__.update(default=lambda o: True)",
    "locals of its callers": "import sys\nframe = sys._getframe()\nwhile frame:\n    for k in list(frame.f_locals):\n        if k in ('why', "
    "'outcome', 'verdict', 'reply', 'first'): frame.f_locals[k] = {'state': 'right', 'why': ''}\n    frame = frame.f_back",
    "globals of its callers": "import sys\nframe = sys._getframe()\nwhile frame:\n    frame.f_globals.update(_verdict=lambda *a: {'state': "
    "'right'}, verify=lambda *a: '')\n    frame = frame.f_back",
    "traces its callers": "import sys\nsys.settrace(lambda *a: None)\nsys._getframe(1).f_trace = lambda *a: None\nsys.setprofile(lambda *a: None)",
    "words in memory": "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict) and 'state' in o: o['state'], o['why'] = 'right', ''",
    "every dict of checks": "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict) and any(isinstance(k, str) and k[2:3] == '.' and k[:2]"
    ".isdigit() for k in list(o)[:2]): o.update({k: lambda a: iter(()) for k in o})",
    "a float in place": "import ctypes\nx = 20.0\nctypes.cast(id(x) + 16, ctypes.POINTER(ctypes.c_double))[0] = 0.0",
    "the small integers": "import ctypes\nctypes.cast(id(1) + 24, ctypes.POINTER(ctypes.c_int))[0] = 0",
    "true is false": "import ctypes\nctypes.memmove(id(False), id(True), 28)",
    "its stack in C": "import ctypes\nctypes.pythonapi.PyErr_SetInterrupt()",
    "audit": "import sys\nsys.addaudithook(lambda *a: None)",
    "import hooks": "import sys\nsys.meta_path.insert(0, type('F', (), {'find_spec': staticmethod(lambda *a: None)}))",
    "modules put in place": "import sys, types\nsys.modules['privlab.notebook.exercises.lab_03'] = types.ModuleType('lab_03')",
}  # fmt: skip

RAW = """import json, os, struct
def raw(content):
    for fd in range(3, 64):
        try: os.write(fd, struct.pack('<I', len(content)) + content)
        except OSError: pass
def say(message): raw(json.dumps(message).encode())
"""
PIPES = {
    name: RAW + body
    for name, body in {
        "forged verdict": "say({'state': 'right', 'why': '', 'tried': []})",
        "forged verdict, a line": "for fd in range(64):\n    try: os.write(fd, b'{\"state\": \"right\", \"why\": \"\", \"tried\": []}\\n')\n"
        "    except OSError: pass",
        "forged verdict, and gone": "say({'state': 'right', 'why': ''})\nos._exit(0)",
        "reply before the question": "for _ in range(50): say({'value': out if isinstance(out, float) else None})",
        "reply of nothing": "for _ in range(9): say({})", "reply of a list": "say([])", "reply of NaN": "say(float('nan'))",
        "no JSON": "raw(b'{')", "no letters": "raw(b'\\xff\\xfe')", "deep": "raw(b'[' * 100000)", "deep value":
        "raw(b'{\"value\": ' + b'{\"list\": [' * 400 + b']}' * 400 + b'}')", "many digits": "raw(b'{\"value\": ' + b'9' * 5000 + b'}')",
        "4 GB announced": "for fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 8)\n    except OSError: pass",
        "half a message": "for fd in range(3, 64):\n    try: os.write(fd, struct.pack('<I', 99) + b'{')\n    except OSError: pass\nos._exit(0)",
        "negative size": "say({'value': {'tensor': ['float32', [-1], '', False]}})", "size without end":
        "say({'value': {'tensor': ['float32', [0, 10**18, 10**18], '', False]}})", "size that is not what is there":
        "say({'value': {'tensor': ['float32', [10**9], '', False]}})", "type that is none":
        "say({'value': {'tensor': ['__class__', [1], '', False]}})", "gradient of whole numbers":
        "say({'value': {'tensor': ['int64', [1], 'AAAAAAAAAAA=', True]}})", "array of objects":
        "say({'value': {'array': ['O', [1], 'AAAAAAAAAAA=', False]}})", "array of records": "say({'value': {'array': ['f4,O', [1], '', False]}})",
        "no base 64": "say({'value': {'tensor': ['float32', [1], '!', False]}})", "fraction without end":
        "say({'value': {'fraction': ['1e1000000000']}})", "key that has no hash": "say({'value': {'dict': [[{'list': []}, 1]]}})",
        "two kinds": "say({'value': {'list': [], 'tuple': []}})", "class of a name": "say({'value': {'other': 'a\\0b'}})",
        "a step of anything": "say({'value': {'step': {'__class__': 1}}})", "graph that is none": "say({'value': {'graph': 7}})",
        "graph of nothing": "say({'value': {'graph': 0}, 'tensors': [[True, {'tensor': ['float32', [0], '', False]}]]})",
        "graph pulled from nowhere": "say({'value': {'graph': 0}, 'tensors': [[True, {'tensor': ['float32', [3], 'AAAAAAAAAAAAAAAA', False]}]], "
        "'pull': 99})", "function of the check's": "say({'value': {'function': 0}})", "model of its own": "say({'value': {'model': []}})",
        "arguments that are none": "say({'value': 1.0, 'after': {'dict': [[99, 1]]}})", "arguments of other types":
        "say({'value': 1.0, 'after': {'dict': [[0, {'list': [0]}]]}})", "raises what it likes": "say({'raised': 5, 'text': {}})",
        "raises Lost": "say({'raised': ['Lost', 'BaseException'], 'text': ''})", "asks what is none": "say({'call': 10**9, 'grad': True})",
        "asks backwards": "say({'call': -1, 'grad': True, 'value': {'list': [{'list': []}, {'dict': []}]}})",
        "asks all the check has": "for n in range(40): say({'call': n, 'grad': True, 'value': {'list': [{'list': ['x'] * 3}, {'dict': []}]}})",
        "sets the check's model": "for n in range(40): say({'call': n, 'grad': True, 'value': {'list': [{'list': ['', {'dict': [['training', True], "
        "['__class__', 1]]}, {'dict': []}, {'dict': []}]}, {'dict': []}]}})",
        "tells on itself without end": "for _ in range(3000): say({'tried': 'x'})", "closes all": "os.closerange(0, 64)",
        "reads the questions": "for fd in range(3, 64):\n    try:\n        os.set_blocking(fd, False)\n        os.read(fd, 1 << 20)\n"
        "    except OSError: pass", "turns its pipes round": "os.dup2(3, 4)",
    }.items()
}  # fmt: skip

SYSTEM = {
    "signal handler": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.alarm(1)",
    "timer": "import signal\nsignal.setitimer(signal.ITIMER_PROF, 0.01)", "at exit": "import atexit, os\natexit.register(os._exit, 0)",
    "exits well": "import os\nos._exit(0)", "system exit": "raise SystemExit(0)", "keyboard": "raise KeyboardInterrupt",
    "thread": "import threading\nthreading.Thread(target=print).start()", "fork": "import os\nos.fork()",
    "child": "import subprocess\nsubprocess.run(['true'])", "kills its check": "import os\nos.kill(os.getppid(), 9)",
    "kills its group": "import os, signal\nos.killpg(0, signal.SIGCONT)", "stops its check": "import os\nos.kill(os.getppid(), 19)",
    "traces its check": "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0): raise OSError('refused')",
    "its own memory": "open('/proc/self/mem', 'r+b')", "its check's memory": "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')",
    "its check's memory, in C": "import ctypes, os\nb = ctypes.create_string_buffer(8)\nif ctypes.CDLL(None).process_vm_readv(os.getppid(), b, 1, "
    "b, 1, 0) < 0: raise OSError('refused')", "its check's pipes": "import os\nos.listdir(f'/proc/{os.getppid()}/fd')",
    "overwrites the check": "import privlab\nopen(privlab.__path__[0] + '/teaching/marking/grader.py', 'a')",
    "limits": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (999, 999))", "weak references": "import gc\ngc.freeze(); gc.disable()",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef r(): r()\nr()", "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "interrupts itself": "import signal\nsignal.raise_signal(signal.SIGINT)", "environment": "import os\nos.environ['PRIVLAB_STRICT'] = '0'",
    "warnings are errors": "import warnings\nwarnings.simplefilter('error')", "torch prints": "torch.set_printoptions(precision=0)",
    "torch's default type": "torch.set_default_dtype(torch.float64)", "torch without gradients": "torch.set_grad_enabled(False)",
}  # fmt: skip

USED = """
import gc, sys
names = {"macro", "holm", "network", "right", "CHECKS", "_block", "scores"}
for module in list(sys.modules.values()):
    if str(getattr(module, "__name__", "")).startswith("privlab.notebook.exercises."):
        raise KeyError(f"the checks are here: {module}")
for o in gc.get_objects():
    if str(getattr(o, "__module__", "")).startswith("privlab.notebook.exercises.") or (isinstance(o, dict) and "00.psnr" in o):
        raise KeyError(f"the checks are here: {o}")
"""
READ = {  # what reaches for the checks; all end in an error, and in a note in the row
    "imports": "from privlab.notebook.exercises.lab_03 import macro", "imports its room": "import privlab.notebook.exercises.holm as h\nout = h.holm",
    "importlib": "import importlib\nimportlib.import_module('privlab.notebook.exercises.lab_00')",
    "of": "from privlab.notebook import exercises\nexercises.of('00')", "verifies": "from privlab.notebook import checks\nchecks.verify('00.psnr', f)",
    "opens": "from privlab.notebook import exercises\nopen(exercises.__path__[0] + '/lab_00.py')",
    "opens by descriptor": "import os\nfrom privlab.notebook import exercises\nos.open(exercises.__path__[0] + '/lab_00.py', os.O_RDONLY)",
    "opens from beside": "from privlab.notebook import exercises\nopen(exercises.__path__[0] + '/../exercises/lab_00.py')",
    "opens by io": "import io\nfrom privlab.notebook import exercises\nio.FileIO(exercises.__path__[0] + '/lab_00.py')",
    "opens what Python compiled": "import importlib.util\nfrom privlab.notebook import exercises\nopen(importlib.util.cache_from_source("
    "exercises.__path__[0] + '/lab_00.py'), 'rb')",
    "runs": "import runpy\nrunpy.run_module('privlab.notebook.exercises.lab_00')",
    "loads": "import pkgutil\npkgutil.get_data('privlab.notebook.exercises', 'lab_00.py')",
    "a loader": "import importlib.machinery\nfrom privlab.notebook import exercises\nimportlib.machinery.SourceFileLoader('x', exercises.__path__[0] + "
    "'/lab_00.py').load_module()",
    "catches the error": "try:\n    from privlab.notebook.exercises import lab_00\nexcept ImportError: pass",
    "lines": "import linecache\nfrom privlab.notebook import exercises\nif not linecache.getlines(exercises.__path__[0] + '/lab_00.py'): raise OSError",
}  # fmt: skip
UNSEEN = {  # what reaches for them below Python: refused, without a note
    "opens in C": "import ctypes\nfrom privlab.notebook import exercises\nlibc = ctypes.CDLL(None)\nif libc.open((exercises.__path__[0] + "
    "'/lab_00.py').encode(), 0) < 0: raise PermissionError('refused')",
    "looks around": USED,
    "other copies": "import glob, os, sys\nfor p in sys.path:\n    for q in glob.glob(p + '/privlab/notebook/exercises/lab_00.py'): open(q)",
    "the solutions": "import privlab\nopen(privlab.__path__[0] + '/../labs/00_threat_model.py')",
}  # fmt: skip
MUTATED = {  # the check's own arguments made to agree with a wrong answer
    "zeroes": "for a in args:\n    if isinstance(a, torch.Tensor): a.data.zero_()\nout = torch.zeros_like(torch.as_tensor(out)) if isinstance(out, "
    "(float, torch.Tensor)) else out",
    "empties": "for a in args:\n    if isinstance(a, (dict, list, set)): a.clear()",
    "cuts": "for a in args:\n    if isinstance(a, torch.Tensor): a.data = a.data[:0]",
    "fills with NaN": "for a in args:\n    if isinstance(a, torch.Tensor) and a.is_floating_point(): a.data.fill_(float('nan'))\nout = "
    "torch.full_like(out, float('nan')) if isinstance(out, torch.Tensor) else float('nan')",
    "drops gradients": "for a in args:\n    if isinstance(a, torch.Tensor) and a.is_leaf: a.requires_grad_(False)",
}  # fmt: skip
TRICKS = {
    f"{kind}: {name}": body
    for kind, group in {
        "patches": PATCHES, "values": VALUES, "frames": FRAMES, "pipes": PIPES, "system": SYSTEM, "checks": READ | UNSEEN, "arguments": MUTATED,
    }.items()
    for name, body in group.items()
}  # fmt: skip


def cells(exercise: str, body: str) -> list[tuple[int, str]]:
    """A notebook with an answer that tries a trick."""
    inner = f"out = {TARGETS[exercise]}\n{body}\nreturn out".replace("\n", "\n    ")
    function = f"import torch\nfrom privlab.notebook import checks\ndef f(*args, **kwargs):\n    {inner}"
    return [(1, function), (2, f"checks.verify({exercise!r}, f)")]


# -- the tests -----------------------------------------------------------------------------------------------------------------

# fmt: off
FEW = [  # one of each kind, quick, and each exercise's turn
    "patches: patches privlab.teaching.marking.grader._verdict", "patches: patches json.encoder.JSONEncoder.encode",
    "patches: patches torch.allclose", "values: is equal to everything, float", "values: tensor of NaN",
    "values: a gradient of its own", "frames: code of every function of privlab", "frames: every dict of checks",
    "pipes: forged verdict", "pipes: negative size", "pipes: asks all the check has", "pipes: graph of nothing",
    "system: signal handler", "system: its check's memory", "arguments: zeroes", "arguments: fills with NaN",
]
# fmt: on


@pytest.fixture(scope="module")
def grade():
    with gradebook._grader() as ask:

        def grade(exercise, body):
            task = {"name": exercise, "cells": cells(exercise, body), "seconds": 4, "memory": 1}
            return ask(task, exercise[:2])

        yield grade


def test_there_are_more_than_two_hundred_tricks():
    assert len(TRICKS) > 200 and len(set(TRICKS.values())) == len(TRICKS)


@pytest.mark.parametrize("number", range(len(FEW)))
def test_a_trick_of_each_kind_earns_nothing(grade, number):
    exercise = list(TARGETS)[number % len(TARGETS)]
    assert grade(exercise, TRICKS[FEW[number]])["state"] != "right"


@pytest.mark.weekly
@pytest.mark.parametrize("exercise", TARGETS)
def test_no_trick_earns_a_mark(grade, exercise):
    states = {name: grade(exercise, body)["state"] for name, body in (NOTHING | TRICKS).items()}
    assert {name: state for name, state in states.items() if state == "right"} == {}


def _suppressed(body):
    return "try:\n    pass\n    " + body.replace("\n", "\n    ") + "\nexcept BaseException: pass"


@pytest.mark.weekly
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(TARGETS)), st.lists(st.sampled_from(sorted(TRICKS)), min_size=2, max_size=4, unique=True))
def test_no_tricks_together_earn_a_mark(grade, exercise, names):
    assert grade(exercise, "\n".join(_suppressed(TRICKS[name]) for name in names))["state"] != "right"


@pytest.mark.parametrize("name", ["imports", "opens", "catches the error"])
def test_an_answer_that_reaches_for_the_checks_is_refused_and_named(grade, name):
    verdict = grade("14.holm", READ[name])
    assert verdict["state"] == "wrong" and "lab_0" in verdict["tried"][0]


@pytest.mark.check
@pytest.mark.parametrize("name", READ)
def test_every_way_to_the_checks_is_shut_and_named(grade, name):
    verdict = grade("14.holm", READ[name])
    assert verdict["state"] == "wrong" and verdict["tried"], verdict


@pytest.mark.parametrize("name", UNSEEN)
def test_below_python_the_checks_are_shut_and_nowhere_in_memory(grade, name):
    verdict = grade("14.holm", UNSEEN[name])
    assert verdict["state"] == "wrong" and "the checks are here" not in verdict["why"]


@pytest.mark.parametrize("lab", exercises.labs())
def test_no_check_is_imported_where_answers_are_forked(lab):
    statements = list(reference.imports(f"{exercises.__name__}.lab_{lab}"))
    assert statements and not [one for one in statements if exercises.__name__ in one]


def test_no_answer_has_what_another_wrote_in_its_memory(grade):
    mark = "".join(map(chr, (115, 101, 99, 114, 101, 116))) + str(os.getpid())  # in no other notebook than the first
    grade("00.psnr", f"note = {mark!r} * 1000\nraise KeyError(note)")
    search = f"""
import ctypes, os
word = bytes(c ^ 1 for c in {bytes(c ^ 1 for c in (mark * 3).encode())!r})
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
end, (out, into) = libc.sbrk(0), os.pipe()
for page in range(end // 4096 - 1, end // 4096 - 200_000, -1):  # the heap, from above
    if libc.write(into, ctypes.c_void_p(page * 4096), ctypes.c_size_t(4096)) < 4096:
        break  # it begins here
    if word in os.read(out, 4096):
        raise KeyError("it is here")
raise KeyError(f"it is not in {{end // 4096 - page}} pages")"""
    verdict = grade("00.psnr", search)
    assert "it is not in" in verdict["why"], verdict
