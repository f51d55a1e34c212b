"""A network of one's own on lab 12's workbench: as it is before any training, trained in one call or in several, and then attacked."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from privlab import training
from privlab.experiments.victims.private_people import People
from privlab.notebook import plots
from privlab.notebook.plots import Picture
from privlab.training.shadow_models import Fleet


@dataclass(frozen=True)
class Attacked:
    """What the attack of lab 11 finds in one network.

    acc: how often the network names new photographs rightly.  attacc: how often the judge names the person searched for.  Both in percent.
    images: (people, channels, height, width), one face of each person.  known: (people,) bool, whom of them the judge names.
    """

    acc: float
    attacc: float
    images: Tensor
    known: Tensor


@dataclass(frozen=True)
class Workbench:
    """The private people of one draw, and one architecture that is trained for them in several ways.

    whole: the undefended network, whose first weights and order of photographs all others get.
    """

    here: People
    whole: Fleet

    def fresh(self) -> nn.Module:
        """The network before any training. Each call gives the weights with which every training of this lab begins."""
        return self.whole.fresh(0).to(self.here.device)

    def train(self, model: nn.Module, epochs: int) -> None:
        """Train a network in place on the private photographs, by this lab's recipe over so many epochs.

        A second call goes on with the weights that the first one left; it has a learning rate of its own, which rises and falls again.
        """
        how = replace(self.here.recipe, epochs=epochs, warmup_epochs=min(self.here.recipe.warmup_epochs, epochs / 2))
        keep = self.here.split.keep()[0]
        photographs = self.here.split.pixels[keep], self.here.split.labels[keep]
        training.fit(model, photographs, how, seed=self.whole.seed(0))

    def attacked(self, model: nn.Module) -> Attacked:
        """Attack a trained network as the experiments of this lab do, and ask their judge."""
        here, best = self.here, self.here.found(model)
        score, places = here.judge.score(best.images, best.targets), best.places(here.people)
        acc = 100 * training.evaluate(model, (here.split.pixels[here.split.test], here.split.labels[here.split.test]))
        return Attacked(acc, 100 * score.accuracy, best.images[places].cpu(), score.top1[places].cpu())

    def card(self, found: dict[str, Attacked]) -> Picture:
        """Photographs of the first six people, and a row for each network with the faces that came out of it."""
        rows = {f"people of {self.here.faces}": self.here.private()}
        rows |= {label: one.images[:6] for label, one in found.items()}
        known = {label: ["known" if yes else "unknown" for yes in one.known[:6]] for label, one in found.items()}
        rates = "; ".join(f"{k}: task {one.acc:.0f}%, attack {one.attacc:.0f}%" for k, one in found.items())
        told = "; ".join(f"{label}: {', '.join(words)}" for label, words in known.items())
        return plots.images(rows, alt=f"Private people and what was found. {rates}. The judge: {told}.", captions=known)
