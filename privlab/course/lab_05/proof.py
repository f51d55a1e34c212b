"""The proof of APRIL's theorems on one network and one image: a row for each equation, with the error between its two sides.

Lu et al. 2022, sections 3.1 to 3.3. Columns are tokens, as in the paper: z is (width, tokens), and q = Q z. Biases are added where timm's
layers have them; the paper leaves them out.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form.vit import QKV, folded, pixels
from privlab.course.lab_05.experiments import difference
from privlab.leak import Leak, observe
from privlab.notebook.plots import Picture
from privlab.notebook.verdicts import CELL, TABLE

HOLDS = 1e-4  # relative error; in float64 at most 1e-6 where two sides agree, at least 3e-3 where they do not


class Row(NamedTuple):
    where: str  # in the paper
    sides: str
    error: float  # norm of the difference of the two sides over the norm of the second

    @property
    def holds(self) -> bool:
        return self.error < HOLDS


def rows(model: Any, image: Tensor, label: Tensor) -> list[Row]:
    """Every equation from 3 to 11, in the paper's order, for a model of `models.april.build` in float64."""
    leak, seen = observe(model, image, label), traced(model, image, label)
    return [*theorem_1(model.blocks[0].attn, leak, seen), *to_the_pixels(model, image, label, leak, seen["z"][0])]


def traced(model: Any, image: Tensor, label: Tensor) -> dict[str, list[Tensor]]:
    """What the first attention takes in and makes, and the loss's gradients there, (width, tokens) each; three are of q, k and v.

    Each of q, k and v is made from its own copy of z, so the gradient at a copy is one summand of equation 6.
    """
    attn, kept = model.blocks[0].attn, dict[str, Sequence[Tensor]]()

    def apart(layer: nn.Linear, entered: tuple[Tensor], made: Tensor) -> Tensor:
        copies = [entered[0].clone() for _ in range(3)]
        qkv = [F.linear(*each) for each in zip(copies, layer.weight.chunk(3), layer.bias.chunk(3), strict=True)]
        kept.update(z=entered, made=made.chunk(3, -1), copies=copies, qkv=qkv)
        return torch.cat(qkv, -1)

    attends = attn.proj.register_forward_hook(lambda _, entered, made: kept.update(h=entered, a=[made]))
    with attn.qkv.register_forward_hook(apart), attends:
        loss = F.cross_entropy(model(model.normalise(image)), label)
    grads = torch.autograd.grad(loss, [*kept["z"], *kept["copies"], *kept["qkv"]])
    kept |= {"dz": grads[:1], "summands": grads[1:4], "dqkv": grads[4:]}
    return {name: [t[0].detach().T for t in those] for name, those in kept.items()}


def theorem_1(attn: Any, leak: Leak, seen: dict[str, list[Tensor]]) -> Iterator[Row]:
    """Equations 3 to 8, and z from the gradients at attention's weights, if the gradient at z is known."""
    (z,), (dz,), (h,), (a,) = (seen[name] for name in ("z", "dz", "h", "a"))  # (width, tokens) each
    weights, sent = (stacked.detach().chunk(3) for stacked in (attn.qkv.weight, leak[QKV]))  # and their gradients
    yield _row("eq. 3", "q = Qz, k = Kz, v = Vz", torch.cat(seen["qkv"]), torch.cat(seen["made"]))
    q, k, v = (part.unflatten(0, (attn.num_heads, -1)) for part in seen["qkv"])  # (heads, width of a head, tokens)
    mixed = v @ (q.mT @ k / q.shape[1] ** 0.5).softmax(-1).mT
    yield _row("eq. 4", "h = v softmax(qᵀk / √d)ᵀ, head by head", mixed.flatten(0, 1), h)
    yield _row("eq. 5", "a = Wh", F.linear(h.T, *(part.detach() for part in attn.proj.parameters())).T, a)
    back = [W.T @ dq for W, dq in zip(weights, seen["dqkv"], strict=True)]
    for name, one, summand in zip("QKV", back, seen["summands"], strict=True):
        of = name.lower()
        yield _row("eq. 6", f"{name}ᵀ ∂ℓ/∂{of} = what reaches z through {of}", one, summand)
    yield _row("eq. 6", "Qᵀ ∂ℓ/∂q + Kᵀ ∂ℓ/∂k + Vᵀ ∂ℓ/∂v = ∂ℓ/∂z", sum(back), dz)
    for name, dq, dQ in zip("QKV", seen["dqkv"], sent, strict=True):
        yield _row("eq. 7", f"∂ℓ/∂{name.lower()} zᵀ = ∂ℓ/∂{name}", dq @ z.T, dQ)
    b = sum(W.T @ dW for W, dW in zip(weights, sent, strict=True))
    yield _row("eq. 8", "∂ℓ/∂z zᵀ = Qᵀ ∂ℓ/∂Q + Kᵀ ∂ℓ/∂K + Vᵀ ∂ℓ/∂V", dz @ z.T, b)
    sides = f"z = the pseudo-inverse's; rank {int(torch.linalg.matrix_rank(dz))}, {z.shape[1]} tokens"
    yield _row("Theorem 1", sides, (torch.linalg.pinv(dz) @ b).T, z)


def to_the_pixels(model: Any, image: Tensor, label: Tensor, leak: Leak, z: Tensor) -> Iterator[Row]:
    """Theorem 2 (equation 9) by differences of the loss, equation 10, and the inverse of equation 11."""
    position, normalised = leak["pos_embed"][0], model.normalise(image)
    noise = torch.randn(position.shape, generator=torch.Generator().manual_seed(0), dtype=position.dtype)
    # along the gradient alone a missing part would go unseen
    direction = position / position.norm() + noise / noise.norm()
    apart = difference(model, image, label, direction) - (position * direction).sum()
    yield Row("Theorem 2", "∂ℓ/∂E_pos = ∂ℓ/∂z by differences (eq. 9)", (apart.abs() / position.norm()).item())
    embedded = model.patch_embed(normalised)[0].detach()  # (patches, width)
    tokens = torch.cat([model.cls_token[0], embedded]) + model.pos_embed[0]  # (tokens, width)
    yield _row("eq. 10", "E_patch + E_pos = z", tokens.detach().T, z)
    patch = model.patch_embed.proj
    numbers = F.unfold(normalised, patch.kernel_size, stride=patch.stride)[0]  # (patch pixels, patches)
    sides = f"x = W_p⁺ E_patch; width {embedded.shape[1]}, {len(numbers)} numbers a patch"
    yield _row("inverse of eq. 11", sides, pixels(model, embedded).T, numbers)


def solved(model: Any, leak: Leak) -> Tensor:
    """Algorithm 1 with the position embedding's gradient as the one at z, then equations 10 and 11; the image, not clamped."""
    weight = model.blocks[0].attn.qkv.weight.detach()
    z = torch.linalg.pinv(leak["pos_embed"][0].T) @ (weight.T @ leak[QKV])  # (tokens, width)
    E_patch = (z - model.pos_embed[0].detach())[1:]  # the first is the class token
    return folded(pixels(model, E_patch), model, leak)


def table(rows: Sequence[Row]) -> Picture:
    """Rows with a tick where the sides agree, and a cross where they do not."""
    html = f'<table style="{TABLE};max-width:640px"><thead><tr>'
    for name, wide in (("paper", "6em"), ("two sides", "auto"), ("relative error", "6em")):
        html += f'<th scope="col" style="{CELL};width:{wide}">{name}</th>'
    html += "</tr></thead><tbody>"
    for where, sides, error in rows:
        said = f"{error:.0e}" if error else "0"
        mark = f"✓ {said}" if error < HOLDS else f"<strong>✗ {said}</strong>"
        html += f'<tr style="border-top:1px solid #9996"><th scope="row" style="{CELL};font-weight:normal">{where}</th>'
        html += f'<td style="{CELL}">{escape(sides)}</td><td style="{CELL}">{mark}</td></tr>'
    failed = [f"{row.where} ({row.error:.0e})" for row in rows if not row.holds]
    ends = f"These fail: {', '.join(failed)}." if failed else "All hold."
    alt = f"{len(rows)} rows of the proof, with the error between the two sides of each. {ends}"
    return Picture(html + "</tbody></table>", alt)


def _row(where: str, sides: str, one: Any, other: Tensor) -> Row:
    return Row(where, sides, ((one - other).norm() / other.norm()).item())
