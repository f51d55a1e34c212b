"""Who is private and who is public in a model inversion, draw by draw.

Each draw has its own private people, with photographs to train on and to test on, and public people for the attacker's prior. The
photographs of all draws lie in one row, so that one fleet holds the victims of all of them: model i is trained on draw i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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

    def keep(self, all: bool = False) -> Tensor:
        """A keep matrix for `shadow_models.make`, (draws, n) bool: model i sees the training photographs of draw i, or all of them."""
        rows = torch.zeros(len(self.draws), len(self.labels), dtype=torch.bool)
        for i, draw in enumerate(self.draws):
            rows[i, draw.all if all else draw.train] = True
        return rows

    def evaluation_keep(self) -> Tensor:
        """A keep matrix for the evaluation models of all draws, (2 x draws, n) bool: each draw's own, which see all its photographs,
        then their twins without the held-out ones, which say how far those can be trusted.
        """
        return torch.cat([self.keep(all=True), self.keep()])

    def photographs(self, i: int) -> tuple[Tensor, Tensor]:
        """All private photographs of draw i, and who is on them."""
        return self.pixels[self.draws[i].all], self.labels[self.draws[i].all]


def draw(
    pixels: Tensor, labels: Tensor, private: int | Sequence[int], held_out: int | float, seeds: Sequence[int],
    each: int | None = None, public: int | Tensor | None = None,
) -> PrivatePublic:  # fmt: skip
    """Draw the private people once for each seed; nobody is on both sides (Koh et al. 2024, section 8).

    pixels: (n, channels, height, width), bytes.  labels: (n,) who is on them.
    private: how many people, drawn by the seed; or who, the same in each draw, which then differ in their photographs.
    held_out: photographs of each person kept for the test, see `hold_out`.
    each: photographs of each private person, drawn by the seed; all if not given.
    public: photographs of all public people together, drawn too; or, instead of theirs, the photographs of another set, bytes.
    """
    everybody = labels.unique()
    parts, names, draws, at = [], [], [], 0
    for seed in seeds:
        if isinstance(private, int):
            chosen = torch.randperm(len(everybody), generator=torch.Generator().manual_seed(seed))[:private]
            mine = everybody[chosen].sort().values
        else:
            mine = torch.tensor(sorted(private))
        others = everybody[~torch.isin(everybody, mine)]
        shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        whose = labels[shuffled]
        rows = torch.cat([shuffled[whose == who][:each] for who in mine])
        of_others = shuffled[torch.isin(whose, others)]
        theirs = public if isinstance(public, Tensor) else pixels[of_others[:public]]
        who = torch.searchsorted(mine, labels[rows])
        train, test = hold_out(who, held_out, seed)
        draws.append(Split(mine, others, torch.arange(at, at + len(rows)), train + at, test + at, theirs))
        parts.append(pixels[rows])
        names.append(who)
        at += len(rows)
    return PrivatePublic(torch.cat(parts), torch.cat(names), draws)


def hold_out(labels: Tensor, each: int | float, seed: int) -> tuple[Tensor, Tensor]:
    """Keep the same number of photographs of every person for the test.

    labels: (n,) the identity of each photograph.
    each: how many of each person; or, below 1, the share of all photographs, which is then divided evenly among the people (0.1 as in
        PPA, which however draws without regard to the person).
    Returns (train, test): places in `labels` in rising order, int64; together they are all, and each person is in both.
    Raises ValueError where somebody would have no photograph left to train on.
    """
    people, counts = labels.unique(return_counts=True)
    number = max(1, round(each * len(labels) / len(people))) if each < 1 else int(each)
    if number >= (fewest := int(counts.min())):
        raise ValueError(
            f"each={each!r} leaves identity {people[counts.argmin()]}, which has {fewest}, none to train on"
        )
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    whose = labels[drawn]
    test = torch.cat([drawn[whose == person][:number] for person in people]).sort().values
    in_test = torch.isin(torch.arange(len(labels)), test)
    return (~in_test).nonzero()[:, 0], test
