"""What an answer takes to run is run, however the notebook comes by it; and the lab around it is not."""

from __future__ import annotations

import ast
import json
import os

import pytest
import torch

from privlab.teaching import marking
from privlab.teaching.marking import slicing, submission

BODY = "return scale * (a - b).square().mean().log10()"
PSNR = f"def my_psnr(a, b):\n    {BODY}"
STEP = "def my_psnr(a, b):\n    return -10 * steps[0](a, b).log10()"
ERROR = "def error(a, b):\n    return (a - b).square().mean()"
ASKED = 'from privlab.notebook import checks\nchecks.verify("00.psnr", my_psnr)'
# fmt: off
FORMS = {  # how a notebook comes by an answer: its cells, but for the check
    # magics
    "time": [f"%%time\nscale = -10\n{PSNR}"],
    "time_behind_empty_lines": [f"\n\n%%time\nscale = -10\n{PSNR}"],
    "timeit": ["%%timeit -n 1 -r 1\nscale = -10", "scale = -10", PSNR],
    "capture": [f"%%capture out\nscale = -10\n{PSNR}"],
    "capture_and_time": [f"%%capture\n%%time\nscale = -10\n{PSNR}"],
    "line_time": ["%time scale = -10", PSNR],
    "line_time_in_a_block": [f"if True:\n    %time scale = -10\n{PSNR}"],
    "matplotlib": [f"%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n!ls\nscale = -10\n{PSNR}"],
    "magic_in_a_function": ["scale = -10", f"def my_psnr(a, b):\n    %matplotlib inline\n    {BODY}"],
    "bash": ["%%bash\nls | wc", "%%html\n<b>no Python</b>", "%%writefile x.py\n(", f"scale = -10\n{PSNR}"],
    "help": ["import torch\ntorch.allclose?", f"scale = -10\n{PSNR}"],
    "display": ["scale = -10", f"def my_psnr(a, b):\n    display(a)\n    {BODY}"],
    # await
    "await": ["async def ten():\n    return -10", "scale = await ten()", PSNR],
    "await_a_sleep": ["import asyncio\nasync def ten():\n    await asyncio.sleep(.001)\n    return -10", "scale = await ten()", PSNR],
    "await_two": ["import asyncio\nasync def n(x): return x", "a, b = await asyncio.gather(n(-4), n(-6))\nscale = a + b", PSNR],
    "async_for": ["async def each():\n    yield -10", "async for scale in each(): pass", PSNR],
    "async_with": ["import contextlib\n@contextlib.asynccontextmanager\nasync def ten(): yield -10", "async with ten() as scale: pass", PSNR],  # noqa: E501
    "await_and_time": [f"%%time\nasync def ten(): return -10\nscale = await ten()\n{PSNR}"],
    # globals that a function sets
    "setup": ["def setup():\n    global scale\n    scale = -10", "setup()", PSNR],
    "setup_over_a_first_value": ["scale = 1", "def setup():\n    global scale\n    scale = -10", "setup()", PSNR],
    "setup_that_calls": ["def inner():\n    global scale\n    scale = -10\ndef setup(): inner()", "setup()", PSNR],
    "setup_with_a_result": ["def setup():\n    global scale\n    scale = -10\n    return True", "done = setup()", PSNR],
    "setup_in_a_condition": ["def setup():\n    global scale\n    scale = -10\n    return 1", "if setup(): print('ready')", PSNR],
    "setup_by_a_class": ["class Setup:\n    def __init__(self):\n        global scale\n        scale = -10", "Setup()", PSNR],
    "setup_by_a_method": ["class Setup:\n    def go(self):\n        global scale\n        scale = -10", "s = Setup()", "s.go()", PSNR],
    "setup_in_a_loop": ["scale = 0\ndef less():\n    global scale\n    scale -= 1", "for _ in range(10): less()", PSNR],
    "setup_by_partial": ["import functools\ndef put(x):\n    global scale\n    scale = x", "go = functools.partial(put, -10)\ngo()", PSNR],
    "setup_by_lambda": ["def put(x):\n    global scale\n    scale = x", "go = lambda: put(-10)", "go()", PSNR],
    "setup_by_decorator": ["def sets(f):\n    global scale\n    scale = -10\n    return f", f"@sets\n{PSNR}"],
    "by_exec": ["exec('scale = -10')", PSNR],
    "by_exec_of_a_name": ["text = 'sca' + 'le = -10'", "exec(text)", PSNR],
    "by_globals": ["globals()['scale'] = -10", PSNR],
    "by_globals_update": ["globals().update(scale=-10)", PSNR],
    "by_globals_in_a_function": ["def setup(): globals()['scale'] = -10", "setup()", PSNR],
    # lists, dicts and objects that something fills
    "helper": ["steps = []", ERROR, "def fill(target):\n    target.append(error)", "fill(steps)", STEP],
    "helper_without_argument": ["steps = []", ERROR, "def fill():\n    steps.append(error)", "fill()", STEP],
    "helper_with_result": ["steps = []", ERROR, "def fill(target):\n    target.append(error)\n    return 1", "n = fill(steps)", STEP],
    "helper_by_keyword": ["steps = []", ERROR, "def fill(x, into):\n    into += [x]", "fill(error, into=steps)", STEP],
    "helper_of_helper": ["steps = []", ERROR, "def put(t):\n    t.append(error)\ndef fill(t): put(t)", "fill(steps)", STEP],
    "helper_method": ["steps = []", ERROR, "class F:\n    def fill(self, t): t.insert(0, error)", "F().fill(steps)", STEP],
    "helper_lambda": ["steps = []", ERROR, "put = lambda t: t.append(error)", "put(steps)", STEP],
    "comprehension": ["steps = []", ERROR, "[steps.append(f) for f in (error,)]", STEP],
    "dropped": ["steps = []", ERROR, "_ = steps.append(error)", STEP],
    "map": ["steps = []", ERROR, "list(map(steps.append, [error]))", STEP],
    "alias": ["steps = []", ERROR, "mine = steps", "mine.append(error)", STEP],
    "alias_by_two_targets": ["steps = mine = []", ERROR, "mine.append(error)", STEP],
    "alias_later": ["mine = []", ERROR, "steps = mine", "mine.append(error)", STEP],
    "bound_method": ["steps = []", ERROR, "put = steps.append", "put(error)", STEP],
    "loop_over_lists": ["steps, others = [], []", ERROR, "for target in (steps, others):\n    target.append(error)", STEP],
    "with_as": ["import contextlib\nsteps = []", ERROR, "with contextlib.nullcontext(steps) as t:\n    t.append(error)", STEP],
    "registered": ["steps = []\ndef register(f):\n    steps.append(f)\n    return f", f"@register\n{ERROR}", STEP],
    "registered_by_class": ["steps = {}\nclass Base:\n    def __init_subclass__(cls): steps[0] = cls.error",
                            "class A(Base):\n    error = staticmethod(lambda a, b: (a - b).square().mean())", STEP],
    "extended": ["steps = []", ERROR, "steps.extend([error])", STEP],
    "added": ["steps = []", ERROR, "steps += [error]", STEP],
    "sliced": ["steps = []", ERROR, "steps[:] = [error]", STEP],
    "updated": ["steps = {}", ERROR, "steps.update({0: error})", STEP],
    "updated_in_place": ["steps = {}", ERROR, "steps |= {0: error}", STEP],
    "setdefault": ["steps = {}", ERROR, "first = steps.setdefault(0, error)", STEP],
    "deleted": ["steps = [None]", ERROR, "steps.append(error)", "del steps[0]", STEP],
    "popped": ["steps = [None]", ERROR, "steps.append(error)", "first = steps.pop(0)", STEP],
    "heap": ["import heapq\nsteps = []", ERROR, "heapq.heappush(steps, error)", STEP],
    "inside": ["all = {'steps': []}", ERROR, "all['steps'].append(error)", "steps = all['steps']", STEP],
    "held_by": ["steps = []\nall = {'steps': steps}", ERROR, "all['steps'].append(error)", STEP],
    "got": ["all = {'steps': []}", ERROR, "all.get('steps').append(error)", "steps = all['steps']", STEP],
    "defaultdict": ["import collections\nd = collections.defaultdict(list)", ERROR, "d['s'].append(error)", "steps = d['s']", STEP],
    "next": ["them = iter([None, 1])\nnext(them)", ERROR, "steps = [error][:next(them)]", STEP],
    "tensor_in_place": ["import torch\nscale = torch.tensor(-1.)", "scale.mul_(10)", PSNR],
    "tensor_in_place_by_function": ["import torch\nscale = torch.zeros(())", "torch.nn.init.constant_(scale, -10)", PSNR],
    "tensor_filled": ["import torch\nscale = torch.zeros(())", "x = scale.fill_(-10)", PSNR],
    "array_filled": ["import numpy as np\nscale = np.zeros(())", "np.copyto(scale, -10)", f"{PSNR[:21]}\n    {BODY.replace('scale', 'float(scale)')}"],  # noqa: E501
    "sorted_in_place": ["steps = [5]", ERROR, "steps = [(1, error), (0, error)]", "steps.sort(key=lambda s: s[0])",
                        "steps = [f for _, f in steps]", STEP],
    # objects
    "setattr": ["class Scale: pass", "setattr(Scale, 'x', -10)", PSNR.replace("scale", "Scale.x")],
    "setattr_of_an_object": ["class Scale: pass\ns = Scale()", "setattr(s, 'x', -10)", PSNR.replace("scale", "s.x")],
    "setattr_in_a_loop": ["class S: pass\ns = S()", "for k, v in {'x': -10}.items(): setattr(s, k, v)", PSNR.replace("scale", "s.x")],
    "setattr_by_helper": ["class S: pass\ns = S()\ndef put(o, v): setattr(o, 'x', v)", "put(s, -10)", PSNR.replace("scale", "s.x")],
    "class_attribute_later": ["class Scale: pass", "Scale.x = -10", PSNR.replace("scale", "Scale.x")],
    "patched_class": ["class P:\n    def scale(self): return 1", "P.scale = lambda self: -10", PSNR.replace("scale", "P().scale()")],
    "patched_by_helper": ["class P: pass\ndef patch(c): c.x = -10", "patch(P)", PSNR.replace("scale", "P.x")],
    "vars": ["class S: pass\ns = S()", "vars(s).update(x=-10)", PSNR.replace("scale", "s.x")],
    "dict_of_an_object": ["class S: pass\ns = S()", "s.__dict__['x'] = -10", PSNR.replace("scale", "s.x")],
    "own_method": ["class S:\n    def go(self):\n        self.x = -10\n        return self\ns = S()", "s.go()", PSNR.replace("scale", "s.x")],  # noqa: E501
    "own_method_with_result": ["class S:\n    def go(self):\n        self.x = -10\n        return 1\ns = S()", "n = s.go()", PSNR.replace("scale", "s.x")],  # noqa: E501
    "function_attribute": [f"def my_psnr(a, b):\n    {BODY.replace('scale', 'my_psnr.scale')}", "my_psnr.scale = -10"],
    "namespace": ["import types\ns = types.SimpleNamespace()", "s.x = -10", PSNR.replace("scale", "s.x")],
    "patched_package": ["import math\nmath.ten = -10", PSNR.replace("scale", "math.ten")],
    "setattr_of_a_package": ["import math\nsetattr(math, 'ten', -10)", PSNR.replace("scale", "math.ten")],
    "property": ["class S:\n    @property\n    def x(self): return -10", PSNR.replace("scale", "S().x")],
    # names
    "star_import": ["from math import *", PSNR.replace("scale", "-round(pow(10, 1))")],
    "star_assignment": ["scale, *rest = -10, 1, 2", PSNR],
    "walrus": ["(scale := -10)", PSNR],
    "walrus_in_a_comprehension": ["[scale := x for x in (1, -10)]", PSNR],
    "loop_variable": ["for scale in (1, -10): pass", PSNR],
    "while": ["scale = 0\nwhile scale > -10:\n    scale -= 1", PSNR],
    "in_place": ["scale = -5", "scale += -5", PSNR],
    "try": ["try:\n    scale = 1 / 0\nexcept ZeroDivisionError:\n    scale = -10", PSNR],
    "import_in_try": ["try:\n    from nowhere import scale\nexcept ImportError:\n    scale = -10", PSNR],
    "condition": ["if __name__ == '__main__':\n    scale = -10", PSNR],
    "match": ["match {'scale': -10}:\n    case {'scale': scale}: pass", PSNR],
    "deleted_name": ["scale = 1", "del scale", "scale = -10", PSNR],
    "nonlocal": ["def maker():\n    s = 0\n    def less():\n        nonlocal s\n        s -= 10\n        return s\n    return less", "scale = maker()()", PSNR],  # noqa: E501
    "closure": [f"def make(scale):\n    def my_psnr(a, b):\n        {BODY}\n    return my_psnr", "my_psnr = make(-10)"],
    "partial": [f"import functools\ndef p(scale, a, b):\n    {BODY}", "my_psnr = functools.partial(p, -10)"],
    "lambda": ["my_psnr = lambda a, b: -10 * (a - b).square().mean().log10()"],
    "callable_object": [f"class P:\n    def __call__(self, a, b):\n        scale = -10\n        {BODY}", "my_psnr = P()"],
    "decorated": [f"import functools\n@functools.lru_cache\ndef my_psnr(a, b, scale=-10):\n    {BODY}"],
    "dataclass": ["from dataclasses import dataclass\n@dataclass\nclass S:\n    x: float = -10", PSNR.replace("scale", "S().x")],
    "future": ["from __future__ import annotations", "scale = -10", f"def my_psnr(a: Nowhere, b):\n    {BODY}"],
    "order": [PSNR, "scale = -10"],
    "mutated_default": [f"def p(a, b, seen=[]):\n    seen.append(1)\n    scale = -10 * seen[0]\n    {BODY}", "my_psnr = p"],
    "seeded": ["import torch\ntorch.manual_seed(0)\nfirst = torch.rand(1)", "torch.manual_seed(0)",
               "scale = -10 if torch.rand(1) == first else 1", PSNR],
    # around it
    "fails_elsewhere": ["scale = -10", "print(1 / 0)", "x = 1 / 0", PSNR],
    "fails_in_what_may_belong_to_it": ["steps = []", ERROR, "print(steps[3])", "steps.sort(key=1)", "steps.append(error)", STEP],
}
# fmt: on


@pytest.mark.parametrize("name", FORMS)
def test_an_honest_answer_is_run_however_the_notebook_comes_by_it(name):
    a, b = torch.full((1, 3, 4, 4), 0.1), torch.zeros(1, 3, 4, 4)
    psnr = submission.answer(list(enumerate([*FORMS[name], ASKED])), "00.psnr")
    assert float(psnr(a, b)) == pytest.approx(20, abs=1e-3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="answers are marked in forked processes")
def test_five_kinds_of_honest_answers_earn_their_mark(tmp_path):
    kinds = ("time", "await_two", "setup", "helper", "setattr")
    for name in kinds:
        cells = [{"cell_type": "code", "source": source} for source in (*FORMS[name], ASKED)]
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
    rows = marking.mark(tmp_path, tmp_path / "marks.csv")
    assert {row.file: row.verdicts["00.psnr"]["state"] for row in rows} == {f"{name}.ipynb": "right" for name in kinds}


def test_what_a_call_may_change_brings_in_no_cell_of_the_lab():
    lab = ["import torch\nfrom privlab import models\nmodel = models.build()\nimages = 1 / 0", "steps = [images]", "print(model, steps)",
           "for image in images:\n    steps.append(image)", "def show(steps):\n    steps.append(1)", "show(steps)"]  # fmt: skip
    parsed, _ = slicing.statements(list(enumerate([*lab, "scale = -10", PSNR, "my_psnr(images, model)", ASKED])))
    taken = slicing.needed(parsed, {"my_psnr"}, len(parsed) - 1)
    assert [ast.unparse(node) for node in taken.body] == ["scale = -10", PSNR]
