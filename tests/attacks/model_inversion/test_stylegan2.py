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
from safetensors.torch import save
from weights import same

from privlab.attacks.model_inversion import stylegan2
from privlab.data import sources

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
    return folder


def drawn():
    draw = torch.Generator().manual_seed(0)
    shapes = {"layers.weight": (5, 6), "layers.bias": (5,), "pixels": (5, 3, 16, 16), "w_avg": (5,)}
    return {name: torch.randn(shape, generator=draw) / 2 for name, shape in shapes.items()}


# -- a pickle as the authors write them --------------------------------------------------------------------------------

META = {"type": "class", "version": 6, "module_src": "raise SystemExit('the source was run')"}


@pytest.fixture
def authors(monkeypatch):
    """Modules of the authors' names, so that a pickle can name them; nothing of privlab sees them."""

    def _reconstruct_persistent_obj(meta):
        raise AssertionError("the checkout's own function was called")

    class EasyDict(dict):
        pass

    class Persistent:
        def __init__(self, kind, state):
            self.meta = META | {"class_name": kind, "state": EasyDict(state)}

        def __reduce__(self):
            return _reconstruct_persistent_obj, (self.meta,), None

    for name, known in {"torch_utils.persistence": _reconstruct_persistent_obj, "dnnlib.util": EasyDict}.items():
        module = types.ModuleType(name)
        setattr(module, known.__name__, known)
        known.__module__, known.__qualname__ = name, known.__name__
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, name.split(".")[0], types.ModuleType(name.split(".")[0]))
    return types.SimpleNamespace(EasyDict=EasyDict, Persistent=Persistent)


def module_state(parameters=(), buffers=(), modules=(), **more):
    return {
        "training": False,
        "_parameters": OrderedDict((name, torch.nn.Parameter(tensor, False)) for name, tensor in parameters),
        "_buffers": OrderedDict(buffers),
        "_non_persistent_buffers_set": {"passing"},
        "_backward_hooks": OrderedDict(),
        "_modules": OrderedDict(modules),
        **more,
    }


@pytest.fixture
def network(authors):
    """What the authors' training loop writes, with the stand-in's tensors."""
    tensors = drawn()
    layers = module_state(
        [("weight", tensors["layers.weight"]), ("bias", tensors["layers.bias"])], weight_gain=np.sqrt(np.float64(2))
    )
    state = module_state(
        [("pixels", tensors["pixels"].to(memory_format=torch.channels_last))],
        [("w_avg", tensors["w_avg"]), ("passing", torch.zeros(3)), ("absent", None)],
        [("layers", authors.Persistent("FullyConnectedLayer", layers)), ("nothing", None)],
        _init_args=(),
        _init_kwargs=authors.EasyDict(SETTINGS, synthesis_kwargs=authors.EasyDict(num_fp16_res=4)),
    )
    made = authors.Persistent("Generator", state)
    return {"G": None, "D": None, "G_ema": made, "training_set_kwargs": authors.EasyDict(path="x.zip")}


@pytest.fixture(params=[3, 4])
def pickled(network, tmp_path, request):
    path = tmp_path / "ffhq.pkl"
    path.write_bytes(pickle.dumps(network, protocol=request.param))
    return path


@pytest.fixture
def weights(tmp_path):
    sources.write(tmp_path / "tiny.safetensors", save(drawn()))
    sources.write(tmp_path / "tiny.json", json.dumps(SETTINGS).encode())
    return tmp_path / "tiny.safetensors"


def test_a_pickle_becomes_tensors_and_settings(pickled, checkout, tmp_path):
    place = stylegan2.convert(pickled, tmp_path / "out")
    assert place == tmp_path / "out/ffhq.safetensors"
    assert json.loads((tmp_path / "out/ffhq.json").read_text()) == SETTINGS | {"synthesis_kwargs": {"num_fp16_res": 4}}
    made = stylegan2.StyleGAN2(checkout, place)
    state = made.network.state_dict()
    assert same(state, drawn())


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_a_converted_network_that_has_changed_is_noticed(pickled, checkout, tmp_path, suffix):
    place = stylegan2.convert(pickled, tmp_path / "out")
    path = place.with_suffix(suffix)
    good = path.read_bytes()
    path.write_bytes(good[:-12] + bytes([good[-12] ^ 1]) + good[-11:])
    with pytest.raises(ValueError, match=f"{path} cannot be read .it has changed.* convert the network again"):
        stylegan2.StyleGAN2(checkout, place)


class Asks:
    """A pickle that calls something when it is read."""

    def __init__(self, function, *given):
        self.call = function, given

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("function", "given", "named"),
    [
        (os.system, "touch {}", "(posix|nt).system"),
        (eval, "open('{}', 'w')", "builtins.eval"),
        (getattr, "{}", "builtins.getattr"),  # touches nothing, as the next: only the refusal is checked
        (torch.load, "{}", "torch.serialization.load"),
    ],
)
@pytest.mark.parametrize("where", ["top", "inside"])
def test_a_pickle_that_asks_for_more_is_refused_by_name(network, tmp_path, function, given, named, where):
    touched = tmp_path / "touched"
    trap = Asks(function, given.format(touched))
    held = trap if where == "top" else network | {"G": trap}
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(held))
    with pytest.raises(
        ValueError, match=f"bad.pkl' is no StyleGAN2 network of .*it asks for {named}, which .*; refused"
    ):
        stylegan2.convert(tmp_path / "bad.pkl")
    assert not touched.exists() and not (tmp_path / "bad.safetensors").exists()


def test_a_name_with_dots_does_not_reach_through_what_is_known(tmp_path):
    """Protocol 4 looks "a.b" up inside what it found; here only whole names are known."""
    asked = b"OrderedDict.fromkeys"
    raw = b"\x80\x04" + b"\x8c\x0bcollections" + b"\x8c" + bytes([len(asked)]) + asked + b"\x93."
    (tmp_path / "bad.pkl").write_bytes(raw)
    with pytest.raises(ValueError, match="asks for collections.OrderedDict.fromkeys, which"):
        stylegan2.convert(tmp_path / "bad.pkl")


def test_a_storage_with_a_trap_inside_is_refused(tmp_path):
    """A tensor's bytes are a file of torch's in themselves, and are read with weights_only."""
    touched = tmp_path / "touched"
    inner = io.BytesIO()
    torch.save(Asks(exec, f"open({str(touched)!r}, 'w')"), inner, _use_new_zipfile_serialization=False)
    held = pickle.dumps(Asks(torch.storage._load_from_bytes, inner.getvalue()))
    (tmp_path / "bad.pkl").write_bytes(held)
    with pytest.raises(ValueError, match="(?s)bad.pkl' is no StyleGAN2 network of .*exec"):
        stylegan2.convert(tmp_path / "bad.pkl")
    assert not touched.exists()


def test_what_is_no_network_is_told(network, authors, tmp_path):
    path = tmp_path / "other.pkl"
    with pytest.raises(FileNotFoundError, match="other.pkl' is no file"):
        stylegan2.convert(path)
    discriminator = authors.Persistent("Discriminator", network["G_ema"].meta["state"])
    positional = authors.Persistent("Generator", network["G_ema"].meta["state"] | {"_init_args": (512,)})
    held = [1, 2], {"G_ema": None}, {"G": network["G_ema"]}, {"G_ema": discriminator}, {"G_ema": positional}
    for content in (b"<html>404</html>", *map(pickle.dumps, held)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="other.pkl' is no StyleGAN2 network"):
            stylegan2.convert(path)


def test_the_script_converts_or_says_what_is_wrong(pickled, tmp_path, monkeypatch, capsys):
    script = Path(__file__).parents[3] / "data_scripts/stylegan.py"

    def run(path):
        monkeypatch.setattr(sys, "argv", list(map(str, [script, path, "--to", tmp_path / "out"])))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        return ended.value.code, *capsys.readouterr()

    assert run(pickled) == (0, f"{tmp_path / 'out/ffhq.safetensors'}\n", "")
    code, out, err = run(tmp_path / "nowhere.pkl")
    assert code == 1 and out == "" and "nowhere.pkl' is no file" in err


# -- the generator -----------------------------------------------------------------------------------------------------


def test_styles_and_images_are_those_of_the_network(checkout, weights):
    """By the stand-in's definition: the styles pulled half-way to their mean, the images from [-1, 1] to [0, 1]."""
    made, known = stylegan2.StyleGAN2(checkout, weights, psi=0.5, clip=False), drawn()
    z = made.sample(3, 0)
    assert made.width == 6 and made.shape == (3, 16, 16) and "6 -> 3x16x16" in repr(made)
    assert torch.equal(z, made.sample(3, 0)) and not torch.equal(z, made.sample(3, 1))
    w = 0.5 * known["w_avg"] + 0.5 * 2 * (z @ known["layers.weight"].T + known["layers.bias"]).tanh()
    torch.testing.assert_close(made.map(z), w)
    expected = (torch.einsum("nw,wchv->nchv", w, known["pixels"]) + 1) / 2
    torch.testing.assert_close(made.synthesise(made.map(z)), expected)
    assert expected.min() < 0 and expected.max() > 1 and made.network.asked == [("const", True)]
    torch.testing.assert_close(stylegan2.StyleGAN2(checkout, weights).synthesise(w), expected.clamp(0, 1))
    torch.testing.assert_close(stylegan2.StyleGAN2(checkout, weights, psi=0.0).map(z), known["w_avg"].expand(3, -1))


def test_the_middle_is_cut_out_and_resized_as_torchvision_does(checkout, weights):
    whole = stylegan2.StyleGAN2(checkout, weights, clip=False)
    w = whole.map(whole.sample(2, 0))
    for crop, resize in ((12, 8), (12, None), (None, 8), (10, 20)):
        made = stylegan2.StyleGAN2(checkout, weights, crop=crop, resize=resize, clip=False)
        expected = whole.synthesise(w)
        expected = TF.center_crop(expected, [crop, crop]) if crop else expected
        expected = TF.resize(expected, [resize, resize], antialias=True) if resize else expected
        assert made.shape == expected.shape[1:]
        torch.testing.assert_close(made.synthesise(w), expected)


def test_two_checkouts_do_not_mix_and_nothing_is_left_behind(checkout, weights, tmp_path, monkeypatch):
    mine = types.ModuleType("training")
    monkeypatch.setitem(sys.modules, "training", mine)
    first = stylegan2.StyleGAN2(checkout, weights, psi=1.0)
    second = tmp_path / "second"
    checkout.rename(second)
    (second / "torch_utils/here.py").write_text("GAIN = -3.0  # another length, so that no stale bytecode fits\n")
    path, state = list(sys.path), torch.random.get_rng_state()
    other = stylegan2.StyleGAN2(second, weights, psi=1.0)
    z = first.sample(2, 0)
    torch.testing.assert_close(other.map(z) / first.map(z), torch.full((2, 5), -1.5))
    assert sys.modules["training"] is mine and sys.path == path
    assert not {"torch_utils", "torch_utils.here", "training.networks"} & sys.modules.keys()
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_checkout_that_is_none_is_told(checkout, weights, tmp_path):
    with pytest.raises(FileNotFoundError, match="lacks training/networks.py; give the folder of git clone"):
        stylegan2.StyleGAN2(tmp_path, weights)
    (checkout / "torch_utils/here.py").unlink()
    with pytest.raises(ValueError, match="its training/networks.py has no Generator .*torch_utils.here"):
        stylegan2.StyleGAN2(checkout, weights)
    (checkout / "training/networks.py").write_text("class Generator:\n    def __init__(self): ...\n")
    with pytest.raises(ValueError, match="has no Generator that takes these settings"):
        stylegan2.StyleGAN2(checkout, weights)


def test_weights_that_are_not_there_or_do_not_fit_are_told(checkout, weights, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no ffhq.safetensors and no ffhq.json in .*stylegan.py ffhq.pkl --to"):
        stylegan2.StyleGAN2(checkout, tmp_path / "ffhq.safetensors")
    for content, says in (
        (json.dumps(SETTINGS | {"w_dim": 7}), "(?s)do not fit the checkout's Generator: .*size mismatch"),
        (json.dumps(SETTINGS | {"c_dim": 10}), "this network draws 10 classes; take one without"),
        ("no JSON", "cannot be read"),
    ):
        sources.write(weights.with_suffix(".json"), content.encode())
        with pytest.raises(ValueError, match=says):
            stylegan2.StyleGAN2(checkout, weights)
    pickled = weights.rename(tmp_path / "tiny.pkl")
    with pytest.raises(
        ValueError, match="is no .safetensors file; python data_scripts/stylegan.py makes one of a .pkl"
    ):
        stylegan2.StyleGAN2(checkout, pickled)


def test_a_crop_that_does_not_fit_is_told(checkout, weights):
    for given, says in ((dict(crop=17), "crop=17: the images have 16 pixels a side; give 1 to 16"),):
        with pytest.raises(ValueError, match=says):
            stylegan2.StyleGAN2(checkout, weights, **given)
