"""What a closed form gives back: images, and how well the system behind them was determined."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Recovery:
    """What a linear system gave back.

    images: (1, channels, height, width), in pixels but not clamped: a value outside [0, 1] says that something was lost.
    condition: largest over smallest singular value of the system that was solved, undamped.
    rank: directions that stand above the noise.  unknowns: how many there are; with a lower rank some directions stay undetermined.
    """

    images: Tensor
    condition: float
    rank: int
    unknowns: int

    @property
    def clamped(self) -> Tensor:
        """The images with every pixel moved into [0, 1]."""
        return self.images.clamp(0, 1)

    @property
    def hidden(self) -> int:
        """Directions that the system leaves undetermined."""
        return self.unknowns - self.rank
