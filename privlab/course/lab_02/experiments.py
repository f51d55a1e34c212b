"""Lab 02: is this image easier for the model than it should be? What the likelihood ratio finds, and what its knobs are worth."""

import torch

from privlab.attacks.membership_inference import lira, rmia, signals
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.victims import shadow_fleets
from privlab.experiments.victims.shadow_fleets import FAMILIES, PROOF, RECIPE, Draw


@experiment("likelihood_ratio.fleet", on=shadow_fleets.draw, protocol=2)  # 1 asked about unseen mirror images
@Size("smoke", 2, PROOF, families="small", images=200, unseen=100, models=8, recipe=RECIPE["smoke"])
@Size("class", 8, "networks of 0.3 M parameters, 8 of each family, 200 images a model", first=16,
    families="small", images=400, unseen=200, models=8, recipe=RECIPE["class"])  # fmt: skip
@Size("gpu", 5, "ResNet-50 and Swin-T, 8 of each, 5,000 images a model, 300 epochs",
    families="paper", images=10_000, unseen=5_000, models=8, recipe=RECIPE["paper"])  # fmt: skip
@Size("paper", 3, "ResNet-50 and Swin-T, 64 of each, on halves of 40,000 images",
    own=True, families="paper", images=40_000, unseen=10_000, models=64, recipe=RECIPE["paper"])  # fmt: skip
def fleet(block: Draw, families: str, recipe: Settings) -> Values:
    """Online, offline, by fewer models, and by a threshold on the loss, on one draw of images."""
    for family in ("resnet", "swin"):
        said, of = shadow_fleets.answers(FAMILIES[families][family], block, recipe), f"cifar10, {family}"
        yield from said.knows(of)
        yield from shadow_fleets.rated(of, {**said.scores(), "offline": said.ratios(online=False)}, said.members)
        for count in (n for n in (6, 8, 16, 32, 64) if n <= said.models):
            margins, members = said.margins()[:count], said.members[:count]  # of pairs, so a fleet of their own
            sure = torch.stack([signals.confidence(each[0], said.labels) for each in said.at()[:count]])  # (count, n)
            seen, unseen = sure[:, : said.audited], sure[:, said.audited :]
            for kind, scores in {
                "fixed": lira.every_target(margins, members, pairs=True),
                "pooled": lira.every_target(margins, members, variance="pooled", pairs=True),
                "rmia": rmia.every_target(seen, members, unseen, pairs=True),
            }.items():
                found = shadow_fleets.rates(scores, members)
                yield f"auc[{of}, {kind}, models_{count}]", found["auc"]
                yield f"tpr_at_fpr_0p01[{of}, {kind}, models_{count}]", found["tpr_at_fpr_0p01"]
