"""Features read by hooks: what they are, and that nothing of the reading is left in the model."""

import gc
import weakref

import pytest
import torch
from torch import nn
from weights import same

from privlab import models
from privlab.data import Normalise
from privlab.models import representations
from privlab.models.representations import LAST

SMALL = {
    "resnet_cifar": dict(channels=(8, 8, 16, 16), stem="imagenet"),
    "swin_cifar": dict(embed_dim=16, depths=(1, 1, 1), num_heads=(1, 2, 4), window_size=4),
    "vit_cifar": dict(embed_dim=32, num_heads=2, depth=2),
    "convnext_cifar": dict(dims=(8, 16, 24, 32), depths=(1, 1, 1, 1)),
}


def images(n=5, channels=3, side=32, seed=0):
    return torch.randint(0, 256, (n, channels, side, side), generator=torch.Generator().manual_seed(seed)).byte()


@pytest.fixture(params=SMALL)
def model(request):
    return models.build(request.param, 4, **SMALL[request.param])


def test_the_last_features_are_what_the_head_makes_its_answer_of(model):
    x = images()
    features = representations.read(model, x)[LAST]
    head = model.get_submodule(representations.last_linear(model))
    with torch.no_grad():
        torch.testing.assert_close(head(features), model(model.normalise(x.float() / 255)))


def test_all_layers_from_one_pass_are_those_of_a_pass_each(model):
    x, layers = images(), representations.stages(model)
    together = representations.read(model, x, layers)
    assert list(together) == layers
    for layer in layers:
        assert torch.equal(together[layer], representations.read(model, x, (layer,))[layer])
        assert together[layer].shape[0] == len(x) and together[layer].dtype == torch.float32


def test_batches_make_no_difference_but_rounding(model):
    x = images(7)
    one, other = (representations.read(model, x, batch_size=size)[LAST] for size in (7, 2))
    torch.testing.assert_close(one, other)


def test_bytes_and_floats_are_the_same_images(model):
    x = images()
    one, other = (representations.read(model, x)[LAST], representations.read(model, x.float() / 255)[LAST])
    torch.testing.assert_close(one, other)


def test_a_map_is_averaged_over_its_places_wherever_its_channels_stand():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv2d(3, 4, 1), nn.LayerNorm(4), nn.Linear(4, 2)
            self.normalise = Normalise()

        def forward(self, x):
            x = self.norm(self.conv(x).permute(0, 2, 3, 1))  # (n, height, width, channels)
            return self.head(x.flatten(1, 2).mean(1))

    model, x = Both(), images(3, side=6)
    found = representations.read(model, x, ("conv", "norm", LAST))
    with torch.no_grad():
        maps = model.conv(x.float() / 255)
    torch.testing.assert_close(found["conv"], maps.mean((2, 3)))
    torch.testing.assert_close(found["norm"], found[LAST])
    assert found["norm"].shape == (3, 4)


def test_the_stages_of_a_swin_have_the_widths_of_its_channels_not_of_its_places():
    model = models.build("swin_cifar", 4, **SMALL["swin_cifar"])
    found = representations.read(model, images(), representations.stages(model))
    assert [f.shape[1] for f in found.values()] == [16, 32, 64, 64]


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules())


def test_hooks_leave_no_trace(model):
    """By the identity of the forward, by the hooks that are left, and by the memory that they could hold."""
    x = images()
    unit = model.normalise(x.float() / 255)
    model.train()
    modes = [m.training for m in model.modules()]
    state = {n: t.clone() for n, t in model.state_dict().items()}
    own = model.forward.__func__ if hasattr(model.forward, "__func__") else model.forward
    before = model.eval()(unit)
    model.train()
    features = representations.read(model, x, representations.stages(model))
    assert hooks_of(model) == 0
    assert [m.training for m in model.modules()] == modes
    assert same(model, state)  # BatchNorm's statistics too
    assert (model.forward.__func__ if hasattr(model.forward, "__func__") else model.forward) is own
    assert torch.equal(model.eval()(unit), before)
    held = [weakref.ref(f) for f in features.values()]
    del features
    gc.collect()
    assert not any(ref() is not None for ref in held)


def test_reading_again_and_again_takes_no_more_memory(model):
    x = images()

    def alive():
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    representations.read(model, x, representations.stages(model))
    before = alive()
    for _ in range(3):
        representations.read(model, x, representations.stages(model))
    assert alive() == before


def test_hooks_come_off_where_the_pass_fails(model):
    with pytest.raises(Exception):  # noqa: B017 - whatever the model says of five channels
        representations.read(model, images(channels=5))
    assert hooks_of(model) == 0


# -- bad input -------------------------------------------------------------------------------------------------------------


def test_a_layer_that_does_not_exist_is_told_with_the_nearest():
    model = models.build("vit_cifar", 4, **SMALL["vit_cifar"])
    with pytest.raises(ValueError, match=r"'bloks.1' is no layer.*did you mean 'blocks.1'"):
        representations.read(model, images(), ("bloks.1",))


def test_a_layer_that_gives_several_tensors_is_named():
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.two, self.head, self.normalise = Two(), nn.Linear(3, 2), Normalise()

        def forward(self, x):
            return self.head(self.two(x)[0].mean((2, 3)))

    with pytest.raises(ValueError, match="'two' gives a tuple"):
        representations.read(Model(), images(), ("two",))


def test_a_layer_that_runs_twice_or_never_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.never, self.head, self.normalise = nn.ReLU(), nn.ReLU(), nn.Linear(3, 2), Normalise()

        def forward(self, x):
            return self.head(self.act(self.act(x.mean((2, 3)))))

    with pytest.raises(ValueError, match="'act' ran 2 times"):
        representations.read(Model(), images(), ("act",))
    with pytest.raises(ValueError, match="'never' ran 0 times"):
        representations.read(Model(), images(), ("never",))


def test_a_model_without_a_linear_layer_is_told():
    with pytest.raises(ValueError, match="Sequential has no Linear layer"):
        representations.last_linear(nn.Sequential(nn.Conv2d(3, 2, 1)))


def test_a_model_without_stages_is_told():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r'set model.feature_info to .*such as \[{"module": "layer1"}\]'):
        representations.stages(model)
    model.feature_info = [{"module": "0"}]
    assert representations.stages(model) == ["0", LAST]


@pytest.mark.parametrize(
    "pixels, words",
    [(torch.zeros(3, 8, 8), "give"), (torch.full((1, 3, 32, 32), 7.0), "bytes"), (images(1)[:0], "one image")],
)
def test_images_of_another_shape_or_range_are_told(pixels, words):
    with pytest.raises(ValueError, match=words):
        representations.read(models.build("vit_cifar", 4, **SMALL["vit_cifar"]), pixels)


def test_norms_of_maps_have_their_channels_first_and_windows_of_maxvit_last():
    image = torch.rand(2, 3, 32, 32)
    convnext = models.build("convnext_cifar")
    (norm,) = representations.read(convnext, image, ["stem.1"]).values()
    outputs = []
    handle = convnext.stem[1].register_forward_hook(lambda *given: outputs.append(given[2]))
    convnext(convnext.normalise(image))
    handle.remove()
    torch.testing.assert_close(norm, outputs[0].mean((2, 3)).detach())
    maxvit = models.build(
        "maxvit_tiny_tf_224", img_size=64, embed_dim=(32, 32, 64, 64), depths=(1, 1, 1, 2), stem_width=16, num_classes=5
    )
    image = torch.rand(2, 3, 64, 64)
    name, part = next((n, m) for n, m in maxvit.named_modules() if type(m).__name__ == "PartitionAttentionCl")
    width = part.norm1.weight.numel()
    for layer in (name, f"{name}.norm1", f"{name}.mlp"):
        assert representations.read(maxvit, image, [layer])[layer].shape == (2, width), layer


@pytest.mark.parametrize(("use_grn", "conv_mlp"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_mlp_of_a_convnext_has_its_channels_last_unless_it_is_of_convolutions(use_grn, conv_mlp):
    model = models.build("convnext_cifar", 4, **SMALL["convnext_cifar"], use_grn=use_grn, conv_mlp=conv_mlp)
    block, x = model.stages[0].blocks[0], torch.rand(2, 3, 32, 32)
    outputs = []
    handles = [
        each.register_forward_hook(lambda *given: outputs.append(given[2])) for each in (block.mlp.act, block.mlp)
    ]
    model(model.normalise(x))
    for handle in handles:
        handle.remove()
    layers = [f"stages.0.blocks.0.mlp{part}" for part in (".act", "")]
    for feature, output in zip(representations.read(model, x, layers).values(), outputs, strict=True):
        torch.testing.assert_close(feature, output.detach().mean((2, 3) if conv_mlp else (1, 2)))
    assert feature.shape == (2, 8)


def test_a_layer_on_windows_is_told_unless_one_window_is_the_image():
    swin, layer = models.build("swin_cifar", 4, **SMALL["swin_cifar"]), "layers.{}.blocks.0.attn"
    with pytest.raises(
        ValueError, match=r"'layers.0.blocks.0.attn' gives 20 rows for 5 images, .* name a layer around"
    ):
        representations.read(swin, images(), [layer.format(0)])
    assert representations.read(swin, images(), [layer.format(1)])[layer.format(1)].shape == (5, 32)
    assert representations.read(swin, images(), ["layers.0.blocks.0"])["layers.0.blocks.0"].shape == (5, 16)
    assert hooks_of(swin) == 0
