"""Features read by hooks: what they are, and that nothing of the reading is left in the model."""

import pytest
import torch
from small_training import build
from torch import nn
from weights import same

from privlab.models import representations
from privlab.models.representations import LAST

WIDTHS = {  # of the stages and of the representation; the places that are averaged in a map of the last stage
    "resnet18": ([64, 8, 8, 12, 16, 16], (2, 3)),
    "swin_cifar": ([12, 24, 24], (1, 2)),
    "vit_cifar": ([16] * 5, (1,)),
    "ir152": ([64, 128, 256, 512, 512], (2, 3)),
}
X = torch.randint(0, 256, (5, 3, 32, 32), generator=torch.Generator().manual_seed(0)).byte()


@pytest.mark.parametrize("name", WIDTHS)
def test_a_stage_is_averaged_over_its_places_and_the_head_answers_by_the_last_features(name):
    model, maps, (widths, places) = build(name), [], WIDTHS[name]
    layers = representations.stages(model)
    found = representations.read(model, X, layers)
    assert [*found] == layers and [f.shape[1] for f in found.values()] == widths
    assert all(torch.equal(found[layer], representations.read(model, X, (layer,))[layer]) for layer in layers)
    model.get_submodule(layers[-2]).register_forward_hook(lambda *given: maps.append(given[2]))
    with torch.no_grad():
        answers = model(model.normalise(X.float() / 255))
        torch.testing.assert_close(model.get_submodule(representations.last_linear(model))(found[LAST]), answers)
    torch.testing.assert_close(found[layers[-2]], maps[0].mean(places))


def test_reading_leaves_no_trace():
    model = build().train()
    state = {n: t.clone() for n, t in model.state_dict().items()}
    representations.read(model, X, representations.stages(model))
    with pytest.raises((RuntimeError, ValueError)):
        representations.read(model, X.repeat(1, 2, 1, 1))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(m.training for m in model.modules()) and same(model, state)  # BatchNorm's statistics too


def test_models_and_layers_that_do_not_fit_are_told():
    chain = nn.Sequential(nn.Conv2d(3, 2, 1))
    with pytest.raises(ValueError, match="Sequential has no Linear layer"):
        representations.last_linear(chain)
    with pytest.raises(ValueError, match="Sequential does not say where its stages end"):
        representations.stages(chain)
    chain.feature_info = [{"module": "0"}]
    assert representations.stages(chain) == ["0", LAST]
