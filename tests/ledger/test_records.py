"""Records: what goes on record, what is refused, and how a figure sums it up."""

from __future__ import annotations

import json
import math
import platform
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import privlab
from privlab.ledger.records import IN_LOGS, MIME, Machine, Record, record

WHERE = {"lab": "05", "profile": "smoke", "seed": 0, "device": "cpu", "mode": "eval", "victim": "fresh"}
numbers = st.floats(-1e6, 1e6)


def make(metric="psnr", keys=("closed_form", "arch_a"), values=(40.0, 42.0), **changes) -> Record:
    return record(metric, keys, values, **{**WHERE, **changes})


def test_a_record_holds_what_was_said():
    made = make(position_std=1, unit="dB", seconds=2, note="four images", seed=3)
    assert made.name == "psnr[closed_form, arch_a]" and made.values == (40.0, 42.0)
    assert (made.position_std, made.unit, made.seconds, made.note, made.seed) == (1.0, "dB", 2.0, "four images", 3)
    assert str(made) == ("psnr[closed_form, arch_a] = 41 ± 1.4 (n=2), in dB; eval mode, victim fresh, position std 1")


@pytest.mark.parametrize(
    "values, expected",
    [
        (1.5, (1.5,)),
        (3, (3.0,)),
        (torch.tensor(2.0, dtype=torch.bfloat16), (2.0,)),
        (torch.tensor([1.0, 2.0], requires_grad=True), (1.0, 2.0)),
        (np.array([1.0, 2.0]), (1.0, 2.0)),
        ([torch.tensor(1.0), torch.tensor(2.0)], (1.0, 2.0)),
        ([True, False], (1.0, 0.0)),
    ],
)
def test_values_come_in_many_kinds(values, expected):
    made = make("auc", ["x"], values).values
    assert made == expected and all(type(v) is float for v in made)


def test_exact_images_are_stored_as_320_db_and_counted():
    made = make(values=[math.inf, 300.0, math.inf])
    assert made.values == (320.0, 300.0, 320.0) and made.exact == 2
    assert "n=3, 2 of them exact" in str(made)
    exact = make("mse", values=[0.0, 1e-20], unit="pixels")
    assert exact.values == (0.0, 1e-20) and exact.exact == 1
    assert exact.figure.centre == pytest.approx(1e-26)  # a 0 counts as 1e-32, which is 320 dB


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"values": [1.0, math.nan]}, r"values of psnr\[closed_form, arch_a\]: repeat 1 is nan; find out why"),
        ({"values": [-math.inf]}, r"repeat 0 is -inf"),
        ({"metric": "ssim", "values": [math.inf]}, r"values of ssim\[.*\]: repeat 0 is inf"),
        ({"metric": "relative_error", "values": [-1e-9]}, r"repeat 0 is -1e-09; an error cannot be negative"),
        ({"values": torch.zeros(2, 3)}, r"have the shape \(2, 3\); give one number a repeat"),
        ({"values": []}, r"have the shape \(0,\); give one number a repeat"),
        ({"values": "high"}, r"values='high' of psnr\[.*\]; give a number, a list of numbers or a tensor"),
        ({"values": None}, r"values=None of psnr"),
        ({"keys": []}, r"keys=\[\]; give a list with at least one name"),
        ({"keys": "arch_a"}, r"keys='arch_a'; give a list"),
        ({"keys": ["ResNet-50"]}, r"keys: 'ResNet-50' is no snake-case name; try one like 'vit_b_16'"),
        ({"keys": ["4_patches"]}, r"keys: '4_patches' is no snake-case name"),
        ({"keys": ["lambda"]}, r"keys: 'lambda' is no snake-case name"),
        ({"metric": "PSNR"}, r"metric: 'PSNR' is no snake-case name"),
        ({"profile": "huge"}, r"profile='huge'; try one of smoke, class, night, gpu, paper"),
        ({"mode": "test"}, r"mode='test' of psnr.*'eval' or in 'train' mode"),
        ({"victim": ""}, r"victim='' of psnr.*such as 'fresh'"),
        ({"metric": "mse", "values": 0.1}, r"unit=None of mse.*'pixels' in \[0, 1\] or of 'normalised' images"),
        ({"metric": "log10_mse", "values": -3.0, "unit": "dB"}, r"unit='dB' of log10_mse"),
    ],
)
def test_what_cannot_go_on_record_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


@given(st.lists(numbers, min_size=2, max_size=20))
def test_a_figure_is_the_mean_and_the_standard_deviation(values):
    figure = make("ssim", values=values).figure
    assert figure.centre == pytest.approx(np.mean(values)) and figure.n == len(values)
    assert figure.spread == pytest.approx(np.std(values, ddof=1), abs=1e-6)


@given(st.lists(st.floats(1e-20, 1e20), min_size=2, max_size=20), st.floats(1e-6, 1e6))
def test_errors_are_summed_up_in_logs(values, factor):
    figure, scaled = (make("mse", values=v, unit="pixels").figure for v in (values, [v * factor for v in values]))
    assert figure.centre == pytest.approx(np.exp(np.mean(np.log(values))))
    assert scaled.centre == pytest.approx(
        figure.centre * factor
    )  # the scale of an MSE moves its centre and not its spread
    assert scaled.spread == pytest.approx(figure.spread)
    assert min(values) * (1 - 1e-9) <= figure.centre <= max(values) * (1 + 1e-9)


def test_one_repeat_has_no_spread():
    figure = make(values=40.0).figure
    assert figure.spread is None and str(figure) == "psnr[closed_form, arch_a] = 40 (n=1)"
    assert (
        str(make("mse", values=[1e-9, 4e-9], unit="pixels").figure) == "mse[closed_form, arch_a] = 2e-09 ×÷ 2.7 (n=2)"
    )
    assert "mse" in IN_LOGS and "psnr" not in IN_LOGS


def test_a_bundle_survives_a_notebook_file():
    made = make("mse", values=[0.1, 0.2 + 1e-17], unit="normalised", position_std=0.02, seconds=0.5)
    bundle = json.loads(json.dumps(made.bundle(), allow_nan=False))
    assert Record.read(bundle[MIME]) == made
    assert bundle["text/plain"] == f"recorded {made}"


def test_a_bundle_of_another_version_is_named():
    content = make().bundle()[MIME]
    for broken in ({**content, "colour": "red"}, {k: v for k, v in content.items() if k != "machine"}):
        with pytest.raises(ValueError, match=r"does not fit this privlab \(.*\); run the lab again"):
            Record.read(broken)


def test_the_machine_is_on_record():
    here = make().machine
    assert here == Machine.here("cpu")
    assert (here.python, here.torch, here.privlab) == (
        platform.python_version(),
        torch.__version__,
        privlab.__version__,
    )
    assert re.match(r"\d+\.\d+", here.timm) and here.cpus >= 1 and here.threads == torch.get_num_threads()
    assert platform.system() in here.platform and here.device_name
    assert not re.search(re.escape(platform.node() or "no name"), str(here))  # a ledger is published: no host names
