"""Who is private and who is public in a model inversion, draw by draw.

Each draw has its own private people, with photographs to train on and to test on, and public people for the attacker's prior. The
photographs of all draws lie in one row, so that one fleet holds the victims of all of them: model i is trained on draw i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from privlab.data import attributes, identities


@dataclass(frozen=True, repr=False)
class Split:
    """One choice of people.

    people, public_people: identities as in the set, in rising order; they share none.
    all, train, test: places in `PrivatePublic.pixels`; `all` holds the other two.
    public: the attacker's photographs, uint8 (m, channels, height, width).
    """

    people: Tensor
    public_people: Tensor
    all: Tensor
    train: Tensor
    test: Tensor
    public: Tensor


@dataclass(frozen=True, repr=False)
class PrivatePublic:
    """The private photographs of all draws, and the draws.

    pixels: uint8 (n, channels, height, width).  labels: (n,) who, numbered from 0 within each draw.  draws: see `Split`.
    """

    pixels: Tensor
    labels: Tensor
    draws: list[Split]

    def __repr__(self) -> str:
        one = self.draws[0]
        return (
            f"{len(self.draws)} draws of {len(one.people)} private people ({len(one.train)} photographs to train on, {len(one.test)} to "
            f"test) and {len(one.public_people)} public ones ({len(one.public)} photographs)"
        )

    def keep(self, all: bool = False) -> Tensor:
        """A keep matrix for `shadow_models.make`, (draws, n) bool: model i sees the training photographs of draw i, or all of them."""
        rows = torch.zeros(len(self.draws), len(self.labels), dtype=torch.bool)
        for i, draw in enumerate(self.draws):
            rows[i, draw.all if all else draw.train] = True
        return rows

    def evaluation_keep(self) -> Tensor:
        """A keep matrix for the evaluation models of all draws, (2 x draws, n) bool: each draw's own, then their twins.

        These see all photographs of their draw; a twin sees the training ones alone, and what it makes of the others says how far its
        evaluation model can be trusted.
        """
        return torch.cat([self.keep(all=True), self.keep()])

    def photographs(self, i: int) -> tuple[Tensor, Tensor]:
        """All private photographs of draw i, and who is on them."""
        return self.pixels[self.draws[i].all], self.labels[self.draws[i].all]


def draw(
    pixels: Tensor,
    labels: Tensor,
    private: int | Sequence[int],
    held_out: int | float,
    seeds: Sequence[int],
    each: int | None = None,
    public: int | Tensor | None = None,
) -> PrivatePublic:
    """Draw the private people once for each seed.

    pixels: (n, channels, height, width), bytes.  labels: (n,) who is on them.
    private: how many people, drawn by the seed; or who, the same in each draw, which then differ in their photographs.
    held_out: photographs of each person kept for the test, see `identities.hold_out`.
    each: photographs of each private person, drawn by the seed; all if not given.
    public: photographs of all public people together, drawn too; or, instead of theirs, the photographs of another set, bytes.
    Raises ValueError where nobody would be left on one side.
    """
    everybody, outside = labels.unique(), public if isinstance(public, Tensor) else None
    for name, value in (("each", each), ("public", public)):
        if value is not None and not isinstance(value, Tensor):
            attributes.count(name, value)
    if not isinstance(private, int) and len(set(private)) < len(private):
        raise ValueError(f"private={private!r} names somebody twice; name each once")
    parts, names, draws, at = [], [], [], 0
    for seed in seeds:
        if not isinstance(private, int):
            mine = torch.tensor(sorted(private))
        elif outside is not None and private == len(everybody):
            mine = everybody
        else:
            mine = identities.split(labels, private, seed)[0]
        others = everybody[~torch.isin(everybody, mine)]
        if not torch.isin(mine, everybody).all() or (len(others) == 0 and outside is None):
            raise ValueError(
                f"private={private!r} of the people {everybody.tolist()[:12]}: choose some, and leave some"
            )
        identities.check_disjoint(mine, others)
        shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        rows = torch.cat([shuffled[labels[shuffled] == who][:each] for who in mine])
        theirs = pixels[shuffled[torch.isin(labels[shuffled], others)][:public]] if outside is None else outside
        who = torch.searchsorted(mine, labels[rows])
        train, test = identities.hold_out(who, held_out, seed)
        draws.append(Split(mine, others, torch.arange(at, at + len(rows)), train + at, test + at, theirs))
        parts.append(pixels[rows])
        names.append(who)
        at += len(rows)
    return PrivatePublic(torch.cat(parts), torch.cat(names), draws)
