"""The run store: one key a configuration, whole files or none, complete only when finished."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from weights import same

from privlab import compute
from privlab.compute import atomic, store
from privlab.data import sources
from privlab.ledger import evidence

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
configs = st.dictionaries(
    st.text(), st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8), max_size=6
)


def tupled(value):
    """The same configuration with its dicts turned round and its lists made tuples."""
    if isinstance(value, dict):
        return {k: tupled(v) for k, v in reversed(value.items())}
    return tuple(tupled(v) for v in value) if isinstance(value, list) else value


@given(configs)
def test_key_does_not_depend_on_the_order_of_keys_or_on_the_kind_of_sequence(config):
    assert store.key(config) == store.key(tupled(config)) == store.key(json.loads(json.dumps(config)))


@given(configs, st.text(), st.integers())
def test_key_changes_with_every_setting(config, name, number):
    changed = {**config, name: {"another": number}}
    assert (store.key(changed) == store.key(config)) == (changed == config)


def test_key_tells_apart_what_differs_and_nothing_else():
    same = [{"lr": 1}, {"lr": 1.0}, {"lr": np.float64(1)}]
    others = [{"lr": True}, {"lr": "1"}, {"lr": [1]}, {"lr": None}, {"lr": 1.0000000000000002}, {"LR": 1}, {}]
    assert len({store.key(c) for c in same}) == 1
    assert len({store.key(c) for c in [same[0], *others]}) == 1 + len(others)
    assert store.key({"zero": -0.0}) == store.key({"zero": 0})


def test_key_is_the_same_in_every_process_and_version():
    # SHA-256 of {"lr":0.1,"model":"vit","sizes":[1,2]}: a change here orphans every run that people have stored.
    assert store.key({"model": "vit", "lr": 0.1, "sizes": (1, 2.0)}) == (
        "b40e1524c07910b203e36c860fc4f9406e9b49a792f519162d8f212e00eb9879"
    )


@pytest.mark.parametrize(
    "config, message",
    [
        ({"data": Path("/tmp/x")}, r"config\['data'\]='/tmp/x' is a path.*give its hash"),
        ({"lr": float("nan")}, r"config\['lr'\]=nan \(float\) has no fixed text form"),
        ({"lr": [0.1, float("inf")]}, r"config\['lr'\]\[1\]=inf"),
        ({"n": {"m": np.int64(3)}}, r"config\['n'\]\['m'\].*\(int64\)"),
        ({"w": torch.zeros(1)}, r"\(Tensor\) has no fixed text form"),
        ({"names": {"a"}}, r"\(set\)"),
        ({1: "one"}, r"config has the key 1; keys must be text"),
        (["model"], r"config=\['model'\] is a list; give a dict"),
    ],
)
def test_key_refuses_what_has_no_one_form(config, message):
    with pytest.raises(ValueError, match=message):
        store.key(config)


def test_a_computation_is_keyed_by_settings_format_device_and_versions(tmp_path, monkeypatch):
    releases = {"torch": "2.15.0", "timm": "1.0.31"}
    monkeypatch.setattr(store.metadata, "version", releases.__getitem__)
    run = store.keyed("some", {"seed": 0}, format=1, device="cuda:1", root=tmp_path)
    assert run.config == {"seed": 0, "format": 1, "device": "cuda", "versions": releases}
    assert run.path == compute.Run("some", run.config, tmp_path).path

    def name(seed=0, format=1, device="cuda"):
        return store.keyed("some", {"seed": seed}, format=format, device=device, root=tmp_path).path.name

    assert name() == name(device=torch.device("cuda", 0)) == run.path.name
    others = [name(seed=1), name(format=2), name(device="cpu")]
    for package in releases:
        with monkeypatch.context() as patch:
            patch.setitem(releases, package, releases[package] + "+cpu")  # the same release, built for another device
            assert name() == run.path.name
            patch.setitem(releases, package, "9.9")
            others.append(name())
    assert len({name(), *others}) == 6


@pytest.mark.parametrize("word", ["format", "device", "versions"])
def test_a_key_says_nothing_twice(tmp_path, word):
    with pytest.raises(ValueError, match=f"settings hold '{word}', which every key has already; leave it out"):
        store.keyed("some", {word: 1}, format=1, root=tmp_path)


def test_keys_are_made_in_one_place():
    """Whoever keeps a computation leaves format, device and versions to the store; a fleet's models stand under the fleet's key."""
    package = Path(store.__file__).parents[1]
    by_hand = {
        str(path.relative_to(package)): re.findall(
            r"(?:(?:compute|store)\.Run|\bRun(?=\(\s*\"))\(\s*\"?(\w+)", path.read_text()
        )
        for path in package.rglob("*.py")
        if path.name != "store.py"
    }
    assert {name: kinds for name, kinds in by_hand.items() if kinds} == {
        "training/shadow_models.py": ["shadow", "fleet"]
    }


def test_a_run_keeps_tensors_and_notes(tmp_path):
    config = {"model": "vit", "seed": 3}
    run = compute.Run("victim", config, tmp_path)
    weights = {
        "w": torch.arange(6.0).reshape(2, 3).T,
        "b": torch.tensor([1.5], dtype=torch.bfloat16),
        "i": torch.tensor(7),
    }
    run.save("weights", weights)
    run.note("trace", {"acc": [0.5, 0.75], "name": "é"})
    run.finish()

    again = compute.Run("victim", dict(reversed(config.items())), tmp_path)
    loaded = again.load("weights")
    assert again.complete and again.path == run.path and again.names() == ["trace", "weights"]
    assert {n: t.dtype for n, t in loaded.items()} == {n: t.dtype for n, t in weights.items()}
    assert same(loaded, weights)
    assert again.read("trace") == {"acc": [0.5, 0.75], "name": "é"}
    assert json.loads((run.path / "config.json").read_text()) == config
    assert not compute.Run("victim", {**config, "seed": 4}, tmp_path).complete
    assert not compute.Run("shadow", config, tmp_path).complete


def test_a_run_is_complete_only_after_finish_and_goes_on_from_what_is_there(tmp_path):
    first = compute.Run("victim", {"seed": 0}, tmp_path)
    first.save("checkpoint", {"step": torch.tensor(10)})
    resumed = compute.Run("victim", {"seed": 0}, tmp_path)  # as a new process would, the old one killed
    assert not resumed.complete and resumed.load("checkpoint")["step"] == 10
    resumed.save("checkpoint", {"step": torch.tensor(20)})
    resumed.finish()
    assert first.complete and first.load("checkpoint")["step"] == 20


def test_a_complete_run_never_changes(tmp_path):
    winner, late = (compute.Run("victim", {"seed": 0}, tmp_path) for _ in range(2))
    winner.note("acc", 0.5)
    winner.finish()
    late.note("acc", 0.6)  # dropped: another process has finished
    late.note("extra", 1)
    late.finish()
    assert late.read("acc") == 0.5 and late.names() == ["acc"]
    with pytest.raises(RuntimeError, match=r"cannot add acc.json after finish\(\).*different config"):
        winner.note("acc", 0.7)


def test_what_is_missing_is_named(tmp_path):
    run = compute.Run("victim", {"seed": 0}, tmp_path)
    run.note("acc", 1)
    with pytest.raises(FileNotFoundError, match=r"holds acc, but no weights.safetensors"):
        run.load("weights")
    with pytest.raises(FileNotFoundError, match=r"but no trace.json"):
        run.read("trace")


@pytest.mark.parametrize("finished", [False, True])
def test_a_corrupt_file_says_what_to_do(tmp_path, finished):
    run = compute.Run("victim", {"seed": 0}, tmp_path)
    run.save("weights", {"w": torch.zeros(100)})
    run.note("acc", {"test": 1})
    if finished:
        run.finish()
    for name in ("weights.safetensors", "acc.json"):
        content = (run.path / name).read_bytes()
        (run.path / name).write_bytes(content[: len(content) // 2])
    advice = re.escape(f"delete the folder {run.path} and run again")
    with pytest.raises(ValueError, match=rf"weights.safetensors is corrupt \(.*\); {advice}"):
        run.load("weights")
    with pytest.raises(ValueError, match=rf"acc.json is corrupt \(.*\); {advice}"):
        run.read("acc")


@pytest.mark.parametrize(
    "content", [b"", b'{"weights', b"[]", b"{}", b"null", b"3", b"NaN", b"\xff\xfe\x00", b"[" * 100_000, b'{"acc.json": []}']
)  # fmt: skip
def test_a_damaged_complete_json_names_its_path_and_the_folder_to_delete(tmp_path, content):
    run = compute.Run("victim", {"seed": 0}, tmp_path)
    run.save("weights", {"w": torch.zeros(3)})
    run.note("acc", {"test": 1})
    run.finish()
    (run.path / "complete.json").write_bytes(content)
    for read in (lambda: run.load("weights"), lambda: run.read("acc")):
        with pytest.raises(
            ValueError, match=rf" is corrupt \(.*\); delete the folder {re.escape(str(run.path))} and run"
        ) as caught:
            read()
        assert str(caught.value).startswith(str(run.path)) and "\n" not in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    run = compute.Run("victim", {"seed": 0}, tmp_path)
    run.save("weights", {"w": torch.zeros(3)})
    run.finish()
    (run.path / "complete.json").unlink()
    (run.path / "complete.json").mkdir()
    with pytest.raises(OSError, match=r"complete.json cannot be read \(Is a directory\); delete the folder"):
        run.load("weights")


def test_a_run_is_read_by_its_folder_alone_and_checked(tmp_path):
    run = compute.Run("victim", {"seed": 0}, tmp_path)
    run.save("weights", {"w": torch.zeros(3)})
    run.finish()
    again = compute.Run.at(str(run.path))
    assert again.complete and torch.equal(again.load("weights")["w"], torch.zeros(3))
    file = run.path / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for one in (run, again):
        with pytest.raises(ValueError, match="is not what the run finished with"):
            one.load("weights")


@pytest.mark.parametrize("name", ["", "../up", "A b", "complete", "config", ".hidden"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    run = compute.Run("victim", {}, tmp_path)
    for call in (lambda: run.save(name, {}), lambda: run.load(name), lambda: run.note(name, 1), lambda: run.read(name)):
        with pytest.raises(ValueError, match=r"name=.* cannot name a file of a run; try"):
            call()


def test_a_kind_is_a_name_and_a_note_is_json(tmp_path):
    with pytest.raises(ValueError, match=r"kind='a/b' cannot name"):
        compute.Run("a/b", {}, tmp_path)
    run = compute.Run("victim", {}, tmp_path)
    for odd in (float("nan"), torch.zeros(2)):
        with pytest.raises(ValueError, match=r"note 'loss' does not fit into JSON.*save tensors with save\(\)"):
            run.note("loss", odd)


def test_the_root_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path / "here"))
    assert store.folder() == tmp_path / "here"
    assert compute.Run("victim", {}).path.parent == tmp_path / "here" / "victim"
    monkeypatch.delenv("PRIVLAB_STORE")
    assert store.folder() == Path.home() / ".cache" / "privlab" / "store"


# -- whole files or none -------------------------------------------------------------------------------------------------


def test_write_atomic_writes_what_it_was_given_with_ordinary_permissions(tmp_path):
    target, plain = tmp_path / "a" / "b" / "file.bin", tmp_path / "plain"
    atomic.write_atomic(target, b"one")
    atomic.write_atomic(str(target), b"two")
    plain.write_bytes(b"")
    assert target.read_bytes() == b"two" and os.listdir(target.parent) == ["file.bin"]
    assert target.stat().st_mode == plain.stat().st_mode  # a shared folder must stay readable for the class


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch, where):
    target = tmp_path / "weights"
    atomic.write_atomic(target, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(
        OSError, match=r"cannot write .*weights \(3,000 bytes\): No space left on device; make room"
    ) as raised:
        atomic.write_atomic(target, b"x" * 3000)
    assert raised.value.errno == errno.ENOSPC
    assert target.read_bytes() == b"old" and os.listdir(tmp_path) == ["weights"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of Unix")
def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write_atomic(pipe, b"content")
    assert os.read(reader, 100) == b"content" and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]
    os.close(reader)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link_and_what_it_points_to_is_written(tmp_path, there):
    link, target = tmp_path / "link", tmp_path / "elsewhere" / "file"
    link.symlink_to(Path("elsewhere") / "file")
    if there:
        atomic.write_atomic(target, b"old")
    atomic.write_atomic(link, b"new")
    assert link.is_symlink() and not target.is_symlink() and target.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "file", "link"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write .*file/run/x \(1 bytes\)"):
        atomic.write_atomic(tmp_path / "file" / "run" / "x", b"1")


def spawn(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    target = tmp_path / "file"
    code = (
        "import sys; from privlab.compute import store\n"
        "for i in range(10**6):\n"
        "    store.write_atomic(sys.argv[1], bytes([i % 256]) * 300_000)\n"
        "    print(i, flush=True)"
    )
    writer = spawn(code, target)
    assert writer.stdout is not None
    writer.stdout.readline()  # the file is there
    time.sleep(0.05)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    content = target.read_bytes()
    assert len(content) == 300_000 and content == content[:1] * 300_000


def test_two_processes_at_one_run_leave_one_consistent_result(tmp_path):
    code = (
        "import sys, torch; from privlab.compute import store\n"
        "who = int(sys.argv[2])\n"
        "for seed in range(25):\n"
        "    run = store.Run('victim', {'seed': seed}, sys.argv[1])\n"
        "    for step in range(3):\n"
        "        run.save('weights', {'w': torch.full((2000,), float(who))})\n"
        "    run.finish()\n"
        "    run.load('weights')"  # raises if the other replaced the file after the hash was taken
    )
    writers = [spawn(code, tmp_path, who) for who in (1, 2)]
    assert [w.wait(timeout=120) for w in writers] == [0, 0]
    for seed in range(25):
        run = compute.Run("victim", {"seed": seed}, tmp_path)
        (value,) = run.load("weights")["w"].unique().tolist()
        assert run.complete and value in (1.0, 2.0)
        assert {p.name for p in run.path.iterdir()} <= {"weights.safetensors", "config.json", "complete.json", ".lock"}


def test_what_a_killed_writer_left_is_swept_up_at_the_end(tmp_path):
    run = compute.Run("victim", {}, tmp_path)
    run.save("weights", {"w": torch.zeros(1)})
    (run.path / ".weights.safetensors.0123456789ab").write_bytes(b"half")
    run.finish()
    assert not list(run.path.glob(".weights*")) and run.names() == ["weights"]


def test_a_complete_run_can_be_read_where_nothing_can_be_written(tmp_path):
    run = compute.Run("victim", {}, tmp_path)
    run.save("weights", {"w": torch.ones(3)})
    run.finish()
    (run.path / ".lock").unlink()
    before = sorted(p.name for p in run.path.iterdir())
    again = compute.Run("victim", {}, tmp_path)
    assert again.complete and again.load("weights")["w"].sum() == 3
    assert sorted(p.name for p in run.path.iterdir()) == before  # reading wrote nothing, not even a lock


def test_tensors_that_share_memory_are_kept_apart(tmp_path):
    whole = torch.arange(4.0)
    run = compute.Run("victim", {"a": 1}, tmp_path)
    run.save("both", {"one": whole, "same": whole, "part": whole[1:3]})
    kept = run.load("both")
    assert kept["same"].tolist() == [0, 1, 2, 3] and kept["part"].tolist() == [1, 2]


def test_several_dicts_and_bytes_lie_in_one_file(tmp_path):
    parts = {
        "model": {"layer.0.weight": torch.ones(2)},
        "optimiser": store.joined({"0": {"step": torch.tensor(3.0)}}),
        "notes": {"json": store.from_bytes(b"{}\x00\xff")},
        "empty": {},
    }
    run = compute.Run("victim", {"a": 2}, tmp_path)
    run.save("checkpoint", store.joined(parts))
    back = store.parted(run.load("checkpoint"))
    assert set(back) == {"model", "optimiser", "notes"} and set(back["model"]) == {"layer.0.weight"}
    assert store.parted(back["optimiser"])["0"]["step"].item() == 3
    assert store.to_bytes(back["notes"]["json"]) == b"{}\x00\xff"


def test_shapes_are_read_from_the_head_of_a_file(tmp_path):
    run = compute.Run("some", {"a": 1}, tmp_path)
    assert run.shapes("checkpoint") == {}
    run.save("checkpoint", {"lr": torch.zeros(7), "w": torch.zeros(2, 3)})
    assert run.shapes("checkpoint") == {"lr": (7,), "w": (2, 3)}
    (run.path / "checkpoint.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"checkpoint.safetensors is corrupt"):
        run.shapes("checkpoint")


def test_formats_that_numpy_lacks_have_digests_too():
    bits = torch.arange(-8, 8, dtype=torch.int16)
    assert compute.store.digest(bits.view(torch.bfloat16)) not in (
        compute.store.digest(bits),
        compute.store.digest(bits.view(torch.float16)),
    )
    assert compute.store.digest(torch.tensor(3.0)) != compute.store.digest(torch.tensor([3.0]))


def test_an_account_without_a_home_is_told_which_variable_helps(monkeypatch, tmp_path):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for an account without an entry
    for variable, folder in (
        ("PRIVLAB_STORE", store.folder),
        ("PRIVLAB_DATA", sources.folder),
        ("PRIVLAB_EVIDENCE", evidence.folder),
    ):
        monkeypatch.setenv(variable, "~/place")
        with pytest.raises(OSError, match=f"~/place is in no home: HOME is not set; set {variable} to the whole path"):
            folder()
        monkeypatch.setenv(variable, str(tmp_path))
        assert folder() == tmp_path
    monkeypatch.setenv("PRIVLAB_STORE", "~nobodyatall/place")
    with pytest.raises(OSError, match="~nobodyatall/place is in no home: there is no such user; set PRIVLAB_STORE"):
        store.folder()
    monkeypatch.delenv("PRIVLAB_STORE")
    with pytest.raises(OSError, match=r"~/.cache/privlab/store is in no home"):
        store.folder()


def test_the_store_may_be_named_from_home_and_pieces_need_no_size(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PRIVLAB_STORE", "~/runs")
    assert store.folder() == tmp_path / "runs"
    (tmp_path / "a").write_text("a file")
    with pytest.raises(OSError, match=r"cannot write .*/a/b: .*; make room or choose another folder"):
        atomic.write_atomic(tmp_path / "a" / "b", iter([b"1", b"2"]))


@pytest.mark.parametrize(("mode", "shared"), [(0o777, 0o022), (0o775, 0o020), (0o755, 0), (0o1777, 0)])
def test_who_may_write_in_a_folder_may_use_what_is_made_in_it(tmp_path, mode, shared):
    tmp_path.chmod(mode)
    before = os.umask(0o022)
    try:
        store.Run("victim", {"lr": 1}, tmp_path).note("trace", [1])
        row = evidence.Repeat(1, "abc", {"psnr[a]": 1.0}, 1.0, 1.0)
        evidence.append("april.architectures", "class", row, tmp_path)
        with sources._alone(tmp_path, "faces"):
            made = [
                path for path in tmp_path.rglob("*") if path.name not in ("config.json", "trace.json")
            ]  # replaced whole
    finally:
        os.umask(before)
    assert len(made) == 8 and {path.stat().st_mode & 0o022 for path in made} == {shared}
