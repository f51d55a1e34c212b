"""A repeat of a gradient inversion: what searches are held against, and that a search is done once."""

from dataclasses import replace

import pytest
import torch

from privlab import data, metrics
from privlab.attacks.gradient_inversion import presets
from privlab.experiments.trial import Trial, mean_photograph


def test_a_guess_is_made_of_public_photographs_alone():
    public = data.load("cifar10")
    rows = public.pixels[:, :, ::8]  # some, as all are a gigabyte
    torch.testing.assert_close(mean_photograph()[0, :, ::8], rows.double().mean(0).float() / 255)
    trial = Trial.of(2_019)
    assert not (public.pixels[:5_000] == (trial.images * 255).round().to(torch.uint8)).all((1, 2, 3)).any()
    values = dict(trial.guesses("vit, "))
    assert values["psnr[vit, grey]"] == metrics.psnr(torch.full_like(trial.images, 0.5), trial.images).item()
    assert values["psnr[vit, mean_photograph]"] == metrics.psnr(mean_photograph(), trial.images).item()


def test_scores_are_those_of_the_metrics_and_mse_is_of_normalised_images():
    trial = Trial.of(2_000)
    image = (trial.images + 0.1).clamp(0, 1)
    values = dict(trial.scores("cifar10, swin", image, "psnr ssim lpips mse"))
    assert values["psnr[cifar10, swin]"] == metrics.psnr(image, trial.images).item()
    std = torch.tensor(data.load("cifar10").normalise.std)[:, None, None]
    expected = ((image - trial.images) / std).square().mean().item()
    assert values["mse[cifar10, swin]"] == pytest.approx(expected, rel=1e-4)
    assert {*values} == {f"{metric}[cifar10, swin]" for metric in ("psnr", "ssim", "lpips", "mse")}


def test_a_search_is_done_once_and_another_one_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    trial, attack = Trial.of(3), presets.annealed(2)
    model = trial.network("vit_cifar", embed_dim=48, depth=1)
    leak = trial.leak(model)
    first = trial.search(attack, model, snapshots=(1,))
    assert first.images.equal(attack.run(model, leak, seed=3, snapshots=(1,), progress=False).images)
    searches = []
    original = type(attack).search
    monkeypatch.setattr(type(attack), "search", lambda *a, **k: searches.append(1) or original(*a, **k))
    assert trial.search(attack, model, leak, snapshots=(1,)).images.equal(first.images) and not searches
    trial.search(presets.annealed(3), model)
    trial.search(attack, model, leak.only(["head.weight", "head.bias"]))
    trial.search(attack, model, replace(leak, labels=None))
    trial.search(attack, model, start=trial.images)
    with torch.no_grad():
        model.head.bias += 1
    trial.search(attack, model, leak)
    assert len(searches) == 5
