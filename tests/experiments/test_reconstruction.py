"""What searches are held against, and that a search is done once."""

import pytest
import torch

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion import presets
from privlab.experiments import pictures, reconstruction
from privlab.leak import observe


def test_a_baseline_is_made_of_public_photographs_alone():
    public, made = data.load("cifar10"), reconstruction.baselines()
    assert made["grey"].unique().tolist() == [0.5]
    torch.testing.assert_close(made["mean_photograph"][0], public.pixels.double().mean(0).float() / 255)
    for repeat in (0, 1_000, 2_019):
        photograph, _ = reconstruction.photograph(repeat)
        assert not (public.pixels[:5_000] == (photograph * 255).round().to(torch.uint8)).all((1, 2, 3)).any()


def test_repeats_have_photographs_of_their_own_that_no_lab_has_shown():
    shown = data.load("cifar10_samples").pixels
    pixels = torch.cat([reconstruction.photograph(repeat)[0] for repeat in (*range(8), *range(1_000, 1_012))])
    assert len(pixels.unique(dim=0)) == 20
    assert not (shown[:, None].float() / 255 == pixels).all((2, 3, 4)).any()


def test_the_nearest_public_photograph_is_as_near_as_any():
    photograph, _ = reconstruction.photograph(0)
    public, _ = data.load("cifar10").take(range(6))
    each = [metrics.lpips(one[None], photograph).item() for one in public]
    assert reconstruction.nearest_public(photograph, 6) == pytest.approx(min(each), rel=1e-5)


def test_scores_are_those_of_the_metrics_and_mse_is_of_normalised_images():
    truth, _ = reconstruction.photograph(0)
    image = (truth + 0.1).clamp(0, 1)
    values = dict(reconstruction.scores("cifar10, swin", image, truth))
    assert values["psnr[cifar10, swin]"] == pytest.approx(metrics.psnr(image, truth).item())
    std = torch.tensor(data.load("cifar10").normalise.std)[:, None, None]
    assert values["mse[cifar10, swin]"] == pytest.approx(((image - truth) / std).square().mean().item(), rel=1e-4)
    assert {*values} == {f"{metric}[cifar10, swin]" for metric in ("psnr", "ssim", "lpips", "mse")}


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    model = models.build("vit_cifar", embed_dim=48, depth=1, seed=3)
    return model, observe(model, *reconstruction.photograph(0))


def test_a_search_is_done_once_and_another_one_anew(small, monkeypatch):
    (model, leak), attack = small, presets.annealed(2)
    first = reconstruction.search(attack, model, leak, 0, (1,))
    assert first.images.equal(attack.run(model, leak, seed=0, snapshots=(1,), progress=False).images)
    searches = []
    original = type(attack).search
    monkeypatch.setattr(type(attack), "search", lambda *a, **k: searches.append(1) or original(*a, **k))
    assert reconstruction.search(attack, model, leak, 0, (1,)).images.equal(first.images) and not searches
    part = leak.only(["head.weight", "head.bias"])
    others = [(presets.annealed(3), model, leak, 0), (attack, model, leak, 1), (attack, model, part, 0)]
    for other in others:
        reconstruction.search(*other, (1,))
    with torch.no_grad():
        model.head.bias += 1
    reconstruction.search(attack, model, leak, 0, (1,))
    assert len(searches) == 4


def test_a_strip_holds_the_pictures_side_by_side():
    left, right = torch.zeros(1, 3, 4, 5), torch.ones(1, 3, 4, 5)
    strip = pictures.tiled([[left, right]])
    assert strip.shape == (4, 10, 3) and strip.dtype == torch.uint8
    assert strip[:, :5].max() == 0 and strip[:, 5:].min() == 255
