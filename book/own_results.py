"""The book's own results: a table each, from the committed evidence, with how many repeats it has and how they spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from privlab import experiments
from privlab.experiments import april_closed_form as closed


@dataclass(frozen=True)
class Table:
    """rows: label -> what stands for {} in the names of the columns.  columns: heading -> name of a value.

    largest: what is said of the largest value of a name, over all repeats.
    """

    title: str
    about: str
    experiment: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]
    largest: Mapping[str, str] = field(default_factory=dict)


def _words(name: str) -> str:
    """A name of timm's that a narrow page can break."""
    return name.replace("_", " ")


NETWORKS = {
    "ResNet": "resnet",
    "Swin": "swin",
    "ConvNeXt": "convnext",
    "ViT": "vit",
    "ViT, position scale 1": "vit_std_1",
}

GUESSES = {"without a search": "psnr[family, guess, {}]", "mean": "psnr[family, mean_photograph, {}]"}

TABLES = [
    Table(
        "The rank rule on stock ViTs",
        "From the gradient of the first attention alone, a linear solve leaves some directions of each patch undetermined. The rank rule "
        "foretells how many from the model, before any attack. A stock ViT is seldom as wide as its tokens and the pixels of a patch "
        "together, so most of them leave much of a patch open.",
        "april_closed_form.stock_ranks",
        {_words(name): name for name in closed.VITS},
        {"directions left open": "hidden[{}]", "share of a patch": "share[{}]", "PSNR (dB)": "psnr[subspace, {}]"},
        {"the rule and the measurement differ by at most": "null_space_gap[stock_ranks]"},
    ),
    Table(
        "The patch-embedding form on families of ViTs",
        "PSNR (dB) of one photograph, from gradients sent in three number formats. The mean of other photographs, which needs no gradient, "
        "is in the last column.",
        "april_closed_form.families",
        {_words(name): name for name in closed.FAMILIES},
        {form: f"psnr[patch_embedding, {{}}, {form}]" for form in closed.FORMATS} | {"mean": "psnr[imagenet, mean_photograph]"},
    ),
    Table(
        "Why bfloat16 hides two families",
        "The two families of the last table that bfloat16 hides take the mean of their patches, and multiply each block by a small number "
        "(layer scale). Then the gradients of all patches are nearly one. What is left of each is lost in rounding. Here a ViT-S/16 has "
        "one of the two changes, both, or none. The first column is small where the gradients are nearly one; the last as above.",
        "april_closed_form.pooling",
        {
            "class token": "token",
            "class token, layer scale": "token_scaled",
            "mean of the patches": "mean",
            "mean of the patches, layer scale": "mean_scaled",
        },
        {"second singular value over the first": "second_share[{}]"}
        | {form: f"psnr[patch_embedding, {{}}, {form}]" for form in closed.FORMATS}
        | {"mean": "psnr[imagenet, mean_photograph]"},
    ),
    Table(
        "The subspace form where a stock ViT is wide enough",
        "PSNR (dB) of one photograph, from the gradient of the first attention alone.",
        "april_closed_form.families",
        {"vit large patch16 224": "vit_large_patch16_224"},
        {form: f"psnr[subspace, {{}}, {form}]" for form in closed.FORMATS},
    ),
    Table(
        "Batches by subspaces and a search, position scale 1",
        "PSNR (dB). The algebra restricts each patch of a batch to a subspace, and a search finds the point in it. Beside it are searches "
        "over all pixels, the best point of the subspaces without a search, and the mean of other photographs.",
        "batch_family.ways",
        {"two images": "batch_2", "three images": "batch_3"},
        {"subspaces and L-BFGS": "psnr[family, {}]", "L-BFGS over pixels": "psnr[pixels, {}]", "GradViT": "psnr[gradvit, {}]"}
        | GUESSES,
    ),
    Table(
        "Two images, harder victims",
        "PSNR (dB) of searches in the subspaces, for a position embedding with standard deviation 0.02 and for a trained network.",
        "batch_family.harder_victims",
        {"scale 0.02": "std_0p02", "trained": "trained"},
        {"L-BFGS": "psnr[family, lbfgs, {}]", "Adam": "psnr[family, adam, {}]", "Gauss-Newton": "psnr[family, gauss_newton, {}]"}
        | GUESSES,
    ),
    Table(
        "Gauss-Newton beside Adam",
        "PSNR (dB) of one photograph after as many passes through the network.",
        "gradient_inversion.second_order",
        NETWORKS,
        {"Adam": "psnr[adam, {}]", "Gauss-Newton": "psnr[gauss_newton, {}]", "mean": "psnr[second_order, mean_photograph]"},
    ),
    Table(
        "Gauss-Newton beside Adam, the paper's networks",
        "The same for untrained networks of the paper's size.",
        "gradient_inversion.second_order_full",
        {"ResNet-50": "resnet_50", "Swin-T": "swin_t", "ConvNeXt-T": "convnext_t"},
        {"Adam": "psnr[adam, {}]", "Gauss-Newton": "psnr[gauss_newton, {}]", "mean": "psnr[second_order_full, mean_photograph]"},
    ),
    Table(
        "GroupNorm, and as long a training without it",
        "Accuracy of the task and of the attack (%). GroupNorm trains three times as long, so an undefended network does so, too. The "
        "judge has BatchNorm: before judges with GroupNorm hardly anything of the difference is left (finding 9).",
        "resistant_architectures.defences",
        {"BatchNorm": "none", "BatchNorm, three times as long": "none_longer", "GroupNorm, three times as long": "groupnorm_longer"},
        {"task": "acc[orl, resnet, {}]", "attack": "attacc[orl, resnet, {}]"},
    ),
]  # fmt: skip


def page() -> str:
    """The chapter: each table behind a sentence on what was measured."""
    return (
        "# Results of our own\n\nThese results are in none of the four papers. Each cell is the mean of the repeats with their standard "
        "deviation, from the committed evidence.\n\n" + "\n".join("\n".join(_section(table)) for table in TABLES)
    )


def _section(table: Table) -> Iterator[str]:
    kept = experiments.load(table.experiment)
    cells = {label: [name.format(key) for name in table.columns.values()] for label, key in table.rows.items()}
    there = {label: names for label, names in cells.items() if names[0] in kept}
    yield f"## {table.title}\n\n{table.about}\n"
    if there:
        yield f"| | {' | '.join(table.columns)} |\n|---|{'---:|' * len(table.columns)}"
    for label, names in there.items():
        yield f"| {label} | {' | '.join(_cell(kept, name) for name in names)} |"
    said = [
        f"{len(kept)} repeats at `{kept.size}`: {kept.stands_for}{'' if kept.complete else '; more are registered'}."
    ]
    said += [f"In all repeats {words} {kept[name].max():g}." for words, name in table.largest.items() if name in kept]
    if waiting := [label for label in cells if label not in there]:
        said.append(f"Not measured yet: {', '.join(waiting)}.")
    yield f"\n{' '.join(said)}\n"


def _cell(kept: experiments.Evidence, name: str) -> str:
    if name not in kept:
        return ""
    mean, spread = kept.mean(name), kept.spread(name)
    return f"{mean:.3g} ± {spread:.2g}" if spread > 0 else f"{mean:.3g}"
