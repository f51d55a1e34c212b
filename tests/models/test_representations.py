"""Features read by hooks: what they are, and that nothing of the reading is left in the model."""

import pytest
import torch
from torch import nn
from weights import same

from privlab import models
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


@pytest.mark.parametrize(
    ("name", "widths"),
    [("swin_cifar", [16, 32, 64, 64]), ("vit_cifar", [32, 32, 32]), ("resnet_cifar", [64, 32, 32, 64, 64, 64])],
)
def test_a_stage_is_averaged_over_its_places_to_one_number_a_channel(name, widths):
    model, x, maps = models.build(name, 4, **SMALL[name]), images(), []
    found = representations.read(model, x, representations.stages(model))
    assert [f.shape[1] for f in found.values()] == widths
    layer = list(found)[-2]
    model.get_submodule(layer).register_forward_hook(lambda *given: maps.append(given[2]))
    model(model.normalise(x.float() / 255))
    places = {"swin_cifar": (1, 2), "vit_cifar": (1,), "resnet_cifar": (2, 3)}[name]
    torch.testing.assert_close(found[layer], maps[0].detach().mean(places))


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_reading_leaves_no_trace(model):
    model.train()
    state = {n: t.clone() for n, t in model.state_dict().items()}
    representations.read(model, images(), representations.stages(model))
    assert hooks_of(model) == 0 and all(m.training for m in model.modules())
    assert same(model, state)  # BatchNorm's statistics too
    with pytest.raises((RuntimeError, ValueError)):
        representations.read(model, images(channels=5))
    assert hooks_of(model) == 0


# -- bad input -------------------------------------------------------------------------------------------------------------


def test_a_layer_that_does_not_exist_is_told_with_the_nearest():
    model = models.build("vit_cifar", 4, **SMALL["vit_cifar"])
    with pytest.raises(ValueError, match=r"'bloks.1' is no layer.*did you mean 'blocks.1'"):
        representations.read(model, images(), ("bloks.1",))


def test_a_model_without_a_linear_layer_is_told():
    with pytest.raises(ValueError, match="Sequential has no Linear layer"):
        representations.last_linear(nn.Sequential(nn.Conv2d(3, 2, 1)))


def test_a_model_without_stages_is_told():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r'set model.feature_info to .*such as \[{"module": "layer1"}\]'):
        representations.stages(model)
    model.feature_info = [{"module": "0"}]
    assert representations.stages(model) == ["0", LAST]


def test_images_outside_their_range_are_told():
    with pytest.raises(ValueError, match="bytes"):
        representations.read(models.build("vit_cifar", 4, **SMALL["vit_cifar"]), torch.full((1, 3, 32, 32), 7.0))
