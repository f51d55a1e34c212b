"""Lab 04's experiments: what is compared is of one photograph and one draw of weights, and repeats have nothing in common."""

import pytest
import torch

from privlab.course.lab_04 import experiments as lab
from privlab.experiments import reconstruction


@pytest.fixture
def searches(monkeypatch):
    """Instead of a search, what it was asked to do."""
    asked = []

    class Answer:
        def __init__(self, leak):
            self.images, self.labels, self.score, self.snapshots = (
                torch.rand(1, *leak.image_shape),
                leak.labels,
                1.0,
                [self],
            )

    def search(attack, model, leak, seed, snapshots=(), restarts=1):
        asked.append((type(model).__name__, model, leak, seed, attack))
        return Answer(leak)

    monkeypatch.setattr(reconstruction, "search", search)
    return asked


def test_architectures_are_attacked_on_one_photograph_from_one_noise(searches):
    values = dict(lab.architectures(3, "smoke"))
    assert [name for name, *_ in searches] == ["ResNet", "SwinTransformer", "VisionTransformer", "ConvNeXt"]
    assert {seed for *_, seed, _ in searches} == {2_003}
    assert values["picture[photograph_and_reconstructions]"].shape == (32, 5 * 32, 3)
    _, label = reconstruction.photograph(3)
    for _, model, leak, *_ in searches:
        assert leak.labels.equal(label) and not model.training
        assert leak.grads.keys() == {name for name, _ in model.named_parameters()}
        again = lab.sent(model, 3)
        assert all(again.grads[name].equal(g) for name, g in leak.grads.items())


def test_another_repeat_has_other_weights_and_another_photograph(searches):
    for repeat in (0, 1):
        dict(lab.architectures(repeat, "smoke"))
    first, second = searches[1], searches[5]
    assert first[3] != second[3]
    assert not first[1].head.fc.weight.equal(second[1].head.fc.weight)
    assert not torch.equal(reconstruction.photograph(0)[0], reconstruction.photograph(1)[0])


def test_a_vit_differs_in_the_scale_of_its_position_embedding_alone(searches):
    dict(lab.position_scale(0, "smoke"))
    small, large = (model.state_dict() for _, model, *_ in searches)
    assert {name for name in small if not small[name].equal(large[name])} == {"pos_embed"}
    assert large["pos_embed"].std() == pytest.approx(1, abs=0.1) and small["pos_embed"].std() < 0.03


def test_adam_and_gauss_newton_have_as_many_passes(searches):
    dict(lab.second_order_full(0, "smoke"))
    assert len(searches) == 2 * 3
    for adam, newton in zip(searches[::2], searches[1::2], strict=True):
        assert newton[4].passes == 2 * adam[4].steps and adam[1] is newton[1] and adam[3] == newton[3]


def test_dlg_is_told_no_label(searches):
    with pytest.raises(AttributeError):  # the answer above has none: the search was to find it
        dict(lab.dlg(0, "smoke"))
    assert searches[0][2].labels is None
