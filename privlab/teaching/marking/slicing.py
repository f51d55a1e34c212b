"""Of a notebook's cells, the statements that one expression needs: what an answer takes to run, without the lab around it.

It asks Python's own compiler which global names a statement reads and binds, so that a parameter called `images` does not bring in the
lab's `images`. A statement counts where it binds a name that is needed, or may change its value in place: `found.add(...)`, `fill(found)`,
`setup()` where that sets a global (`effects`). One that only may is tried, and an error in it is none of the answer's.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from IPython.core.inputtransformer2 import TransformerManager

from privlab.teaching.marking import effects

READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
BINDS = {"STORE_NAME", "STORE_GLOBAL"}
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINING = (*effects.FUNCTIONS, ast.ClassDef)
WHOLE = (*DEFINING, *IMPORTS)
TIMED = {
    "time",
    "timeit",
    "capture",
    "prun",
    "memit",
    "debug",
    "mprun",
    "snakeviz",
}  # magics whose code is the notebook's
_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*\n?")


@dataclass
class Statement:
    """A statement of the notebook's top level, and the global names it has to do with."""

    node: ast.stmt
    reads: set[str]  # when it is executed
    later: set[str]  # when a function that it defines is called
    binds: set[str]
    changes: set[str]  # in place, for certain or perhaps
    sets: set[str]  # when a function that it defines is called
    used: set[str] = field(default_factory=set)  # of those that it binds
    certain: bool = False

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
            parsed += [_statement(node) for node in _parsed(source)]
        except SyntaxError as error:
            unread[number] = f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            unread[number] = str(error) or type(error).__name__
    _look_into(parsed)
    return parsed, unread


def _parsed(source: str) -> list[ast.stmt]:
    """A cell's statements, with what Jupyter's magics time or capture in place of them, and without all others."""
    while magic := _MAGIC.match(source):
        if magic[1] not in TIMED:
            return []  # another language
        source = source[magic.end() :]
    return _Magics().visit(ast.parse(TransformerManager().transform_cell(source))).body


class _Magics(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        call = node.value
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Call)
        ):
            return node
        if getattr(call.func.value.func, "id", "") != "get_ipython":
            return node
        words = [getattr(a, "value", None) for a in call.args]
        if words[:1] and words[0] in TIMED and isinstance(words[-1], str):
            return _parsed(words[-1]) or ast.Pass()
        return ast.copy_location(ast.Pass(), node)


def _look_into(parsed: list[Statement]) -> None:
    """Add to each statement what the functions do that it calls, and what shares a value with what it changes."""
    by_name: dict[str, list[Statement]] = {}
    for s in parsed:
        for name in s.binds:
            by_name.setdefault(name, []).append(s)
    outside = {n for n, those in by_name.items() if all(isinstance(s.node, IMPORTS) for s in those)}
    showing = {n for n in outside for s in by_name[n] if _package(s.node) in effects.SHOWING}
    defined = {n: those for n, those in by_name.items() if any(isinstance(s.node, DEFINING) for s in those)}

    bound = {"", *by_name}.union(*(s.sets for s in parsed))

    sets: dict[str, set[str]] = {}  # of a function: globals that it changes, "" for names that cannot be seen
    fills: set[str] = set()  # functions that change what they are handed
    moves: set[str] = set()  # classes whose methods change their object
    for name, those in defined.items():
        for s in those:
            changed = set(effects.changed(s.node))
            handed, own = effects.parameters(s.node)
            sets.setdefault(name, set()).update((changed & s.later) | s.sets)
            sets[name] |= {""} if effects.names_hidden(s.node) else set()
            fills |= {name} if changed & handed else set()
            moves |= {name} if changed & own else set()

    reached: dict[str, set[str]] = {}

    def behind(name: str) -> set[str]:
        """What the notebook defines, of all that a name's value is made with."""
        if name not in reached:
            reached[name], waiting = set(), [name]
            passed = {name}
            while waiting:
                one = waiting.pop()
                reached[name] |= {one} & defined.keys()
                further = {n for s in by_name.get(one, []) for n in s.reads | s.later} - passed
                passed |= further
                waiting += further
        return reached[name]

    alike: dict[str, set[str]] = {}
    for s in parsed:
        for names in effects.sharing(s.node, set(defined)) if not isinstance(s.node, WHOLE) else ():
            together = names & by_name.keys() - outside
            if len(together) > 1:
                whole = together.union(*(alike.get(n, set()) for n in together))
                alike |= dict.fromkeys(whole, whole)

    for s in parsed:
        if isinstance(s.node, DEFINING):
            s.changes = set()
        called = {n for r in s.reads if not _is_check(s.node) for n in behind(r)} - (
            s.binds if isinstance(s.node, WHOLE) else set()
        )
        for name in called:
            s.changes |= sets[name]
        for part in ast.walk(s.node) if called & (fills | moves) and not isinstance(s.node, WHOLE) else ():
            if isinstance(part, ast.Call):
                makers = set().union(*map(behind, effects.roots(part.func)))
                s.changes |= effects.handed(part) if makers & fills else set()
                if makers & moves and isinstance(part.func, ast.Attribute):
                    s.changes |= set(effects.roots(part.func.value))
        calls = [part for part in ast.walk(s.node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)]
        if isinstance(s.node, ast.Expr):  # put(error), where put is steps.append
            s.changes |= {m for c in calls if c.func.id not in defined for m in alike.get(c.func.id, ())}  # type: ignore[attr-defined]
        if isinstance(s.node, ast.Expr) and set(effects.roots(getattr(s.node.value, "func", s.node))) & showing:
            s.changes = set()
        s.changes |= {m for n in s.changes for m in alike.get(n, ())}
        s.changes &= bound  # not `len`, which is handed over as well


def _package(node: ast.stmt) -> str:
    return (getattr(node, "module", None) or node.names[0].name).partition(".")[0] if isinstance(node, IMPORTS) else ""


def _whole_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.names[0].name == "*" or node.module == "__future__")


def _is_check(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and any(True for _ in checked(node))


def needed(available: list[Statement], names: set[str], before: int) -> ast.Module:
    """The statements that these names need at a place in the notebook, in order, and of imports only the names that are used.

    before: how many statements stand before that place. A name that none of them binds is looked for in the rest.
    """
    included: set[int] = set()
    asked: set[tuple[str, int]] = set()
    waiting = [(name, before) for name in names]

    def include(k: int, place: int) -> None:
        included.add(k)
        waiting.extend([*((name, k) for name in available[k].reads), *((name, place) for name in available[k].later)])

    for k, statement in enumerate(available[:before]):
        if "" in statement.changes:
            include(k, k)
    while waiting:
        name, place = waiting.pop()
        if (name, place) in asked:
            continue
        asked.add((name, place))
        touching = [k for k, s in enumerate(available[:place]) if name in s.binds | s.changes]
        if (
            not any(name in available[k].binds for k in touching)
            and place < len(available)
            and not hasattr(builtins, name)
        ):
            waiting.append((name, len(available)))
            continue
        imported = any(name in available[k].binds and isinstance(available[k].node, IMPORTS) for k in touching)
        for k in reversed(touching):
            statement = available[k]
            if imported and name not in statement.binds and not _sets(statement.node, name):
                continue  # `torch.save(...)` is no part of what `torch` is
            if name in statement.binds:
                statement.used.add(name)
                statement.certain = True
            include(k, place)
            if name in statement.binds and statement.replaces:
                break

    stars = {k for k, s in enumerate(available) if _whole_import(s.node)}
    in_order = sorted(included | stars, key=lambda k: (_package(available[k].node) != "__future__", k))
    return ast.Module([_tried(available[k]) for k in in_order], [])


def _sets(node: ast.stmt, package: str) -> bool:
    """Whether a statement sets something of a package that what comes after it feels."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and effects.called(node.value) in effects.SETTINGS
    return _stores(node) and any(package in effects.roots(target) for target in node.targets)  # type: ignore[attr-defined]


def _stores(node: ast.stmt) -> bool:
    """Whether it is `a.b = c`, or the like."""
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets)


def _tried(statement: Statement) -> ast.stmt:
    """A statement, narrowed if it imports; one that may have nothing to do with the answer must not stop it."""
    node = _narrowed(statement)
    if statement.certain or _stores(node) or isinstance(node, WHOLE):
        return node
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
    return ast.fix_missing_locations(ast.copy_location(ast.Try([node], [handler], [], []), node))


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
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    reads, later, binds = names_of(compile(ast.Module([node], []), "<cell>", "exec", flags, dont_inherit=True))
    own = {node.name} if isinstance(node, DEFINING) else binds
    if not isinstance(node, effects.FUNCTIONS):
        reads, later = reads | later, later  # a comprehension or a class body runs now, and so may a lambda
    changes = set() if isinstance(node, WHOLE) else set(effects.changed(node))
    if effects.names_hidden(node) and not isinstance(node, WHOLE):
        changes |= {""} | _words(node)
    return Statement(node, reads, later, own, changes, binds - own)


def _words(node: ast.AST) -> set[str]:
    """Names in code that is handed over as text, as in exec("scale = 10 * step")."""
    text = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return {word for line in text for word in re.findall(r"[^\W\d]\w*", line)}


def _narrowed(statement: Statement) -> ast.stmt:
    node = statement.node
    if not isinstance(node, ast.Import | ast.ImportFrom) or _whole_import(node):
        return node
    aliases = [a for a in node.names if (a.asname or a.name.split(".")[0]) in statement.used]
    if isinstance(node, ast.Import):
        return ast.copy_location(ast.Import(aliases), node)
    return ast.copy_location(ast.ImportFrom(node.module, aliases, node.level), node)
