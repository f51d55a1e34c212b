"""StyleGAN2 from a checkout: a stand-in of a few lines with the authors' interface, and pickles laid out as theirs, by hand."""

import io
import json
import os
import pickle
import runpy
import sys
import types
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as TF
from safetensors.torch import save_file
from weights import same

from privlab.attacks.model_inversion import stylegan2

NETWORKS = '''
import torch
from torch_utils.here import GAIN

class Generator(torch.nn.Module):
    """Styles are tanh(A z), images a fixed map of the mean over layers plus noise."""
    def __init__(self, z_dim, c_dim, w_dim, img_resolution, img_channels, synthesis_kwargs={}):
        super().__init__()
        self.z_dim, self.w_dim, self.img_resolution, self.num_ws = z_dim, w_dim, img_resolution, 4
        self.layers = torch.nn.Linear(z_dim, w_dim)
        self.pixels = torch.nn.Parameter(torch.randn(w_dim, img_channels, img_resolution, img_resolution))
        self.register_buffer("w_avg", torch.zeros(w_dim))
        self.asked = []

    def mapping(self, z, c, truncation_psi=1):
        assert c is None
        w = self.w_avg.lerp(self.layers(z).tanh() * GAIN, truncation_psi)
        return w[:, None].repeat(1, self.num_ws, 1)

    def synthesis(self, ws, noise_mode="random", force_fp32=False):
        assert ws.shape[1:] == (self.num_ws, self.w_dim) and not self.training
        self.asked.append((noise_mode, force_fp32))
        return torch.einsum("nw,wchv->nchv", ws.mean(1), self.pixels)
'''
SETTINGS = {"z_dim": 6, "c_dim": 0, "w_dim": 5, "img_resolution": 16, "img_channels": 3}


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "stylegan2-ada-pytorch"
    for name, text in {"training/networks.py": NETWORKS, "torch_utils/here.py": "GAIN = 2.0\n"}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
        (folder / name).with_name("__init__.py").write_text("")
    before = dict(sys.modules)
    yield folder
    for name in sys.modules.keys() - before.keys():
        if name.split(".")[0] in ("training", "torch_utils"):
            del sys.modules[name]


def drawn():
    draw = torch.Generator().manual_seed(0)
    shapes = {"layers.weight": (5, 6), "layers.bias": (5,), "pixels": (5, 3, 16, 16), "w_avg": (5,)}
    return {name: torch.randn(shape, generator=draw) / 2 for name, shape in shapes.items()}


@pytest.fixture
def network(monkeypatch):
    """What the authors' training loop writes, with the stand-in's tensors: a pickle that names what is in modules of theirs."""

    def _reconstruct_persistent_obj(meta):
        raise AssertionError("the checkout's own function was called")

    class EasyDict(dict):
        pass

    class Persistent:
        def __init__(self, parameters, buffers=(), modules=(), **more):
            learnt = {name: torch.nn.Parameter(tensor, False) for name, tensor in parameters.items()}
            more |= dict(_parameters=OrderedDict(learnt), _buffers=OrderedDict(buffers), _modules=OrderedDict(modules))
            state = EasyDict(training=False, _non_persistent_buffers_set={"passing"}, **more)
            self.meta = {"type": "class", "module_src": "raise SystemExit('the source was run')", "state": state}

        def __reduce__(self):
            return _reconstruct_persistent_obj, (self.meta,), None

    for name, known in {"torch_utils.persistence": _reconstruct_persistent_obj, "dnnlib.util": EasyDict}.items():
        module = types.ModuleType(name)
        setattr(module, known.__name__, known)
        known.__module__, known.__qualname__ = name, known.__name__
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, name.split(".")[0], types.ModuleType(name.split(".")[0]))
    known = drawn()
    layers = {"weight": known["layers.weight"], "bias": known["layers.bias"]}
    made = Persistent(
        {"pixels": known["pixels"].to(memory_format=torch.channels_last)},
        {"w_avg": known["w_avg"], "passing": torch.zeros(3), "absent": None},
        {"layers": Persistent(layers, weight_gain=np.sqrt(np.float64(2))), "nothing": None},
        _init_kwargs=EasyDict(SETTINGS, synthesis_kwargs=EasyDict(num_fp16_res=4)),
    )
    return {"G": None, "D": None, "G_ema": made, "training_set_kwargs": EasyDict(path="x.zip")}


def test_the_script_makes_tensors_and_settings_of_a_pickle(network, tmp_path, monkeypatch, capsys, request):
    (tmp_path / "ffhq.pkl").write_bytes(pickle.dumps(network))
    script = Path(__file__).parents[3] / "data_scripts/stylegan.py"

    def run(path):
        monkeypatch.setattr(sys, "argv", list(map(str, [script, path, "--to", tmp_path / "out"])))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        return ended.value.code, *capsys.readouterr()

    place = tmp_path / "out/ffhq.safetensors"
    assert run(tmp_path / "ffhq.pkl") == (0, f"{place}\n", "")
    code, out, err = run(tmp_path / "nowhere.pkl")
    assert code == 1 and out == "" and "nowhere.pkl" in err
    assert json.loads(place.with_suffix(".json").read_text()) == SETTINGS | {"synthesis_kwargs": {"num_fp16_res": 4}}
    monkeypatch.undo()  # the authors' modules
    made = stylegan2.StyleGAN2(request.getfixturevalue("checkout"), place, crop=16, resize=16)
    assert same(made.network, drawn())


class Asks:
    """A pickle that calls something when it is read."""

    def __init__(self, function, *given):
        self.call = function, given

    def __reduce__(self):
        return self.call


def trapped(touched):
    """A tensor's bytes, a file of torch's in themselves, that call something when they are read without weights_only."""
    inner = io.BytesIO()
    torch.save(Asks(exec, f"open({str(touched)!r}, 'w')"), inner, _use_new_zipfile_serialization=False)
    return pickle.dumps(Asks(torch.storage._load_from_bytes, inner.getvalue()))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (lambda touched: pickle.dumps({"G": Asks(os.system, f"touch {touched}")}), "asks for (posix|nt).system, .*refused"),
        (lambda touched: pickle.dumps({"G": Asks(eval, f"open({str(touched)!r}, 'w')")}), "asks for builtins.eval, .*refused"),
        (lambda touched: pickle.dumps({"G": Asks(torch.load, str(touched))}), "asks for torch.serialization.load, .*refused"),
        # protocol 4 looks "a.b" up inside what it found; here only whole names are known
        (lambda _: b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.", "asks for collections.OrderedDict.fromkeys, "),
        (trapped, "exec"),
        *((lambda _, other=other: other, "") for other in (b"<html>404</html>", *map(pickle.dumps, ([1, 2], {"G_ema": None})))),
    ],
)  # fmt: skip
def test_what_is_no_network_and_a_pickle_that_asks_for_more_are_refused_by_name(tmp_path, content, named):
    touched = tmp_path / "touched"
    (tmp_path / "bad.pkl").write_bytes(content(touched))
    with pytest.raises(ValueError, match=f"(?s)bad.pkl' holds no StyleGAN2 generator.*{named}"):
        stylegan2.convert(tmp_path / "bad.pkl")
    assert not touched.exists() and not (tmp_path / "bad.safetensors").exists()


def test_styles_and_images_are_those_of_the_network(checkout, tmp_path):
    """By the stand-in's definition: styles pulled half-way to their mean, images from [-1, 1] to [0, 1], cut out and resized."""
    path, state, known = list(sys.path), torch.random.get_rng_state(), drawn()
    save_file(known, tmp_path / "tiny.safetensors")
    (tmp_path / "tiny.json").write_text(json.dumps(SETTINGS))
    made = stylegan2.StyleGAN2(checkout, tmp_path / "tiny.safetensors", crop=12, resize=8)
    assert sys.path == path and torch.equal(state, torch.random.get_rng_state())
    z = made.sample(3, 0)
    assert made.width == 6 and made.shape == (3, 8, 8) and "crop=12, resize=8" in repr(made)
    w = 0.5 * known["w_avg"] + 0.5 * 2 * (z @ known["layers.weight"].T + known["layers.bias"]).tanh()
    torch.testing.assert_close(made.map(z), w)
    whole = (torch.einsum("nw,wchv->nchv", w, known["pixels"]) + 1) / 2
    assert whole.min() < 0 and whole.max() > 1
    expected = TF.resize(TF.center_crop(whole, [12, 12]), [8, 8], antialias=True)
    torch.testing.assert_close(made.synthesise(made.map(z)), expected)
    assert made.network.asked == [("const", True)]
