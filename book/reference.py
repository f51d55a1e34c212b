"""The API reference: a page a room, made of what stands at its door (`__all__`) and of the docstrings there."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import docstrings
from sphinx.util.inspect import signature, stringify_signature

_INDEX = """\
API
===

What stands at the doors of the package, room by room, from the ground up: each room imports from those above it in this list
and from none below.

.. code-block:: python

   from privlab import data, metrics, models
   from privlab.attacks import gradient_inversion
   from privlab.leak import observe

A door is opened when it is first used: ``from privlab import data`` alone loads no torch.

"""


def contracts(project: Path) -> tuple[list[list[ModuleType]], list[ModuleType]]:
    """The rooms, floor by floor from the ground up, and the modules that must not import each other, as pyproject.toml has them."""
    rules = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (rule["layers"] for rule in rules if rule["type"] == "layers")
    (apart,) = (rule["modules"] for rule in rules if rule["type"] == "independence")
    floors = [[room.strip() for room in floor.split("|")] for floor in reversed(layers) if floor != "__main__"]
    return [[import_module(f"privlab.{r}") for r in floor] for floor in floors], [import_module(m) for m in apart]


class Reference:
    """The pages of all rooms, and the names that they document."""

    def __init__(self, floors: list[list[ModuleType]], apart: list[ModuleType]) -> None:
        """floors: the rooms from the ground up.  apart: modules inside of a room with a page of their own, as plots has."""
        inner = [*apart, import_module("privlab.notebook.plots")]
        self.modules = [
            module
            for floor in floors
            for room in floor
            for module in (room, *(m for m in inner if m.__name__.startswith(f"{room.__name__}.")))
        ]
        self.targets: dict[str, str] = {"privlab.audit": "privlab.audit"}  # a name of ours -> where it is documented
        self.places: dict[int, str] = {}  # of an object -> where it is documented first, so that it stands there once
        for module in self.modules:
            self._list(module)

    def _list(self, module: ModuleType) -> None:
        """Enter a module and what is at its door, functions and classes before the modules there."""
        self.targets[module.__name__] = module.__name__
        members = names(module)
        for name, value in members.items():
            place = f"{module.__name__}.{name}"
            if not inspect.ismodule(value):
                self.targets[place] = place if _constant(value) else self.places.setdefault(id(value), place)
                if not _constant(value):
                    self.targets.setdefault(f"{value.__module__}.{value.__qualname__}", self.targets[place])
                if inspect.isclass(value) and self.targets[place] == place:
                    for method in (
                        m for m, code in list(vars(value).items()) if m not in fields(value) and code.__doc__
                    ):
                        self.targets[f"{place}.{method}"] = f"{place}.{method}"
                        self.targets[f"{value.__module__}.{value.__qualname__}.{method}"] = f"{place}.{method}"
        for value in members.values():
            if inspect.ismodule(value) and value not in self.modules:
                self._list(value)

    def link(self, name: str, at: str = "") -> str | None:
        """Where the book documents what a docstring calls `name`; None where it does not, or where two could be meant.

        at: the full name of what the docstring belongs to; its own class, module and room go first.
        """
        name = name.removesuffix("()")
        if not re.fullmatch(r"[A-Za-z_][\w.]*", name):
            return None
        while at:
            if f"{at}.{name}" in self.targets:
                return self.targets[f"{at}.{name}"]
            at = at.rpartition(".")[0]
        ends = {place for full, place in self.targets.items() if full == name or full.endswith(f".{name}")}
        return ends.pop() if len(ends) == 1 and "." in name else None

    def pages(self) -> Iterator[tuple[str, str]]:
        """The name of each page and its text."""
        table = self._table([(m, m.__name__) for m in self.modules])
        toctree = ".. toctree::\n   :hidden:\n\n" + "".join(
            f"   {m.__name__.removeprefix('privlab.')} <{m.__name__}>\n" for m in self.modules
        )
        audit = ".. py:module:: privlab\n\n.. autofunction:: privlab.audit\n   :no-index-entry:\n\n"
        yield "index", _INDEX + table + toctree + "\n" + audit
        for module in self.modules:
            yield module.__name__, self._section(module, module.__name__, "=")

    def _table(self, members: list[tuple[object, str]]) -> str:
        rows = [".. list-table::", "   :widths: 30 70", "   :class: privlab-api", ""]
        for value, place in members:
            name = place.removeprefix("privlab.") if inspect.ismodule(value) else place.rpartition(".")[2]
            role = "mod" if inspect.ismodule(value) else "obj"
            text = comment(place) if _constant(value) else value.__doc__ or ""
            says = docstrings.summary(text, lambda n, at=place: self.link(n, at))
            rows += [f"   * - :py:{role}:`{name} <{self.targets[place]}>`", f"     - {says}"]
        return "\n".join(rows) + "\n\n"

    def _section(self, module: ModuleType, title: str, line: str) -> str:
        """A module: its docstring, a table of what it has, then each in full."""
        name, members = module.__name__, names(module)
        text = [title, line * len(title), "", f".. py:module:: {name}", ""]
        text += docstrings.rst(module.__doc__ or "", link=lambda n: self.link(n, name))
        text += [self._table([(value, f"{name}.{member}") for member, value in members.items()])]
        for member, value in members.items():
            place = f"{name}.{member}"
            if inspect.ismodule(value) or self.targets[place] != place:
                continue
            if inspect.isclass(value):
                text += [f".. autoclass:: {place}", "   :members:", "   :special-members: __call__, __getitem__", ""]
            elif _function(value):
                text += [f".. autofunction:: {place}", ""]
            else:
                shown = repr(value)
                text += [f".. py:data:: {member}", f"   :type: {type(value).__name__}"]
                text += [f"   :value: {shown}"] * (len(shown) <= 72) + [""]
                text += [f"   {docstrings.inline(comment(place), lambda n: self.link(n, name))}", ""]
        for member, value in members.items():
            if inspect.ismodule(value) and value not in self.modules:
                inner = member if line == "=" else f"{title}.{member}"
                text += [self._section(value, inner, "-" if line == "=" else "~")]
        return "\n".join(text) + "\n"

    def process(self, app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
        """Sphinx's autodoc-process-docstring: a docstring as autodoc read it -> as the book shows it."""
        lines[:] = docstrings.rst("\n".join(lines), _parameters(value), lambda n: self.link(n, name))


def arguments(
    app: object, what: str, name: str, value: object, options: object, shown: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Sphinx's autodoc-process-signature: of a class, defaults that are code are shown as such, others as three dots."""
    if what != "class" or "=" not in (shown or ""):
        return None
    call = signature(value.__init__, bound_method=True)  # type: ignore[misc]
    taken = [p if p.default is p.empty else p.replace(default=_Code(p.default)) for p in call.parameters.values()]
    return stringify_signature(
        call.replace(parameters=taken, return_annotation=call.empty), unqualified_typehints=True
    ), returned


def skip(app: object, what: str, name: str, value: object, hidden: bool, options: object) -> bool | None:
    """Sphinx's autodoc-skip-member: a field of a class is among its arguments, also where its default is a function."""
    return True if what == "class" and _function(value) and value.__name__ != name else None  # type: ignore[attr-defined]


class _Code:
    """A default, as a signature shows it."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        if _function(self.value):
            return self.value.__name__  # type: ignore[attr-defined]
        try:
            ast.parse(repr(self.value))
        except SyntaxError:
            return "..."
        return repr(self.value)


def names(module: ModuleType) -> dict[str, object]:
    """What a module offers: its `__all__`, modules last; without one what its file defines, constants if a comment explains them."""
    if hasattr(module, "__all__"):
        members = {name: getattr(module, name) for name in module.__all__}
        return dict(sorted(members.items(), key=lambda pair: inspect.ismodule(pair[1])))
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    public = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    public += [name for name in _assigned(tree) if name.isupper() and comment(f"{module.__name__}.{name}")]
    return {name: getattr(module, name) for name in public if not name.startswith("_")}


def fields(kind: type) -> set[str]:
    """The names that a class and its bases annotate."""
    return {name for base in kind.__mro__ for name in vars(base).get("__annotations__", ())}


def _function(value: object) -> bool:
    return callable(value) and hasattr(value, "__qualname__") and not inspect.isclass(value)


def _constant(value: object) -> bool:
    return not (_function(value) or inspect.isclass(value) or inspect.ismodule(value))


def _assigned(tree: ast.Module) -> dict[str, ast.stmt]:
    pairs = {}
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            if isinstance(target, ast.Name):
                pairs[target.id] = node
    return pairs


def comment(place: str) -> str:
    """What the source says of a constant: the comment behind its first line, or the lines of comment above it."""
    package, _, name = place.rpartition(".")
    module = import_module(package)
    stub = Path(module.__file__ or "").with_suffix(".pyi")
    if stub.exists():
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
                module = import_module(f"{package}.{node.module}")
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    node = _assigned(ast.parse(source)).get(name)
    if node is None:
        return ""
    rows = source.splitlines()
    behind = re.search(r"  # (.*)$", rows[node.lineno - 1]) or re.search(r"  # (.*)$", rows[(node.end_lineno or 1) - 1])
    if behind:
        return behind[1][:1].upper() + behind[1][1:] + "." * (not behind[1].endswith("."))
    above = []
    for row in reversed(rows[: node.lineno - 1]):
        if not row.startswith("# "):
            break
        above.append(row[2:])
    return " ".join(reversed(above))


def _parameters(value: object) -> set[str]:
    """What an argument of this may be called: of a function what it takes, of a class its fields too."""
    taken = fields(value) if inspect.isclass(value) else set()
    with contextlib.suppress(TypeError, ValueError):
        taken |= set(inspect.signature(value).parameters)  # type: ignore[arg-type]
    return taken
