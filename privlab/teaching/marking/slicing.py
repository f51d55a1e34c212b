"""Of a notebook's cells, the statements that one expression needs: what an answer takes to run, without the lab around it.

It asks Python's own compiler which global names a statement reads and binds, so that a parameter called `images` does not bring in the
lab's `images`. A statement counts where it binds a name that is needed, or changes its value in place (`found.add(...)`, `found[0] = ...`).
"""

from __future__ import annotations

import ast
import builtins
import dis
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager

READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
BINDS = {"STORE_NAME", "STORE_GLOBAL"}
IMPORTS = (ast.Import, ast.ImportFrom)
WHOLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, *IMPORTS)


@dataclass
class Statement:
    """A statement of the notebook's top level, and the global names it has to do with."""

    node: ast.stmt
    reads: set[str]  # when it is executed
    later: set[str]  # when a function that it defines is called
    binds: set[str]
    changes: set[str]  # in place
    used: set[str] = field(default_factory=set)  # of those that it binds

    @property
    def replaces(self) -> bool:
        """Whether whatever a name held before is gone after it."""
        if isinstance(self.node, ast.Import):
            return not any(
                "." in a.name and not a.asname for a in self.node.names
            )  # `import a.b` leaves `a.c` as it was
        plain = isinstance(self.node, ast.Assign | ast.AnnAssign) and not self.binds & self.reads
        return plain or isinstance(self.node, WHOLE)


def statements(cells: Sequence[tuple[int, str]]) -> tuple[list[Statement], dict[int, str]]:
    """The statements of (number, source) cells, in order; and the numbers of cells that cannot be read, with the reason."""
    parsed, unread = [], {}
    for number, source in cells:
        try:
            tree = ast.parse(TransformerManager().transform_cell(source))
            parsed += [_statement(node) for node in tree.body]
        except SyntaxError as error:
            unread[number] = f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            unread[number] = str(error) or type(error).__name__
    return parsed, unread


def needed(available: list[Statement], names: set[str], before: int) -> ast.Module:
    """The statements that these names need at a place in the notebook, in order, and of imports only the names that are used.

    before: how many statements stand before that place. A name that none of them binds is looked for in the rest.
    """
    included: set[int] = set()
    asked: set[tuple[str, int]] = set()

    def demand(name: str, place: int) -> None:
        if (name, place) in asked:
            return
        asked.add((name, place))
        touching = [k for k, s in enumerate(available[:place]) if name in s.binds | s.changes]
        if (
            not any(name in available[k].binds for k in touching)
            and place < len(available)
            and not hasattr(builtins, name)
        ):
            return demand(name, len(available))
        imported = any(name in available[k].binds and isinstance(available[k].node, IMPORTS) for k in touching)
        for k in reversed(touching):
            statement = available[k]
            if imported and name not in statement.binds:
                continue  # `torch.save(...)` is no part of what `torch` is
            statement.used.add(name)
            included.add(k)
            for other in statement.reads:
                demand(other, k)
            for other in statement.later:
                demand(other, place)
            if name in statement.binds and statement.replaces:
                break

    for name in names:
        demand(name, before)
    stars = {k for k, s in enumerate(available) if isinstance(s.node, ast.ImportFrom) and s.node.names[0].name == "*"}
    return ast.Module([_narrowed(available[k]) for k in sorted(included | stars)], [])


def checked(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(exercise, answer) of each `checks.verify("05.noise", sigma)` in a piece of code."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) == "verify":
            arguments = dict(zip(("name", "answer"), call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
            name = arguments.get("name")
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and "answer" in arguments:
                yield name.value, arguments["answer"]


def names_of(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """The global names that code reads, reads later in a function, and binds."""
    here = {i.argval for i in dis.get_instructions(code) if i.opname in READS}
    bound = {i.argval for i in dis.get_instructions(code) if i.opname in BINDS}
    later: set[str] = set()
    for inner in _inside(code):
        instructions = list(dis.get_instructions(inner))
        later |= {i.argval for i in instructions if i.opname in READS}
        bound |= {i.argval for i in instructions if i.opname == "STORE_GLOBAL"}
    return here, later, bound


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)


def _statement(node: ast.stmt) -> Statement:
    reads, later, binds = names_of(compile(ast.Module([node], []), "<cell>", "exec", dont_inherit=True))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        reads, later = reads | later, later  # a comprehension or a class body runs now, and so may a lambda
    changes = set() if isinstance(node, WHOLE) else set(_changed(node))
    return Statement(node, reads, later, binds, changes)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Names whose value a statement may change: it stores into them, or calls a method of theirs and drops what that returns."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            yield from _root(part)
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            yield from _root(part.value.func)


def _root(node: ast.expr) -> Iterator[str]:
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript):
        inner = inner.value
    if isinstance(inner, ast.Name) and inner is not node:
        yield inner.id


def _narrowed(statement: Statement) -> ast.stmt:
    node = statement.node
    if not isinstance(node, ast.Import | ast.ImportFrom) or node.names[0].name == "*":
        return node
    aliases = [a for a in node.names if (a.asname or a.name.split(".")[0]) in statement.used]
    if isinstance(node, ast.Import):
        return ast.copy_location(ast.Import(aliases), node)
    return ast.copy_location(ast.ImportFrom(node.module, aliases, node.level), node)
