"""What running a statement may do to names beyond binding them: which values it may change in place, and which names share a value.

Python can hide a change anywhere, so this errs to one side: a call may change what it is handed, unless it is known that it does not.
What the notebook itself defines is looked into. What labs show and plot with changes nothing, so the lab's long cells stay out.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

SHOWING = {
    "privlab",
    "matplotlib",
    "seaborn",
    "IPython",
    "ipywidgets",
    "tqdm",
    "warnings",
    "time",
    "logging",
}  # packages
CHANGING = {  # functions and methods that change what they are handed, or belong to, even where their result is used
    *(
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "setdefault",
    ),
    *(
        "appendleft",
        "extendleft",
        "popleft",
        "rotate",
        "heappush",
        "heappop",
        "heapify",
        "heapreplace",
        "heappushpop",
        "shuffle",
    ),
    *(
        "setattr",
        "delattr",
        "__setattr__",
        "__setitem__",
        "__delitem__",
        "__iadd__",
        "next",
        "send",
        "put",
        "fill",
        "copyto",
        "place",
    ),
}
SETTINGS = {
    "setattr",
    "manual_seed",
    "seed",
    "set_default_dtype",
    "seterr",
    "set_grad_enabled",
}  # of a package, that what comes later feels
ANY_NAME = {"exec", "eval", "globals", "locals"}  # with these a statement may bind what cannot be seen
SHARING = {
    "zip",
    "enumerate",
    "iter",
    "map",
    "filter",
    "list",
    "tuple",
    "dict",
    "reversed",
    "sorted",
    "partial",
    "getattr",
    "vars",
}
HARMLESS = {*dir(builtins), "display"} - CHANGING - ANY_NAME
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def changed(node: ast.AST) -> Iterator[str]:
    """Names whose value a piece of code may change in place: roots of what it stores into, and of what it hands to a call."""
    dropped = {
        call
        for part in ast.walk(node)
        if isinstance(part, ast.Expr)
        for call in ast.walk(part)
        if isinstance(call, ast.Call)
    }
    for part in ast.walk(node):
        if (isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load)) or (
            isinstance(part, ast.Attribute) and _changes(part.attr)
        ):
            yield from roots(part)
        elif isinstance(part, ast.Call) and (part in dropped or _changes(called(part))) and called(part) != "verify":
            if isinstance(part.func, ast.Attribute):
                yield from roots(part.func.value)
            if called(part) not in HARMLESS:
                yield from handed(part)


def names_hidden(node: ast.AST) -> bool:
    """Whether a piece of code may bind names that cannot be seen in it: exec, globals()["x"] = ..."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)]
    return any(call.func.id in ANY_NAME or (called(call) == "vars" and not call.args) for call in calls)  # type: ignore[attr-defined]


def _changes(name: str) -> bool:
    return name in CHANGING or (name.endswith("_") and not name.startswith("_"))  # as torch names what works in place


def called(call: ast.Call) -> str:
    """The last part of the name that is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def handed(call: ast.Call) -> set[str]:
    """All names in a call's arguments."""
    return {name for argument in (*call.args, *(k.value for k in call.keywords)) for name in _names(argument)}


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def roots(node: ast.AST) -> Iterator[str]:
    """The names that an expression's value may be part of: `a` of `a.b[0]`, of `a.get("b")` and of `vars(a)`."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.NamedExpr):
        yield from roots(node.value)
    elif isinstance(node, ast.Call):
        yield from roots(node.func.value) if isinstance(node.func, ast.Attribute) else handed(node)
    elif isinstance(node, ast.IfExp | ast.BoolOp | ast.Tuple | ast.List | ast.Set | ast.Dict):
        for inner in ast.iter_child_nodes(node):
            yield from roots(inner)


def parameters(node: ast.AST) -> tuple[set[str], set[str]]:
    """Of all functions in a piece of code the parameters, and those that are the object of a method."""
    every: set[str] = set()
    own: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.ClassDef):
            own |= {f.args.args[0].arg for f in part.body if isinstance(f, FUNCTIONS) and f.args.args}
        if isinstance(part, (*FUNCTIONS, ast.Lambda)):
            spread = [a for a in (part.args.vararg, part.args.kwarg) if a]
            every |= {a.arg for a in (*part.args.posonlyargs, *part.args.args, *part.args.kwonlyargs, *spread)}
    return every - own, own


def sharing(node: ast.AST, defined: set[str]) -> Iterator[set[str]]:
    """Sets of names whose values may be, be part of, or hold the same one.  defined: what the notebook's own functions are called."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assign):
            yield {name for target in part.targets for name in _stored(target)} | set(_held(part.value, defined))
        elif isinstance(part, ast.AnnAssign | ast.NamedExpr) and part.value:
            yield {*_stored(part.target), *_held(part.value, defined)}
        elif isinstance(part, ast.For | ast.AsyncFor):
            yield {*_stored(part.target), *_held(part.iter, defined)}
        elif isinstance(part, ast.withitem) and part.optional_vars:
            yield {*_stored(part.optional_vars), *_held(part.context_expr, defined), *_names(part.context_expr)}


def _stored(node: ast.AST) -> Iterator[str]:
    """Names that a target binds, or stores into."""
    if isinstance(node, ast.Tuple | ast.List):
        for inner in node.elts:
            yield from _stored(inner)
    else:
        yield from roots(node)


def _held(node: ast.AST, defined: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Call):
        if called(node) in SHARING or called(node) in defined:
            yield from handed(node)
    elif isinstance(node, ast.Lambda):
        yield from changed(node.body)
        for part in ast.walk(node.body):
            if isinstance(part, ast.Call) and called(part) in defined:
                yield from handed(part)
    elif isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        yield from _held(node.value, defined)
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.IfExp | ast.BoolOp | ast.NamedExpr):
        for inner in ast.iter_child_nodes(node):
            yield from _held(inner, defined)
