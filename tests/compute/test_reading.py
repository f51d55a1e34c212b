"""What a file held when it was written need not be what it holds now: every other content is one line with its path and a cure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privlab.compute import reading

HOSTILE = {
    "empty": b"", "blank": b" \n", "cut": b'{"name": "x", "par', "list": b"[]", "object": b"{}", "null": b"null", "number": b"3",
    "text": b'"x"', "true": b"true", "nan": b"NaN", "inside nan": b'{"name": NaN}', "not utf-8": b"\xff\xfe\x00\x80", "zeros": bytes(64),
    "deep": b"[" * 100_000, "huge": b"9" * 5000,
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    size: float
    on: bool


@dataclass(frozen=True)
class Whole:
    name: str
    parts: tuple[Part, ...]
    count: int | None = None
    more: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


GOOD = {"name": "x", "parts": [{"size": 1.5, "on": True}, {"size": 2, "on": False}], "more": {"a": {"b": None, "c": 1}}}


def read(path):
    with reading.guarded(path, "is no whole", "write it again"):
        return reading.typed(Whole, reading.json_file(path))


def told(path) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        read(path)
    line = str(caught.value)
    assert line.startswith(str(path)) and line.endswith("; write it again") and "\n" not in line
    return line


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_one_line_with_its_path_and_a_cure(tmp_path, content):
    (tmp_path / "file.json").write_bytes(content)
    told(tmp_path / "file.json")


def test_a_folder_and_links_to_nothing_and_to_themselves_are_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("folder", "dangling", "loop"):
        assert "cannot be read (" in told(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": 3}, "it.name is a whole number, not text"),
        ({"parts": {}}, "it.parts is an object, not a list"),
        ({"parts": [[]]}, "it.parts[0] is a list, not an object"),
        ({"parts": [{"size": "1", "on": True}]}, "it.parts[0].size is text, not a number"),
        ({"parts": [{"size": True, "on": True}]}, "it.parts[0].size is a truth value, not a number"),
        ({"parts": [{"size": 10**400, "on": True}]}, "it.parts[0].size is 10000000000000000000..., too large a number"),
        ({"parts": [{"size": 1, "on": 1}]}, "it.parts[0].on is a whole number, not a truth value"),
        ({"parts": [{"size": 1}]}, "it.parts[0] has no field 'on'"),
        ({"count": 1.5}, "it.count is a number, not a whole number"),
        ({"more": {"a": {"b": "c"}}}, "it.more['a']['b'] is text, not a number"),
        ({"odd": 1}, "it has a field 'odd' that this privlab does not know"),
    ],
)
def test_content_of_another_type_is_named_with_its_place(tmp_path, change, line):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(GOOD))
    assert read(path) == Whole("x", (Part(1.5, True), Part(2, False)), None, GOOD["more"])
    path.write_text(json.dumps({**GOOD, **change}))
    assert f"({line})" in told(path)
    path.write_text('{"name": "x", "parts": [{"size": 1e999, "on": true}]}')
    assert "it.parts[0].size is inf, no finite number" in told(path)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "parts", "size", "on", "x"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=ANY)
def test_any_json_is_a_whole_or_one_line(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content))
    try:
        assert isinstance(read(path), Whole)
    except ValueError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)


def test_an_object_of_some_fields_keeps_its_others_and_may_lack_those_that_may_be_none():
    fields = {"status": str, "peak": float | None}
    assert reading.typed(fields, {"status": "ok", "more": []}) == {"status": "ok", "more": [], "peak": None}
    with pytest.raises(ValueError, match=r"it has no field 'status'"):
        reading.typed(fields, {"peak": 1})


def test_of_a_strangers_folder_nothing_hidden_is_read(tmp_path):
    hidden = (".ipynb_checkpoints/a.png", "cat/.ipynb_checkpoints/a-checkpoint.png", "__MACOSX/a.png", "cat/._a.png")
    for name in ("dog/a.png", "cat/a.png", *hidden):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    home = tmp_path / ".ipynb_checkpoints"  # where the folder itself lies does not matter
    assert [path.name for path in reading.visible(tmp_path)] == ["cat", "dog"]
    assert reading.visible(tmp_path, "**/*.png") == [tmp_path / "cat/a.png", tmp_path / "dog/a.png"]
    assert reading.visible(home) == [home / "a.png"] and reading.visible(tmp_path / "none") == []
