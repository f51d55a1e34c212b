"""Labs 07 and 08: GradViT without the gradients of some layers, by depth and by component (Hatamizadeh et al. 2022, Tables 4 and 5)."""

from __future__ import annotations

from privlab.course.lab_08.experiments import THIRDS, selections
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.batches import SCORES, STDS, client, gradvit, search, trained


@experiment(
    "layer_gradients.depth_and_components",
    data=("cifar10",),
    smoke=Size(1, "a small trained ViT, 2 steps", steps=2, images=96, epochs=2, width=96),
    class_=Size(8, "a small trained ViT of three blocks, 20 steps", steps=20, images=400, epochs=3, width=192),
    night=Size(12, "a small trained ViT of three blocks, 600 steps", steps=600, images=5_000, epochs=10),
)
def depth_and_components(
    repeat: int, steps: int, images: int, epochs: int, width: int = 384, device: str = "cpu"
) -> Values:
    """GradViT on a batch of two, without one third of the blocks, and with the attention's or the MLPs' gradients alone."""
    trial = client(repeat, 2, device=device)
    yield from trial.guesses(which=SCORES)
    for name, std in STDS.items():
        model = trained(trial, "vit", images, epochs, embed_dim=width, depth=3, position_std=std)
        leak, pictures, seen = trial.leak(model), [trial.images], selections(model)
        rows = {row: seen[row] for row in ("all", *(f"without_{third}" for third in THIRDS))}
        for row, tensors in {**rows, "msa": seen["attention"], "mlp": seen["mlp"]}.items():
            found = search(trial, gradvit(steps), model, leak.only(tensors)).images
            yield from trial.scores(f"trained, {row}, {name}", found, SCORES)
            pictures.append(found)
        yield f"picture[photographs_and_selections, {name}]", tiled(pictures)
