"""The audit: its numbers are those of the attacks called by hand, and its report says what was found."""

import json
from unittest.mock import Mock

import pytest
import torch
from markup import Page
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from weights import same

import privlab
from privlab import __main__ as cli
from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, closed_form
from privlab.auditing import attack, forms
from privlab.auditing.forms import IMAGE, UP_TO, Judge, fitted
from privlab.defences import perturbation
from privlab.leak import Leak, observe
from privlab.models import zoo


def pictures(n: int = 2, side: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    photos = data.load("cifar10_samples")
    return torch.cat([photos.one(i, size=side)[0] for i in range(n)]), torch.arange(n)


def plain(bias: bool = True) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Flatten(), nn.Linear(768, 32, bias), nn.GELU(), nn.Linear(32, 7)).eval()


def vit() -> nn.Module:
    return models.build("vit_cifar", embed_dim=192, depth=2)


@pytest.fixture(scope="module")
def of_vit():
    return privlab.audit(vit(), *pictures(), name="a small ViT", steps=1, progress=False)


@pytest.fixture(scope="module")
def of_plain():
    return privlab.audit(plain(), *pictures(side=16), steps=1, progress=False, public=pictures(6, 16)[0][2:])


def test_closed_forms_are_those_called_by_hand(of_vit):
    model, (images, labels) = vit(), pictures()
    names = ("pos_embed", "patch_embed.proj.weight")
    leak = observe(model, images[:1], labels[:1])
    noisy = perturbation.gaussian(leak.only({*names, "blocks.0.attn.qkv.weight"}), 0.01, seed=0)
    for how, sent, noise in (
        (forms.COMPUTED, leak, None), (forms.SHORT, leak.rounded(torch.bfloat16), None), ("gaussian 0.01", noisy, 0.01)
    ):  # fmt: skip
        recovery = closed_form.patch_embedding(model, sent, noise)
        (found,) = (s for s in of_vit.solves if (s["form"], s["image"], s["how"]) == ("patch_embedding", 0, how))
        assert found["psnr"] == pytest.approx(metrics.psnr(recovery.clamped, images[:1]).item(), abs=1)
        assert found["names"] == names
    assert "Theorem 1 does not hold" in of_vit.why["attention"]


def test_a_first_layer_by_hand():
    """Phong et al. 2018, section 3: a row of dL/dW over dL/db."""
    x, slope = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 0.0, -1.0])
    leak = Leak({"w": slope[:, None] * x, "b": slope}, 1, (3, 1, 1))
    torch.testing.assert_close(forms.row(("w", "b"), lambda g: g, leak), x)
    torch.testing.assert_close(forms.row(("w",), lambda g: g, leak).abs(), x / x.square().mean().sqrt())


def test_a_plain_network_gives_its_image_away_and_the_weights_alone_do(of_plain):
    assert {s["image"] for s in of_plain.leaks} == {0, 1}
    assert all(s["psnr"] > 100 for s in of_plain.leaks if len(s["names"]) == 2)
    assert {s["names"] for s in of_plain.leaks} == {("1.weight", "1.bias"), ("1.weight",)}
    held = {d["name"]: d["holds"] for d in of_plain.defences if d["name"].startswith("without")}
    assert held == {"without 1.weight": True, "without 1.bias": False}
    assert [(p["part"], round(p["rank"], 3)) for p in of_plain.parts] == [("1", 1), ("3", 1)]


class TwoStems(nn.Module):
    """Two layers see the image, as the two patch embeddings of a CrossViT do."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(192, 40), nn.Linear(192, 60), nn.Linear(100, 5)

    def forward(self, x):
        return self.head(torch.cat([self.a(x.flatten(1)), self.b(x.flatten(1))], 1).relu())


def test_what_is_withheld_holds_only_if_no_other_layer_gives_the_image_away():
    torch.manual_seed(0)
    found = privlab.audit(TwoStems().eval(), *pictures(side=8), steps=1, progress=False)
    held = [d["holds"] for d in found.defences if d["name"].startswith("without")]
    assert len(held) == 4 and not any(held)


def test_the_best_brightness_and_contrast_by_hand():
    image = torch.tensor([0.2, 0.4, 0.6, 0.4]).view(1, 1, 2, 2)
    torch.testing.assert_close(fitted(5 - 2 * image, image), image)
    torch.testing.assert_close(fitted(0 * image, image), torch.full_like(image, 0.4))
    judge, stripes = Judge(image, [torch.full_like(image, 0.4)]), torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 1, 2, 2)
    for picture, shows in ((image, IMAGE), (5 - 2 * image, UP_TO), (stripes, "")):
        assert judge.look(picture, 0 * image, image > 0)[0]["shows"] == shows


def test_shares_are_those_of_the_squared_gradient(of_vit):
    model, (images, labels) = vit(), pictures(1)
    leak = observe(model, images, labels)
    groups = models.parts.group(model).items()
    by_hand = {part: (leak.only(names).norm / leak.norm).item() ** 2 for part, names in groups}
    assert {p["part"]: p["share"] for p in of_vit.parts} == pytest.approx(by_hand, rel=1e-4)
    assert all(p["rank"] is None or p["rank"] >= 0.999 for p in of_vit.parts)


def test_search_is_the_preset(of_vit):
    model, (images, labels) = vit(), pictures(1)
    by_hand = gradient_inversion.annealed(1).run(model, observe(model, images, labels), seed=0, progress=False)
    assert torch.equal(of_vit.pictures["a short search"], by_hand.images)
    assert (of_vit.search["steps"], of_vit.search["ended"]) == (1, "steps")
    assert of_vit.search["psnr"] == pytest.approx(metrics.psnr(by_hand.images, images).item(), rel=1e-5)


ENDS = {"interrupted": KeyboardInterrupt(), "it could not be run: no such": NotImplementedError("no such\nderivative")}


@pytest.mark.parametrize("why", ENDS)
def test_a_search_that_ends_early_is_reported_and_keeps_the_rest(monkeypatch, why):
    monkeypatch.setattr(GradientMatching, "search", Mock(side_effect=ENDS[why]))
    found = privlab.audit(plain(), *pictures(1, 16), steps=9, progress=False)
    assert (found.search["steps"], found.search["ended"]) == (0, why)
    assert found.leaks and why in " ".join(found.text().split())


@pytest.mark.parametrize("which", ["of_vit", "of_plain"])
def test_json_goes_round_and_the_page_stands_alone(which, request, tmp_path):
    found = request.getfixturevalue(which)
    written = json.loads(json.dumps(found.json(), allow_nan=False))
    assert written["name"] == found.name and len(written["solves"]) == len(found.solves) and "pictures" not in written
    text = found.page(tmp_path / "new" / "audit.html").read_text()
    page = Page(text)
    assert not {"script", "link", "iframe", "object"} & set(page.names) and "url(" not in text
    pointed = [value for _, has in page.tags for key, value in has.items() if key in ("src", "href", "srcset", "data")]
    assert pointed and all(value.startswith("data:image/webp;base64,") for value in pointed)
    assert len([has for _, has in page.tags if has.get("role") == "img"]) == 1 and page.names.count("h1") == 1


@pytest.fixture
def tiny(monkeypatch):
    """A member of the zoo that takes no time, and a search of one step."""
    name, settings = zoo.CIFAR["vit_cifar"]
    monkeypatch.setitem(zoo._NAMED, "vit_cifar", (name, settings | {"embed_dim": 64, "depth": 2}))
    monkeypatch.setattr(attack, "STEPS", ((0, 1),))


def run(*arguments: object) -> int:
    return cli.main(["audit", *map(str, arguments)])


def test_the_command_prints_and_writes(tiny, tmp_path, capsys):
    assert run("vit_cifar", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert said.startswith("What a gradient of vit_cifar gives away") and "4 images of 3 x 32 x 32" in said
    assert said.rstrip().endswith(f"wrote {tmp_path / 'out/audit.html'} and {tmp_path / 'out/audit.json'}")
    written = json.loads((tmp_path / "out/audit.json").read_text())
    assert written["command"] == {"weights": "fresh", "images": "public photographs"} and written["solves"]


def test_the_command_takes_a_folder_weights_and_classes(tiny, tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(3):
        colours = torch.randint(256, (40, 50, 3), generator=torch.Generator().manual_seed(i)).byte().numpy()
        Image.fromarray(colours).save(tmp_path / f"photos/{i}.png")
    model, weights = models.build("vit_cifar", num_classes=3, seed=5), tmp_path / "mine.safetensors"
    save_file(model.state_dict(), weights)
    own = ("--images", tmp_path / "photos", "--weights", weights, "--classes", 3)
    assert run("vit_cifar", *own, "--out", tmp_path) == 0
    assert same(attack.named("vit_cifar", 3, weights), model)
    images, labels, public = attack.photographs(str(tmp_path / "photos"), model, "vit_cifar")
    assert images.shape == (3, 3, 32, 32) and public is None
    assert labels.tolist() == model(model.normalise(images)).argmax(1).tolist()
    held = data.load("cifar10_samples")
    images, labels, public = attack.photographs("cifar10_samples", model, "vit_cifar")
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0)).tolist()
    torch.testing.assert_close(images, held.take(order[:4])[0])
    assert public.shape == (16, 3, 32, 32) and labels.tolist() == [held.labels[i].item() % 3 for i in order[:4]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vit_cifr"], "privlab audit: name='vit_cifr' is not in the zoo; nearest: vit_cifar"),
        (["vit_cifar", "--steps", 0], "steps=0 searches nothing"),
        (["vit_cifar", "--images", "cifar10_sample"], "has no image, and is no known set; did you mean 'cifar10_samples'?"),
        (["vit_cifar", "--images", "{tmp}/broken"], "cannot identify image file"),
    ],
)  # fmt: skip
def test_bad_command_lines_are_explained_in_one_line(tiny, arguments, message, tmp_path, capsys):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/x.png").write_bytes(b"no picture")
    assert run(*(str(a).replace("{tmp}", str(tmp_path)) for a in arguments), "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
