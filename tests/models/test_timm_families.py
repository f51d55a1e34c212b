"""Each family of timm at its smallest: its gradient twice, one image and the same image twice, one step of a search, the audit.

`python tests/models/test_timm_families.py FAMILY ...` walks through families (all, if none is named) and prints their lines of the table,
`book/timm_families.csv`.
"""

import csv
import sys
import warnings
from pathlib import Path

import pytest
import timm
import torch
from weights import same

import privlab
from privlab.attacks import gradient_inversion
from privlab.leak import observe

TABLE = Path(__file__).parents[2] / "book" / "timm_families.csv"
ROWS = {row["family"]: row for row in csv.DictReader(TABLE.read_text().splitlines())}
CHECKED = ("xcit", "levit", "mobilenetv3")  # a gradient once wrong, a bias that is kept, a hard sigmoid
SIDES = (32, 64, 96, 128, 160, 192, 224, 240, 256, 299, 320, 384, 448, 512)
ALIKE = 1e-4  # relative, in float32; the worst measured is 2e-5


def build(name, side):
    """The model at this side, or None where it takes none such."""
    for size in ({"img_size": side}, {}):
        torch.manual_seed(0)
        try:
            model = timm.create_model(name, num_classes=10, **size).eval()
            with torch.no_grad():
                logits = model(torch.zeros(1, 3, side, side))
            if logits.shape == (1, 10):
                return model
        except (TypeError, ValueError, RuntimeError, AssertionError):
            continue
    return None


def smallest(family):
    """Its model with the fewest parameters, at timm's own number of classes, and how many these are."""

    def parameters(name):
        with torch.device("meta"):
            return sum(p.numel() for p in timm.create_model(name).parameters())

    return min((parameters(name), name) for name in timm.list_models(module=family))


def walk(model, side):
    """What the table says of a model: "1e-07 apart", "yes", or the line of an error."""
    image, label = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0)), torch.tensor([3])

    def length(grads):
        return torch.stack([g.norm() for g in grads.values()]).norm()

    first, again = (observe(model, image, label).grads for _ in range(2))
    assert same(first, again)
    two = observe(model, image.repeat(2, 1, 1, 1), label.repeat(2)).grads
    apart = (length({n: two[n] - g for n, g in first.items()}) / length(first)).item()
    try:
        states = list(gradient_inversion.annealed(1).search(model, observe(model, image, label)))
        search = "yes" if len(states) == 2 and states[-1].images.isfinite().all() else states[-1].reason
    except (RuntimeError, ValueError) as error:
        search = str(error).splitlines()[0]
    report = privlab.audit(model, image, label, steps=1, progress=False)
    audit = "yes" if report.search["steps"] == 1 else report.search["ended"]
    return {"one against twice": f"{apart:.0e}", "search": search, "audit": audit}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=pytest.mark.check if f in CHECKED else pytest.mark.weekly) for f in ROWS]
)
def test_what_the_table_says_of_a_family_holds(family):
    row = ROWS[family]
    model = build(row["model"], int(row["side"]))
    assert model is not None
    got = walk(model, int(row["side"]))
    assert float(got.pop("one against twice")) < ALIKE
    assert got == {name: row[name] for name in got}


@pytest.mark.weekly
def test_the_table_has_every_family_but_large_ones():
    absent = set(timm.list_modules()) - ROWS.keys()
    assert all(smallest(family)[0] > 20e6 for family in absent), absent


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    out = csv.writer(sys.stdout, lineterminator="\n")
    for family in sys.argv[1:] or timm.list_modules():
        parameters, name = smallest(family)
        side = next(side for side in SIDES if build(name, side) is not None)
        out.writerow([family, name, f"{parameters / 1e6:.1f}", side, *walk(build(name, side), side).values()])
        sys.stdout.flush()
