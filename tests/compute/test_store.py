"""The run store: one key a configuration, complete only when finished, and two processes at one run."""

import json
import multiprocessing

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from weights import same

from privlab import compute
from privlab.compute import store

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
nested = st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8)


@settings(max_examples=20)
@given(st.dictionaries(st.text(), nested, max_size=6), st.text(), st.integers())
def test_a_key_changes_with_every_setting_and_not_with_their_order(config, name, number):
    assert store.key(config) == store.key(dict(reversed(config.items()))) == store.key(json.loads(json.dumps(config)))
    changed = {**config, name: {"another": number}}
    assert (store.key(changed) == store.key(config)) == (changed == config)


def test_a_key_is_the_same_in_every_process_and_version():
    # SHA-256 of {"lr":0.1,"model":"vit","sizes":[1,2]}: a change here orphans every run that people have stored.
    known = "b40e1524c07910b203e36c860fc4f9406e9b49a792f519162d8f212e00eb9879"
    assert store.key({"model": "vit", "lr": np.float64(0.1), "sizes": (1, 2.0)}) == known
    with pytest.raises(ValueError, match="not JSON"):
        store.key({"n": [float("nan")]})


def test_a_computation_is_keyed_by_settings_format_device_and_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(store.metadata, "version", {"torch": "2.15.0+cpu", "timm": "1.0.31"}.__getitem__)
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    run = store.Run("some", {"seed": 0, **store.environment(1, "cuda:1")})
    about = {"format": 1, "device": "cuda", "versions": {"torch": "2.15.0", "timm": "1.0.31"}}
    assert run.config == {"seed": 0, **about} and run.path == tmp_path / "some" / store.key(run.config)[:32]


def test_what_was_saved_is_read_back_by_whoever_has_the_settings(tmp_path):
    config, whole = {"model": "vit", "layers": [1, 2]}, torch.arange(4.0)
    run = compute.Run("victim", config, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"weights.safetensors cannot be read"):
        run.load("weights")
    weights = {"f": whole, "part": whole[1:3], "h": torch.ones(2).half(), "i": torch.tensor(7)}  # two share memory
    run.save("weights", weights)
    run.note("trace", {"acc": [0.5, 0.75], "name": "é"})
    assert not compute.Run("victim", config, tmp_path).complete
    run.finish()
    again = compute.Run("victim", dict(reversed(config.items())), tmp_path)
    assert json.loads((run.path / "complete.json").read_text()) == run.config
    assert again.complete and again.path == run.path and again.names() == ["trace", "weights"]
    again.note("trace", {})  # a complete run never changes
    assert same(again.load("weights"), weights) and again.read("trace") == {"acc": [0.5, 0.75], "name": "é"}
    (run.path / "weights.safetensors").write_bytes((run.path / "weights.safetensors").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"weights.safetensors is corrupt \(.*\); delete its folder and run again"):
        run.load("weights")


def write(root, value):
    for seed in range(25):
        run = store.Run("victim", {"seed": seed}, root)
        for _ in range(3):
            run.save("weights", {"w": torch.full((2000,), value)})
        run.finish()
        assert len(run.load("weights")["w"].unique()) == 1
        assert {p.name for p in run.path.glob("[!.]*")} == {"weights.safetensors", "complete.json"}


def test_two_processes_at_one_run_leave_one_whole_result(tmp_path):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write, args=(tmp_path, who)) for who in (1.0, 2.0)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(300)
    assert [writer.exitcode for writer in writers] == [0, 0]


def test_several_dicts_lie_in_one_file_and_a_digest_counts_bits_type_and_shape():
    parts = {"model": {"layer.0.weight": torch.ones(2)}, "step": {"0.n": torch.tensor(3.0)}}
    assert store.parted(store.joined({**parts, "empty": {}})) == parts
    bits = torch.arange(-8, 8, dtype=torch.int16)
    assert len({store.digest(kind) for kind in (bits, bits.view(torch.bfloat16), bits.view(4, 4))}) == 3
