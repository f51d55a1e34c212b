"""Lab 05: the right-hand side of eq. 8, Algorithm 1, the rank rule; deeper, noise, a width that protects, and a safe design."""

import torch

from privlab.notebook.kit import function

noise = function(
    lambda g, relative: relative * g.norm() / g.numel() ** 0.5,
    [(torch.full((100,), 3.0), 0.1), (torch.tensor([3.0, -4.0]), 0.5)],
    {
        "That is relative * |g|: each of the numbers gets noise, so the noise as a whole would be too large, ten times for 100 numbers.":
            lambda g, relative: relative * g.norm(),
        "That divides by the count; a sum of n squares grows with n, its root with sqrt(n).":
            lambda g, relative: relative * g.norm() / g.numel(),
        "That is the variance; give the standard deviation.": lambda g, relative: (relative * g.norm()) ** 2 / g.numel(),
    },
    "What is the squared norm of the whole noise, and how many numbers share it?",
)  # fmt: skip
rank = function(
    lambda side, patch: min(3 * patch**2, (side - 1) ** 2),
    [(4, 8), (2, 16), (8, 4), (14, 16)],
    {
        "A patch has only 3 p^2 numbers, so no more than that can be hidden.": lambda side, patch: (side - 1) ** 2,
        "That is the rank, what the embedding shows; the question is what it hides.": lambda side, patch: 2 * side - 1,
    },
    "Rows sum to zero and columns sum to zero: how many free entries does the table then have?",
)
design = function(
    lambda patches, k: patches - 1 - k,
    [(16, 10), (16, 1), (64, 40), (16, 15)],
    {
        "That hides one direction too few: the column of ones takes a rank as well.": lambda patches, k: patches - k,
        "So many directions are hidden. Asked for is the rank of the embedding that hides them.": lambda patches, k: k,
    },
    "[E 1] hides patches - rank[E 1] directions; you need k, at the largest rank of E.",
)


def _attention(width: int, tokens: int) -> tuple[torch.Tensor, ...]:
    """The stacked weights of an attention, their gradients, and the gradient at its input; columns are tokens."""
    draw = torch.Generator().manual_seed(width)
    weight = torch.randn(3, width, width, generator=draw, dtype=torch.float64)
    z, *dqkv = torch.randn(4, width, tokens, generator=draw, dtype=torch.float64)
    return weight.flatten(0, 1), torch.cat(dqkv) @ z.T, sum(W.T @ dq for W, dq in zip(weight, dqkv, strict=True))


theorem = function(
    lambda weight, gradient: weight.T @ gradient,
    [_attention(3, 3)[:2]],
    {
        "That is the transpose: the transposed weight stands on the left, its gradient on the right.": lambda w, g: g.T @ w,
        "That is the part of q alone: sum over query, key and value.": lambda w, g: w[:3].T @ g[:3],
    },
    "b is (width, width). Write it out for the query alone first: the transposed Q times its gradient.",
)  # fmt: skip
algorithm = function(
    lambda weight, gradient, dz: (torch.linalg.pinv(dz) @ weight.T @ gradient).T,
    [_attention(6, 3), _attention(8, 5)],
    {
        "That is the transpose of z, (tokens, width): the last line of Algorithm 1 is missing.":
            lambda weight, gradient, dz: torch.linalg.pinv(dz) @ weight.T @ gradient,
        "Your b has the part of Q alone; add those of K and V.":
            lambda weight, gradient, dz: (torch.linalg.pinv(dz) @ weight[: len(dz)].T @ gradient[: len(dz)]).T,
    },
    "z is (width, tokens). Check the five lines one by one: Q, K and V; their gradients; b; the pseudo-inverse; the transpose.",
)  # fmt: skip

width = function(
    lambda width, size, patch: max(0, (size // patch) ** 2 - (width - 1)),
    [(768, 224, 16), (192, 224, 16), (98, 224, 16), (192, 224, 32), (16, 32, 4)],
    {
        "One too few: each g_i has come back through a LayerNorm, so its numbers sum to zero and there is one equation fewer than the "
        "width. Count the rank in the cell above.": lambda width, size, patch: max(0, (size // patch) ** 2 - width),
        "The other way round: patches are unknowns, width counts equations.":
            lambda width, size, patch: max(0, width - (size // patch) ** 2),
    },
    "How many patches are there, and how many equations has each pixel column?",
)  # fmt: skip
