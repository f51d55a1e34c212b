"""What an import brings along: counted in modules, since seconds depend on the machine; `python -X importtime` tells those."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SHOWN = {"IPython", "ipywidgets", "matplotlib", "seaborn"}  # what shows results
TABLES = {"pandas", "scipy", "skimage", "sklearn", "lpips"}  # what makes them
NETWORKS = {"torch", "torchvision", "timm"}


def brought(code: str) -> set[str]:
    told = (
        "import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules} | set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_package_itself_brings_only_what_looks_at_the_cores():
    new = brought("import privlab") - brought("pass")
    foreign = {name.split(".")[0] for name in new} - {"privlab", *sys.stdlib_module_names}
    assert foreign <= {"psutil", "lazy_loader"}  # nothing with OpenMP, whose variables it sets
    rooms = {"privlab.compute", "privlab.compute.machine", "privlab.compute.threads"}
    assert {name for name in new if name.startswith("privlab.")} == rooms


@pytest.mark.parametrize(
    "module",
    [
        "privlab.training.shadow_models",
        "privlab.attacks.gradient_inversion.cases",
        "privlab.attacks.model_inversion.cases",
    ],
)
def test_a_worker_loads_nothing_that_shows_or_tabulates(module):
    found = brought(f"import {module}; from privlab import models; models.build")  # which a worker does at once
    assert found >= {"torch", "timm"} and not found & (SHOWN | TABLES)


def test_to_start_a_worker_takes_neither_networks_nor_tables():
    assert not brought("import privlab.compute.tasks") & (NETWORKS | TABLES | SHOWN)


def test_what_a_lab_begins_with_waits_for_neither_networks_nor_statistics():
    found = brought(
        "from privlab import data, ledger, metrics; from privlab.notebook import checks, plots, widgets; "
        "widgets.watch, widgets.explore, plots.images"
    )
    assert not found & {"torchvision", "timm", "pandas", "sklearn", "scipy.stats", "lpips", "seaborn", "torch._dynamo"}
