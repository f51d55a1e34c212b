"""Who is who in a model inversion: private people, whose photographs train the victim, and public ones for the attacker's prior."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, repr=False)
class PrivatePublic:
    """One draw of people.

    people, public_people: identities as in the set, in rising order; they share none.
    pixels: all private photographs, uint8 (n, channels, height, width).  labels: (n,) who, numbered from 0 in the order of `people`.
    train, test: places in these two; together they are all.
    public: the attacker's photographs, uint8 (m, channels, height, width).
    """

    people: Tensor
    public_people: Tensor
    pixels: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    public: Tensor

    def keep(self) -> Tensor:
        """A keep matrix for `shadow_models.make`, (1, n) bool: the model sees the training photographs."""
        return torch.isin(torch.arange(len(self.labels)), self.train)[None]

    def evaluation_keep(self) -> Tensor:
        """(2, n) bool, of evaluation models: one that sees all, then its twin without the held-out, which says how far to trust it."""
        return torch.cat([torch.ones_like(self.keep()), self.keep()])


def draw(
    pixels: Tensor, labels: Tensor, private: int | Sequence[int], held_out: int | float, seed: int,
    each: int | None = None, public: int | Tensor | None = None,
) -> PrivatePublic:  # fmt: skip
    """Draw the private people; nobody is on both sides (Koh et al. 2024, section 8).

    pixels: (n, channels, height, width), bytes.  labels: (n,) who is on them.
    private: how many people, drawn by the seed; or who, so that the seed draws their photographs alone.
    held_out: photographs of each person kept for the test, see `hold_out`.
    each: photographs of each private person, drawn by the seed; all if not given.
    public: photographs of all public people together, drawn too; or, instead of theirs, the photographs of another set, bytes.
    """
    everybody, shuffled = labels.unique(), _drawn(len(labels), seed)
    chosen = everybody[_drawn(len(everybody), seed)[:private]].tolist() if isinstance(private, int) else private
    mine = torch.tensor(sorted(chosen))
    others = everybody[~torch.isin(everybody, mine)]
    rows = torch.cat([shuffled[labels[shuffled] == who][:each] for who in mine])
    if not isinstance(public, Tensor):
        public = pixels[shuffled[torch.isin(labels[shuffled], others)][:public]]
    who = torch.searchsorted(mine, labels[rows])
    return PrivatePublic(mine, others, pixels[rows], who, *hold_out(who, held_out, seed), public)


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
        raise ValueError(f"each={each!r} leaves identity {people[counts.argmin()]}, with {fewest}, none to train on")
    drawn = _drawn(len(labels), seed)
    in_test = torch.zeros(len(labels), dtype=torch.bool)
    for person in people:
        in_test[drawn[labels[drawn] == person][:number]] = True
    return (~in_test).nonzero()[:, 0], in_test.nonzero()[:, 0]


def _drawn(n: int, seed: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))
