"""A lesson plan for each lab: minutes, what to show, what to ask, what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

FILE = "lesson_plans.yaml"


@dataclass(frozen=True)
class Plan:
    """steps: (minutes, what to show, what to ask).  wrong: (what goes wrong, what to do).  home: exercises that can wait."""

    lab: str
    aim: str
    steps: tuple[tuple[int, str, str], ...]
    wrong: tuple[tuple[str, str], ...]
    home: tuple[str, ...]

    @property
    def minutes(self) -> int:
        """Of all steps."""
        return sum(minutes for minutes, _, _ in self.steps)


@cache
def plans() -> tuple[Plan, ...]:
    """The plans in the order of the labs.  Raises ValueError for an entry of the file that is none."""
    text = (resources.files("privlab.teaching") / FILE).read_text(encoding="utf-8")
    return tuple(_plan(entry) for entry in yaml.safe_load(text))


def _plan(one: dict[str, Any]) -> Plan:
    steps, wrong = [line.split(" | ") for line in one["steps"]], [line.split(" | ") for line in one["wrong"]]
    if any(len(step) != 3 or not step[0].isdigit() for step in steps) or any(len(each) != 2 for each in wrong):
        raise ValueError(f"{FILE}: lab {one['lab']} has a step without minutes | show | ask, or a wrong without a cure")
    timed = tuple((int(minutes), show, ask) for minutes, show, ask in steps)
    return Plan(one["lab"], one["aim"], timed, tuple((what, cure) for what, cure in wrong), tuple(one["home"]))


def page() -> str:
    """All plans in Markdown, a section for each lab."""
    parts = [
        "# Lesson plans",
        "A plan for each lab. The minutes are estimates. Words in `this font` are exercises of the lab. Ask before you show: "
        "an answer that can be wrong is what makes the result stick.",
    ]
    for plan in plans():
        steps = "\n".join(f"| {minutes} | {show} | {ask} |" for minutes, show, ask in plan.steps)
        wrong = "\n".join(f"- *{what}* {cure}" for what, cure in plan.wrong)
        home = f"For home: {', '.join(f'`{name}`' for name in plan.home)}." if plan.home else ""
        parts += [
            f"## Lab {plan.lab} ({plan.minutes} minutes)",
            f"What students leave with: {plan.aim}",
            f"| minutes | show | ask |\n|---:|---|---|\n{steps}",
            *([home] if home else []),
            "What goes wrong, and what to do:",
            wrong,
        ]
    return "\n\n".join(parts) + "\n"
