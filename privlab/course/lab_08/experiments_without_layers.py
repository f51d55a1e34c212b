"""Labs 07 and 08: GradViT without the gradients of some layers, by depth and by component (Hatamizadeh et al. 2022, Tables 4 and 5)."""

from __future__ import annotations

from torch import nn

from privlab import models
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.batches import (
    STDS,
    blind_scores,
    fresh_number,
    gradvit,
    photographs,
    scores,
    search,
    trained,
)
from privlab.leak import observe

THIRDS = ("first", "middle", "last")


def selections(model: nn.Module) -> dict[str, list[str]]:
    """Tables 4 and 5: the parameters whose gradients the attacker has. The number of blocks has to be a multiple of three."""
    names, third = [name for name, _ in model.named_parameters()], len(models.parts.blocks(model)) // 3
    gone = {part: models.parts.depth(model, 1 + k * third, (k + 1) * third) for k, part in enumerate(THIRDS)}
    without = {f"without_{part}": [n for n in names if n not in inside] for part, inside in gone.items()}
    return {"all": names, **without, "msa": models.parts.attention(model), "mlp": models.parts.mlp(model)}


@experiment(
    "layer_gradients.depth_and_components",
    data=("cifar10",),
    smoke=Size(1, "a small trained ViT, 2 steps", settings=dict(steps=2, images=96, epochs=2, width=96)),
    class_=Size(
        8, "a small trained ViT of three blocks, 20 steps", settings=dict(steps=20, images=400, epochs=3, width=192)
    ),
    night=Size(12, "a small trained ViT of three blocks, 600 steps", settings=dict(steps=600, images=5_000, epochs=10)),
)
def depth_and_components(
    repeat: int, steps: int, images: int, epochs: int, width: int = 384, device: str = "cpu"
) -> Values:
    """GradViT on a batch of two, without one third of the blocks, and with the attention's or the MLPs' gradients alone."""
    number = fresh_number(repeat)
    truth, classes = photographs(2, number)
    yield from blind_scores(truth)
    for name, std in STDS.items():
        model = trained("vit", number, images, epochs, std, width, depth=3, device=device)
        leak, pictures = observe(model, truth, classes), [truth]
        for chosen, tensors in selections(model).items():
            found = search(gradvit(steps), model, leak.only(tensors), number).images
            yield from scores(f"trained, {chosen}, {name}", found, truth)
            pictures.append(found)
        yield f"picture[photographs_and_selections, {name}]", tiled(pictures)
