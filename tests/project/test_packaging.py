"""One list of dependencies for pip, conda, Binder and the lock; the Makefile's targets; and what a clone has to be."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from _pytest.mark.expression import Expression
from packaging.requirements import Requirement

from privlab.runner import pairing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = {r.name.lower().replace("_", "-"): r for r in map(Requirement, PROJECT["dependencies"])}
EXTRAS = {name: [*map(Requirement, listed)] for name, listed in PROJECT["optional-dependencies"].items()}
CONDA_NAME = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
(PIP,) = (entry["pip"] for entry in CONDA if isinstance(entry, dict))
LOCK = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]


def test_environment_yml_lists_what_pyproject_lists_with_what_dp_needs():
    listed = {}
    for entry in [*(entry for entry in CONDA if isinstance(entry, str)), *PIP]:
        name = re.match(r"[\w.-]+", entry).group()
        listed[CONDA_NAME.get(name, name).replace("_", "-")] = {*filter(None, entry[len(name) :].split(","))}
    wanted = WANTED | {r.name: r for r in EXTRAS["dp"]}
    wanted = {name: {*filter(None, str(r.specifier).split(","))} for name, r in wanted.items()}
    assert {name: bounds for name, bounds in listed.items() if name not in ("python", "pip")} == wanted


def test_the_lock_has_versions_in_every_range_and_no_addresses():
    pinned = {}
    for line in LOCK:
        name, version = re.fullmatch(r"([a-z0-9._-]+)==([\w.!+]+)(?: ; [^@]+)?", line).groups()
        pinned.setdefault(name, []).append(version)
    for one in [*WANTED.values(), *(r for listed in EXTRAS.values() for r in listed)]:
        versions = pinned[one.name.lower().replace("_", "-")]
        assert all(one.specifier.contains(version) for version in versions), one
    assert not WANTED["torch"].specifier.contains("2.13.0")  # which is broken


@pytest.mark.parametrize("python", ["3.11", pytest.param("3.13", marks=pytest.mark.check)])
def test_the_dependencies_resolve(python, tmp_path):
    """Asks the package registry, so it needs one; the same command as `make lock`, for one Python at a time."""
    command = [Path(sys.executable).parent / "uv", "pip", "compile", "pyproject.toml", "--python-version", python]
    command += ["--python-platform", "linux", "--all-extras", "--constraint", "requirements.lock", "-q"]
    done = subprocess.run([*command, "-o", tmp_path / "lock.txt"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pair = {line for line in LOCK if line.startswith(("torch==", "torchvision=="))}
    assert pair <= {*(tmp_path / "lock.txt").read_text().splitlines()}


def test_each_tier_of_tests_is_the_one_before_and_more():
    """What `make test`, `make check` and `make weekly` give pytest; beside what measures, nothing is in none of them."""
    marks, chosen = [(), ("check",), ("weekly",), ("bench",)], {}
    for target in ("test", "check", "weekly"):
        lines = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        (line,) = [line for line in lines.splitlines() if "-m pytest" in line]
        assert line.startswith("PRIVLAB_SMOKE=runs/smoke ") and "--resume --out runs/smoke" in lines
        expression = Expression.compile(shlex.split(line)[-1])
        chosen[target] = [of for of in marks if expression.evaluate(lambda name, of=of, **_: name in of)]
    assert chosen == {"test": marks[:1], "check": marks[:2], "weekly": marks[:3]}
    assert "\nmake check" in (ROOT / ".ci/run").read_text()


def test_a_clone_with_the_line_ends_of_windows_is_the_same(tmp_path):
    command = ["git", "clone", "--quiet", "--shared", "--config", "core.autocrlf=true", ROOT, tmp_path / "clone"]
    subprocess.run(command, check=True)
    assert b"\r" not in (tmp_path / "clone/data_scripts/environment.sh").read_bytes()
    assert pairing.pair(tmp_path / "clone/labs", check=True) == []


def test_no_registry_host_and_no_large_file_is_tracked():
    hosts = "|".join(["pypi" + r"\.org", "files\\.python" + "hosted", "registry\\.npm" + "js", "deb\\.deb" + "ian"])
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for path in (ROOT / name for name in listed if (ROOT / name).exists()):
        assert path.stat().st_size <= 2_000_000 and not re.search(hosts, path.read_text(errors="ignore")), path
