"""The command audit. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path


def add_audit(commands: argparse._SubParsersAction) -> None:
    short = "attack one model as the book does: what an image's gradient leaks, from which parts, and which defence costs least"
    parser = commands.add_parser(
        "audit",
        help=short,
        description=f"{short}. "
        "The command prints a report, and writes audit.html (with pictures) and audit.json to --out. For a model object, use privlab.audit "
        "in Python. Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C (during the search the report has what was found so far).",
    )
    parser.add_argument("name", metavar="NAME", help="a model of timm or of the zoo, such as vit_base_patch16_224")
    parser.add_argument(
        "--images",
        metavar="FOLDER_OR_SET",
        help="image files, or a set such as imagenet_samples (default: public photographs)",
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="a .safetensors file with its state dict (default: fresh weights)"
    )
    parser.add_argument(
        "--classes", type=int, metavar="N", help="number of classes of its head (default: as the model has it)"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="M", help="minutes for the search (default: a short search)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, images and noise (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the report goes (default: runs/audit_NAME)")
    parser.set_defaults(call=_audit)


def _audit(options: argparse.Namespace) -> int:
    from privlab.auditing import arguments, audit, inputs
    from privlab.compute.atomic import make_folder, write_atomic

    arguments.numbers(15.0, options.minutes, None, options.seed)  # said now, and not after the model is built
    out = options.out or Path("runs") / f"audit_{options.name}"
    try:
        model = inputs.named(options.name, options.classes, options.weights, options.seed)
        shape = inputs.input_shape(model, options.name)
        images, labels, public = inputs.photographs(options.images, model, shape, options.seed)
        bar = sys.stderr.isatty()
        make_folder(out)
        for number in (signal.SIGINT, signal.SIGTERM):  # what follows has something to keep
            signal.signal(number, signal.default_int_handler)
        report = audit(
            model,
            images,
            labels,
            name=options.name,
            public=public,
            minutes=options.minutes,
            seed=options.seed,
            progress=bar,
        )
    except KeyboardInterrupt:
        print("\nstopped before there was a result to report", file=sys.stderr)
        return 130
    settings = {
        "weights": str(options.weights) if options.weights else "fresh",
        "images": options.images or "public photographs",
    }
    write_atomic(out / "audit.json", (json.dumps({"command": settings, **report.json()}, indent=1) + "\n").encode())
    report.page(out / "audit.html")
    print(report.text(), "", f"wrote {out / 'audit.html'} and {out / 'audit.json'}", sep="\n")
    return 130 if report.search.ended == "interrupted" else 0
