"""What a training does with defences: forms in order, penalties added, resume behind a change of form; and nothing without any."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from small_training import FAMILIES, LABELS, PIXELS, RECIPE, build, fit, linear
from weights import same

from privlab import compute, data, training
from privlab.compute import store
from privlab.defences import architecture, regularisers
from privlab.training import Recipe, shadow_models, trainer
from privlab.training.defence import Defence, shaped

LONGER = replace(RECIPE, epochs=4, augment="flip")


@dataclass(frozen=True)
class Decay(Defence):
    """weight * the mean square of the pixels of each class 0: a penalty without a slope, so that only the loss shows it."""

    penalises: ClassVar[bool] = True
    weight: float = 1.0

    @contextmanager
    def listen(self, model):
        yield lambda x, labels: self.weight * x[labels == 0].square().mean()


@dataclass(frozen=True)
class Larger(Defence):
    """Each step's gradient times a factor."""

    factor: float = 1.0

    def disturb(self, model):
        def change():
            for p in model.parameters():
                p.grad *= self.factor

        return change


def test_penalties_are_added_to_the_loss_of_the_batch():
    """One batch and a rate of about 0: cross-entropy of the first weights, and 2 + 3 times what the penalty says of the pixels."""
    model = linear()
    model.normalise = data.Normalise((0.5,), (0.25,))
    x = (PIXELS.double() / 255 - 0.5) / 0.25
    expected = F.cross_entropy(model(x), LABELS) + 5 * x[LABELS == 0].square().mean()
    recipe = Recipe(epochs=1, batch_size=20, lr=1e-300, weight_decay=0)
    objective = fit(model, Decay(2.0), Decay(3.0), recipe=recipe)
    assert objective == [pytest.approx(expected.item(), rel=1e-9)]


def test_gradients_are_changed_behind_the_loss():
    """Three times, then twice as large: with a step of a sixth it is the undefended step."""
    recipe = Recipe(epochs=1, batch_size=20, optimiser="sgd", momentum=0, lr=0.06, weight_decay=0, schedule="constant")
    plain, changed = linear(), linear()
    fit(plain, recipe=recipe)
    fit(changed, Larger(3.0), Decay(1.0), Larger(2.0), recipe=replace(recipe, lr=0.01))
    for p, q in zip(plain.parameters(), changed.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-15)
    assert not same(plain, linear())


def test_the_optimiser_keeps_what_it_knows_of_the_parameters_that_are_left():
    """Its momenta, its count of steps; and the rate of the next step is the recipe's."""
    for kind in ("adamw", "sgd"):
        recipe = replace(RECIPE, optimiser=kind)
        model = build()
        optimiser = trainer._optimiser(recipe, model)
        model(PIXELS[:4].float() / 255).logsumexp(1).sum().backward()
        optimiser.step()
        assert shaped(model, (architecture.rolss(),), 0)
        known, left = dict(optimiser.state), [*model.parameters()]
        trainer.follow(optimiser, model)
        assert 0 < len(left) < len(known) and {*optimiser.state} == {*left} == {*optimiser.param_groups[0]["params"]}
        assert all(optimiser.state[p] is known[p] for p in left)


def test_an_interrupted_training_goes_on_before_at_and_behind_the_cut(tmp_path):
    defences = (architecture.tts(2), regularisers.BiDO(0.05, 0.5), regularisers.MID(0.01, 4))
    whole = build()
    objective = fit(whole, *defences, recipe=LONGER)

    def watch(epoch):
        seen.append(epoch)
        if len(seen) == stop + 1:
            raise KeyboardInterrupt

    for stop in (1, 2):
        seen = []
        run = compute.Run("victim", {"stop": stop}, tmp_path)
        with pytest.raises(KeyboardInterrupt):
            fit(build(), *defences, recipe=LONGER, run=run, watch=watch)
        for _ in range(2):  # at the second time the run is complete: weights alone are loaded
            rest = build()
            assert fit(rest, *defences, recipe=LONGER, run=run, watch=watch) == objective and same(rest, whole)
            assert not any(module._forward_hooks for module in rest.modules())
        assert seen == [*range(1, stop + 2), *range(stop + 1, 5)]  # an epoch counts once its watcher is done


def test_what_cannot_be_trained_is_told_before_anything_changes():
    model = build()
    with pytest.raises(ValueError, match=r"mixup=0.8, cutmix=0 cannot go with BiDO.*give .* mixup=0"):
        fit(model, regularisers.BiDO(1, 1), recipe=replace(RECIPE, mixup=0.8))
    assert same(model, build())


def test_a_fleet_trains_defended_models_and_gives_them_back_in_the_form_of_each_epoch(tmp_path):
    defences = (architecture.tts(1), regularisers.BiDO(0.1, 1))
    given = dict(model=dict(FAMILIES["resnet18"], num_classes=3), at=(1,), weights=True, seed=3)
    about = "resnet18", RECIPE, (PIXELS, LABELS), data.in_out(20, 2, 0)
    plain, made = (shadow_models.make(*about, **given, defences=some) for some in ((), defences))
    assert "defences" not in plain.settings and store.key(plain.settings) != store.key(made.settings)
    made = replace(made, folder=tmp_path)
    shadow_models.train(made, 0)
    skip = "layer4.0.downsample.0.weight"
    for at, there in ((1, True), (2, False)):
        model = made.model(0, at=at)
        assert (skip in model.state_dict()) == there
        assert torch.equal(training.logits(model, PIXELS), made.logits(0, at=at)[0])
