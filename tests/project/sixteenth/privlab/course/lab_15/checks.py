"""Lab 15: counting pixels."""

from privlab.notebook.kit import number

fewer = number(16, {4: "That is one side. The other becomes shorter, too."}, "Divide 32 x 32 by 8 x 8.")
