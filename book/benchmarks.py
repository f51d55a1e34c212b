"""The committed measurements of `make bench` and `make soak` as tables: the benchmark page, and that of the second-order chapter."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

_BENCHES = {  # the files of `make bench`, and what a reader should know of each
    "bench_attacks": "Five model inversions on the same victims, with and without the skips of the last stage (`skip_4`, which is "
    "RoLSS): the attack accuracy, as another network sees it, of 40 pictures a draw, and what the judge saw in the first choice. Seconds "
    "are those of the attack, and of training its generator and LOMMA's students (few where the store had them), on one thread.",
    "bench_closed_form": "What the closed forms reach: PSNR over 4 images and 2 seeds, and seconds beside a plain solve.",
    "bench_derivative": "A search by differences (`derivative='auto'`) beside the same one by differentiating twice: what it finds, the "
    "price of a network that it has to turn down, and memory. A signed Adam is chaotic, so one exact search differs from another whose "
    "start is moved by a millionth; *width* is how far six of these lie apart, photograph by photograph.",
    "bench_training": "Training under bf16 autocast beside float32: seconds of an epoch on one thread, and five fleets of shadow models "
    "each way, with photographs and weights of their own.",
    "bench_threads": "The rule for OpenMP's threads (privlab/compute/threads.py) on a quiet machine, beside what torch does by itself, and "
    "in a crowd of as many programs as there are cores, beside one thread: medians of ten alternating pairs. *Two threads* is a kernel "
    "that started before the crowd came.",
    "bench_import": "What a reader waits for before anything happens, each in a process of its own. torch, timm and the drawing library "
    "take nearly all of it: they stand beside.",
    "bench_gradient": "Our search for images beside the package `breaching`, on the same models and gradients, and one architecture beside "
    "another. A run that never reaches 20 dB counts as later than all others. The preset of `breaching` is meant for 24,000 steps; it was "
    "followed for as many as its row says, so *not decided* is said where only its later steps could tell. *exact* differentiates twice, "
    "as `breaching` does; *auto* goes by differences of first derivatives, its comparisons with the exact direction included.",
    "bench_gradvit": "GradViT beside other attacks: what a step takes in memory, what compiling the step saves, and what each finds in "
    "about the same seconds of one thread. Those are 100 to 200 steps, where the papers take 1,500 to 120,000: the last rows say what is "
    "worth trying on a laptop, not what an attack can do. A short run set the number of steps; what they took in the end stands beside. "
    "GradViT runs with the paper's weights, under which the statistics of EfficientNet-lite0 at 32 pixels drown the gradients in the "
    "second half of the run.",
    "bench_second_order": "Gauss-Newton beside Adam (`annealed`) and L-BFGS (on Gauss-Newton's own loss) at equal passes: a gradient of "
    "the network, a J v or a J^T u is one pass, a step of Adam takes two. Photographs on which no setting was chosen. The 14 steps have a "
    "quarter of the channels and one block a stage where *half* is not said. On `vit_std_1` Gauss-Newton stops at a score of 1e-6.",
    "bench_membership_scores": "All models of a fleet as targets, scored in closed form, beside target by target with NumPy and SciPy; "
    "one thread.",
    "bench_measure": "`python -m privlab measure` on two processes beside one: 16 repeats of one experiment, from the start of the command "
    "to its end, and the same values, to the bit.",
    "bench_marking": "A class graded by `python -m privlab grade`: thirty notebooks of lab 00, one after another, each with a kernel of "
    "its own.",
    "bench_fleet": "A fleet of 16 on two processes, beside the same fleet on one and beside the standard library's pool; the same weights, "
    "to the bit. In the first of the three rounds another program was using one of the cores.",
}


def page(baselines: Path) -> str:
    """The committed measurements of `make bench`, bench_*.json in the folder, and of `make soak`, soak.json, as tables."""
    made = [
        "# Benchmarks\n",
        "From `make bench`: medians, with the lowest and the highest. Seconds are of a shared machine: read the ratios.\n",
    ]
    for path in sorted(baselines.glob("bench_*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        at = found["machine"]
        made.append(f"## {path.stem.removeprefix('bench_').replace('_', ' ').capitalize()}\n")
        made.append(_BENCHES[path.stem] + "\n")
        made.append(
            f"Measured on {found['date']}: {at['device_name']}, {at['cpus']} cores, {at['threads']} thread(s), torch {at['torch']}, "
            f"timm {at['timm']}.\n"
        )
        made.append("| what | median | range | n | promised | beside |")
        made.append("|---|---:|---:|---:|---:|---|")
        made += [_bench_row(row | _day(row, found["date"])) for row in found["rows"]]
        made.append("")
    if (path := baselines / "soak.json").exists():
        made += _soak(json.loads(path.read_text(encoding="utf-8")))
    return "\n".join(made)


def _soak(found: dict) -> list[str]:
    """The whole book at `smoke` again and again: how often each lab failed, and what it took."""
    at, labs = found["machine"], found["labs"]
    runs, failed = (sum(lab[of] for lab in labs.values()) for of in ("runs", "failed"))
    made = " or ".join(map(str, sorted({*found["trained"]})))
    return [
        "## The same book again and again\n",
        f"`make soak`: {found['rounds']} rounds of every lab at `smoke`, two at a time, each control moved to its ends; in "
        f"{len(found['trained'])} of them nothing had been trained before, and {made} models and searches were made anew in each. "
        f"Of {runs} runs {failed} failed. "
        f"{len(found['differ']) or 'No'} figure{'s' * (len(found['differ']) != 1)} came out other than in the first round: "
        f"{'; '.join(found['differ']) or 'same seed, same machine, same numbers'}.\n",
        f"{at['device_name']}, {at['cpus']} cores, torch {at['torch']}.\n",
        "| lab | runs | failed | seconds, median | range | peak GB |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {name} | {of['runs']} | {of['failed']} | {of['seconds'][1]:.0f} | {of['seconds'][0]:.0f} to {of['seconds'][2]:.0f} | "
            f"{of['peak_gb']:.2f} |"
            for name, of in labs.items()
        ),
        "",
    ]


def _place(net: str) -> tuple:
    """Where a network stands in the table: the families first, then the morph step by step."""
    kind, _, rest = net.partition("_")
    step = int(rest.partition("_")[0]) if kind == "morph" else 0
    return kind == "morph", rest.endswith("half"), step, net


def second_order(baselines: Path) -> str:
    """Three searches side by side, network by network, for the chapter on the second-order search."""
    runs = json.loads((baselines / "bench_second_order.json").read_text(encoding="utf-8"))["runs"]
    found: dict[tuple, dict[str, list[tuple]]] = {}
    for run in runs:
        if run["batch"] == 1 and run["method"] in ("adam", "lbfgs", "gauss_newton"):
            of = found.setdefault((run["net"], run["passes"]), {}).setdefault(run["method"], [])
            of.append(((run["image"], run["seed"]), run["psnr"]))

    def shown(values: list[float]) -> str:
        return (
            f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f}, n={len(values)})" if values else "not run"
        )

    def lead(by: dict[str, list[tuple]]) -> str:
        """Of Gauss-Newton over Adam, search by search."""
        one, other = (dict(by.get(method, [])) for method in ("gauss_newton", "adam"))
        gaps = [one[which] - other[which] for which in one if which in other]
        return f"{median(gaps):+.1f} ({min(gaps):+.1f} to {max(gaps):+.1f})" if gaps else "not run"

    lines = [
        "| network | passes | Adam | L-BFGS | Gauss-Newton | Gauss-Newton less Adam |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for (net, passes), by in sorted(found.items(), key=lambda case: (_place(case[0][0]), case[0][1])):
        each = " | ".join(shown([psnr for _, psnr in by.get(m, [])]) for m in ("adam", "lbfgs", "gauss_newton"))
        lines.append(f"| {net.replace('_', ' ').replace('0p', '.')} | {passes:,} | {each} | {lead(by)} |")
    return "\n".join(lines) + "\n"


def _day(row: dict, today: str) -> dict:
    """A row's note with its day, where that is another than the file's."""
    return {"note": f"{row['note']}; of {row['date']}".removeprefix("; ")} if row.get("date", today) != today else {}


def _bench_row(row: dict) -> str:
    """One measured line, with what was promised of it."""
    unit = row["unit"]
    digits = {
        "dB": 1,
        "dB above the guess": 1,
        "dB apart": 2,
        "points": 2,
        "AUC": 4,
        "s": 1,
        "ms": 1,
        "GiB": 2,
        "steps": 0,
        "×": 3,
        "attack accuracy": 3,
        "held-out accuracy": 3,
        "s a candidate and step": 3,
    }[unit]

    def shown(value: float | None) -> str:
        return ("never" if unit == "steps" else "no number") if value is None else f"{value:,.{digits}f}"

    verdict = {True: "holds", False: "**does not hold**", None: "not decided"}[row["holds"]]
    promise = f"{row['promise']}: {verdict}" if row["promise"] else ""
    median = shown(row["median"]) if row["median"] is None else f"{shown(row['median'])} {unit}"
    return f"| {row['what']} | {median} | {shown(row['low'])} to {shown(row['high'])} | {row['n']} | {promise} | {row['note']} |"
