"""What a lab has measured in one run of it, and what that says of the claims.

page = ledger.Page("05", profile=profile, seed=seed, device=device)
page.record("psnr", ["closed_form", "one_image"], psnrs, mode="eval", victim="fresh")
page.show()
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from IPython import get_ipython
from IPython.display import publish_display_data
from torch import Tensor

from privlab import compute
from privlab.compute.machine import Machine
from privlab.ledger import report
from privlab.ledger.evidence import checked
from privlab.ledger.records import Record, record


def key(name: str) -> str:
    """A network's name as records have it: "ResNet-101" becomes resnet_101, timm's "resnet18.a1_in1k" resnet18_a1_in1k."""
    return name.lower().replace("-", "_").replace(".", "_")


class Page:
    """One lab's page in the ledger, for one run of it.

    lab: two digits.  profile: one of smoke, class, night, gpu, paper.  device: a torch device, or "auto" for CUDA where there is
    a card and the CPU elsewhere; `page.device` then says which.
    Raises ValueError for a lab or profile out of form.
    """

    def __init__(self, lab: str, *, profile: str, seed: int = 0, device: str | torch.device = "cpu") -> None:
        if not (isinstance(lab, str) and len(lab) == 2 and lab.isdigit()):
            raise ValueError(f"lab={lab!r}; give its two digits as text, such as '05'")
        checked(profile, "profile")
        self.lab, self.profile, self.seed, self.device = lab, profile, int(seed), compute.device(str(device))
        self.machine = Machine.here(self.device)
        self._records: dict[str, Record] = {}

    @property
    def records(self) -> list[Record]:
        """What is on the page, in order. A name recorded again, as when a cell is run again, replaces the earlier one."""
        return list(self._records.values())

    def record(
        self,
        metric: str,
        keys: Sequence[str],
        values: float | Sequence[float] | Tensor,
        *,
        mode: str,
        victim: str,
        position_std: float | None = None,
        unit: str | None = None,
        seconds: float | None = None,
        note: str = "",
    ) -> None:
        """Put a measured quantity on the page and into the notebook's output.  See `records.record` for the arguments."""
        entry = record(
            metric, keys, values, mode=mode, victim=victim, position_std=position_std, unit=unit, seconds=seconds, note=note,
            lab=self.lab, profile=self.profile, seed=self.seed, device=self.device, machine=self.machine,
        )  # fmt: skip
        self._records[entry.name] = entry
        if get_ipython() is None:
            print(entry.bundle()["text/plain"])
        else:
            publish_display_data(entry.bundle())

    def show(self, paper: str | None = None) -> report.Panel:
        """See `report.show`."""
        return report.show(self.lab, paper)
