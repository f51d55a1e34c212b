"""The house: a module imports from its own floor or below, and never in a circle; no name that says nothing; nothing too long."""

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / "privlab"
FLOORS = [
    {
        "metrics",
        "identify",
        "roc",
        "sources",
        "downloads",
        "layouts",
        "pretrained",
        "data",
        "attributes",
        "identities",
        "private",
        "splits",
        "queries",
        "papers",
        "store",
        "atomic",
        "machine",
        "processes",
        "nursery",
    },
    {"leak", "models", "representations"},
    {"training", "protection", "optimisers", "recipes", "batches", "fleet", "shadows", "worker", "recognition"},
    {"attacks", "defences"},
    {
        "baselines",
        "ledger",
        "records",
        "verdicts",
        "tradeoff",
        "plane",
        "report",
        "drift",
        "history",
        "plots",
        "distributions",
        "drawing",
        "inversions",
        "widgets",
        "player",
        "study",
        "preference",
        "game",
        "sweep",
        "flipbook",
        "checks",
        "exercises",
        "auditing",
        "audit_checks",
        "audit_page",
        "audit_report",
        "audit_inputs",
        "exposure",
    },
    {
        "runner",
        "execution",
        "kernel",
        "pairing",
        "launch",
        "hosted",
        "stills",
        "slides",
        "catalogue",
        "doctor",
        "student",
        "marking",
        "judge",
        "returned",
        "jail",
        "slicing",
        "crossing",
        "progress",
        "summary",
        "__main__",
    },
]
MODULES = sorted(HOUSE.rglob("*.py"))


def name_of(path):
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def imports(path):
    """Names of privlab's modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "privlab":
            inside = node.module.split(".")[1:]
            for alias in node.names:
                candidate = ".".join([*inside, alias.name])
                known = {name_of(p) for p in MODULES}
                yield candidate if candidate in known else ".".join(inside)
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("privlab.") for a in node.names if a.name.startswith("privlab."))


def floor(name):
    return next(i for i, rooms in enumerate(FLOORS) if name.split(".")[0] in rooms)


GRAPH = {name_of(p): {i for i in imports(p) if i and i != name_of(p)} for p in MODULES}


@pytest.mark.parametrize("name", [n for n in GRAPH if n])
def test_imports_run_down(name):
    above = [used for used in GRAPH[name] if floor(used) > floor(name)]
    assert not above, f"{name} (floor {floor(name) + 1}) imports {above} from above"


def test_no_circles():
    done, on_the_way = set(), []

    def visit(name):
        if name in on_the_way:
            raise AssertionError(" -> ".join([*on_the_way[on_the_way.index(name) :], name]))
        if name in done:
            return
        on_the_way.append(name)
        for used in sorted(GRAPH.get(name, ())):
            visit(used)
        on_the_way.pop()
        done.add(name)

    for name in GRAPH:
        visit(name)


def test_names_say_something():
    assert not {p.stem for p in MODULES} & {"utils", "helpers", "common", "base", "misc", "core"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_syntax_is_that_of_3_11(path):
    ast.parse(path.read_text(), feature_version=(3, 11))
