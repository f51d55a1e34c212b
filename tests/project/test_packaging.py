"""One list of dependencies: environment.yml, postBuild, the lock and the Makefile say what pyproject.toml says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from _pytest.mark.expression import Expression
from packaging.requirements import Requirement
from packaging.version import Version

from privlab import experiments
from privlab.runner import catalogue, pairing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = {r.name.lower().replace("_", "-"): r for r in map(Requirement, PROJECT["dependencies"])}
CONDA_NAME = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
LOCK = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]


def conda_list():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    for entry in [*(e for e in listed if isinstance(e, str)), *pip]:
        name = re.match(r"[\w.-]+", entry).group()
        yield CONDA_NAME.get(name, name).replace("_", "-"), entry[len(name) :]


def test_environment_yml_lists_what_pyproject_lists_with_what_dp_needs():
    conda = {name: bounds for name, bounds in conda_list() if name not in ("python", "pip")}
    wanted = WANTED | {r.name: r for r in map(Requirement, PROJECT["optional-dependencies"]["dp"])}
    assert conda.keys() == wanted.keys()
    for name, bounds in conda.items():
        assert set(filter(None, bounds.split(","))) == set(filter(None, str(wanted[name].specifier).split(","))), name


def test_what_pip_adds_to_conda_asks_for_nothing_that_would_bring_another_torch():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = (entry["pip"] for entry in listed if isinstance(entry, dict))
    for name in (Requirement(entry).name for entry in pip):
        asks = {
            Requirement(line).name: Requirement(line) for line in metadata.requires(name) or [] if "extra" not in line
        }
        assert asks["torch"].specifier.contains("2.11.0"), name  # so pip is content with conda's
        assert asks.keys() <= {"torch", "torchvision", "numpy", "scipy", "tqdm", "opt-einsum"}, name


def test_binder_fetches_every_set_that_labs_00_to_05_use_at_smoke():
    used = set()
    for lab in (lab for lab in catalogue.everything(ROOT / "labs") if lab.number <= "05"):
        text = lab.path.read_text()
        used |= set(re.findall(r'(?:data|attributes)\.load\("(\w+)"', text)) | set(
            re.findall(r"metrics\.(lpips)\(", text)
        )
        used |= {"cifar10"} if '["cifar10"]' in text or 'or "cifar10"' in text else set()
        for name in re.findall(r'experiments\.run\("([\w.]+)"', text):
            measured = (ROOT / f"book/evidence/smoke/{name}.jsonl").read_text()
            used |= {*experiments.find(name).data} | ({"lpips"} if '"lpips[' in measured else set())
    fetched = re.search(r"fetch\.py (.+)", (ROOT / "postBuild").read_text()).group(1).split()
    assert used == set(fetched)


def test_binder_builds_fail_loudly_if_pip_brought_a_torch_of_its_own():
    assert "torch.version.cuda is None" in (ROOT / "postBuild").read_text()


def test_binder_has_one_thread_unless_somebody_says_otherwise():
    for mine, threads in ({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3"):
        said = subprocess.run(
            [ROOT / "start", "printenv", "OMP_NUM_THREADS"],
            env={"PATH": os.environ["PATH"]} | mine, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert said.stdout.strip() == threads


def test_conda_comes_from_one_channel_and_leaves_the_package_to_postbuild():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert "-e ." not in (ROOT / "environment.yml").read_text().split("dependencies:")[1]
    assert "pip install --no-deps -e ." in (ROOT / "postBuild").read_text()


def test_the_owners_packages_are_there():
    torch = {"torch", "torchvision", "timm", "lpips"}
    notebook = {"jupyterlab", "ipywidgets", "jupytext", "papermill", "matplotlib", "seaborn"}
    assert torch | notebook <= WANTED.keys()


def test_torch_2_13_is_shut_out_and_the_range_is_wide():
    assert not WANTED["torch"].specifier.contains("2.13.0")
    assert WANTED["torch"].specifier.contains("2.11.0") and WANTED["torchvision"].specifier.contains("0.26.0")


def test_the_lock_has_versions_and_no_addresses():
    for line in LOCK:
        assert re.fullmatch(r"[a-z0-9._-]+==[\w.!+]+( ; .+)?", line), line
        assert "://" not in line and "@" not in line
    assert "torch==2.15.0" in LOCK and "torchvision==0.29.2" in LOCK


def test_the_lock_satisfies_every_range():
    pinned = {}
    for line in LOCK:
        name, version = line.split(" ;")[0].strip().split("==")
        pinned.setdefault(name, []).append(version)
    extras = [Requirement(r) for extra in PROJECT["optional-dependencies"].values() for r in extra]
    for requirement in [*WANTED.values(), *extras]:
        name = requirement.name.lower().replace("_", "-")
        assert name in pinned, name
        assert all(requirement.specifier.contains(v) for v in pinned[name]), (name, pinned[name])


def test_this_environment_holds_to_the_ranges():
    for name, requirement in WANTED.items():
        assert requirement.specifier.contains(Version(metadata.version(name)).base_version), name


NEWER = [pytest.param(python, marks=pytest.mark.check) for python in ("3.12", "3.13")]


@pytest.mark.parametrize("python", ["3.11", *NEWER])
def test_the_dependencies_resolve(python, tmp_path):
    """Asks the package registry, so it needs one; the same command as `make lock`, for one Python at a time."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv, "uv is missing: it comes with the extra 'test'"
    done = subprocess.run(
        [uv, "pip", "compile", "pyproject.toml", "--python-version", python, "--python-platform", "linux", "--all-extras",
         "--constraint", "requirements.lock", "--no-header", "--no-annotate", "-q", "-o", str(tmp_path / "lock.txt")],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "torch==2.15.0" in (tmp_path / "lock.txt").read_text()


def test_ci_calls_make_check_and_nothing_cleverer():
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -eu", 'cd "$(dirname "$0")/.."', "make check"]


def test_each_tier_of_tests_is_the_one_before_and_more():
    """What `make test`, `make check` and `make weekly` give pytest; beside what measures, nothing is in none of them."""

    def selected(target):
        lines = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        (line,) = [line for line in lines.splitlines() if "-m pytest" in line]
        assert line.startswith("PRIVLAB_SMOKE=runs/smoke ") and "--durations=20" in line
        assert "privlab run --profile smoke" in lines and "--resume --out runs/smoke" in lines
        assert ("--out runs/smoke --deeper\n" in lines) == (target == "weekly")
        *_, words = shlex.split(line)
        expression = Expression.compile(words)
        marks = [(), ("check",), ("weekly",), ("check", "weekly"), ("bench",)]
        return words, [of for of in marks if expression.evaluate(lambda name, of=of, **_: name in of)]

    plain, in_test = selected("test")
    assert (
        f"-m '{plain}'"
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    )
    assert in_test == [()]
    assert selected("check")[1] == [(), ("check",)]
    assert selected("weekly")[1] == [(), ("check",), ("weekly",), ("check", "weekly")]


def test_make_run_goes_deeper_if_asked_to():
    for said, deeper in ((), False), (("DEEPER=1",), True), (("DEEPER=1", "LABS=04"), True):
        done = subprocess.run(["make", "-n", "run", *said], cwd=ROOT, capture_output=True, text=True, check=True)
        assert ("--deeper" in done.stdout) == deeper and ("run 04 " in done.stdout) == ("LABS=04" in said)


@pytest.mark.parametrize("target", ["env", "run", "test", "check", "weekly", "lab", "book", "bench"])
def test_the_makefile_has_what_the_readme_promises(target):
    make = (ROOT / "Makefile").read_text()
    rule = re.search(rf"^{target}: (.+)$", make, re.MULTILINE).group(1)
    assert ("$(READY)" if target == "env" else "env") in rule, "every target sets itself up"
    assert f"make {target}" in (ROOT / "README.md").read_text()


def test_what_a_bench_compares_with_is_one_version_and_no_reader_installs_it():
    extras = PROJECT["optional-dependencies"]
    assert extras["bench"] == ["breaching==0.1.2"]
    assert "breaching" not in WANTED and not any(
        "breaching" in r for name in extras if name != "bench" for r in extras[name]
    )
    rule = re.search(r"^bench: .+\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1).splitlines()
    assert "--constraint requirements.lock" in rule[0] and "'.[bench]'" in rule[0] and "pytest tests/bench" in rule[1]
    assert "bench" not in (ROOT / "data_scripts/environment.sh").read_text()


def test_the_setup_refuses_what_cannot_work(tmp_path):
    for python, says in (("python2.nowhere", "is not on this machine"), ("false", "privlab needs 3.11")):
        done = subprocess.run(
            ["bash", "data_scripts/environment.sh", python, str(tmp_path / "venv")],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1 and says in done.stderr
        assert not (tmp_path / "venv").exists()


def test_the_setup_says_the_disk_it_needs_first():
    script = (ROOT / "data_scripts/environment.sh").read_text()
    assert script.index("6 GB of disk") < script.index("-m venv --clear")


def test_nothing_else_at_the_top():
    allowed = {
        "README.md", "environment.yml", "pyproject.toml", "requirements.lock", "Makefile", "postBuild", "start", "LICENSE", "CITATION.cff",
        "book", "labs", "privlab", "data_scripts", "tests",
    }  # fmt: skip
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    top = {name.split("/")[0] for name in listed} - {".ci", ".github", ".gitignore", ".gitattributes"}
    assert top <= allowed


def test_a_clone_with_the_line_ends_of_windows_is_the_same(tmp_path):
    command = ["git", "clone", "--quiet", "--shared", "--config", "core.autocrlf=true", ROOT, tmp_path / "clone"]
    subprocess.run(command, check=True)
    assert b"\r" not in (tmp_path / "clone/data_scripts/environment.sh").read_bytes()
    assert pairing.stale(tmp_path / "clone/labs") == []


def test_no_registry_host_and_no_large_file_is_tracked():
    hosts = "|".join(["pypi" + r"\.org", "files\\.python" + "hosted", "registry\\.npm" + "js", "deb\\.deb" + "ian"])
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split():
        path = ROOT / name
        if not path.exists():
            continue
        assert path.stat().st_size <= 2_000_000, name
        assert not re.search(hosts, path.read_text(errors="ignore")), name
