"""The proof of APRIL's theorems on one network and one image: a row for each equation, with the error between its two sides.

Lu et al. 2022, sections 3.1 to 3.3. Columns are tokens, as in the paper: z is (width, tokens), and q = Q z. Biases are added where timm's
layers have them; the paper leaves them out.
"""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form.vit import QKV, folded, pixels, projection
from privlab.course.lab_05.experiments import difference
from privlab.leak import Leak, observe
from privlab.notebook.plots import Picture
from privlab.notebook.verdicts import CELL, TABLE

HOLDS = 1e-4  # relative error; in float64 at most 1e-6 where two sides agree, at least 3e-3 where they do not
COLUMNS = {"paper": "6em", "two sides": "auto", "relative error": "6em"}


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
        maps = zip(copies, layer.weight.chunk(3), layer.bias.chunk(3), strict=True)
        kept.update(z=entered, made=made.chunk(3, -1), copies=copies, qkv=[F.linear(*each) for each in maps])
        return torch.cat([*kept["qkv"]], -1)

    hooks = [attn.qkv.register_forward_hook(apart)]
    hooks += [attn.proj.register_forward_hook(lambda _, entered, made: kept.update(h=entered, a=[made]))]
    loss = F.cross_entropy(model(model.normalise(image)), label)
    for hook in hooks:
        hook.remove()
    grads = torch.autograd.grad(loss, [*kept["z"], *kept["copies"], *kept["qkv"]])
    kept |= {"dz": grads[:1], "summands": grads[1:4], "dqkv": grads[4:]}
    return {name: [t[0].detach().T for t in those] for name, those in kept.items()}


def theorem_1(attn: Any, leak: Leak, seen: dict[str, list[Tensor]]) -> list[Row]:
    """Equations 3 to 8, and z from the gradients at attention's weights, if the gradient at z is known."""
    (z,), (dz,), (h,), (a,) = (seen[name] for name in ("z", "dz", "h", "a"))
    weights, sent = (W.detach().chunk(3) for W in (attn.qkv.weight, leak[QKV]))
    q, k, v = (part.unflatten(0, (attn.num_heads, -1)) for part in seen["qkv"])  # (heads, width of a head, tokens)
    mixed = v @ (q.mT @ k / q.shape[1] ** 0.5).softmax(-1).mT  # (heads, width of a head, tokens)
    projected = F.linear(h.T, attn.proj.weight.detach(), attn.proj.bias.detach()).T
    products = [W.T @ dq for W, dq in zip(weights, seen["dqkv"], strict=True)]  # (width, tokens)
    outer = [dq @ z.T for dq in seen["dqkv"]]  # (width, width)
    b = sum(W.T @ dW for W, dW in zip(weights, sent, strict=True))
    rank, found = int(torch.linalg.matrix_rank(dz)), (torch.linalg.pinv(dz) @ b).T
    return [
        _row("eq. 3", "q = Qz, k = Kz, v = Vz", torch.cat(seen["qkv"]), torch.cat(seen["made"])),
        _row("eq. 4", "h = v softmax(qᵀk / √d)ᵀ, head by head", mixed.flatten(0, 1), h),
        _row("eq. 5", "a = Wh", projected, a),
        _row("eq. 6", "Qᵀ ∂ℓ/∂q = what reaches z through q", products[0], seen["summands"][0]),
        _row("eq. 6", "Kᵀ ∂ℓ/∂k = what reaches z through k", products[1], seen["summands"][1]),
        _row("eq. 6", "Vᵀ ∂ℓ/∂v = what reaches z through v", products[2], seen["summands"][2]),
        _row("eq. 6", "Qᵀ ∂ℓ/∂q + Kᵀ ∂ℓ/∂k + Vᵀ ∂ℓ/∂v = ∂ℓ/∂z", sum(products), dz),
        _row("eq. 7", "∂ℓ/∂q zᵀ = ∂ℓ/∂Q", outer[0], sent[0]),
        _row("eq. 7", "∂ℓ/∂k zᵀ = ∂ℓ/∂K", outer[1], sent[1]),
        _row("eq. 7", "∂ℓ/∂v zᵀ = ∂ℓ/∂V", outer[2], sent[2]),
        _row("eq. 8", "∂ℓ/∂z zᵀ = Qᵀ ∂ℓ/∂Q + Kᵀ ∂ℓ/∂K + Vᵀ ∂ℓ/∂V", dz @ z.T, b),
        _row("Theorem 1", f"z = the pseudo-inverse's; rank {rank}, {z.shape[1]} tokens", found, z),
    ]


def to_the_pixels(model: Any, image: Tensor, label: Tensor, leak: Leak, z: Tensor) -> list[Row]:
    """Theorem 2 (equation 9) by differences of the loss, equation 10, and the inverse of equation 11."""
    position, patch, normalised = leak["pos_embed"][0], model.patch_embed.proj, model.normalise(image)
    noise = torch.randn(position.shape, generator=torch.Generator().manual_seed(0), dtype=position.dtype)
    # along the gradient alone a missing part would go unseen
    direction = position / position.norm() + noise / noise.norm()
    apart = difference(model, image, label, direction) - (position * direction).sum()
    embedded = model.patch_embed(normalised)[0].detach()  # (patches, width)
    tokens = torch.cat([model.cls_token[0].detach(), embedded]).T  # (width, tokens)
    numbers = F.unfold(normalised, patch.kernel_size, stride=patch.stride)[0]  # (patch pixels, patches)
    inverse = f"x = W_p⁺ E_patch; width {len(projection(model)[0])}, {len(numbers)} numbers a patch"
    return [
        Row("Theorem 2", "∂ℓ/∂E_pos = ∂ℓ/∂z by differences (eq. 9)", (apart.abs() / position.norm()).item()),
        _row("eq. 10", "E_patch + E_pos = z", tokens + model.pos_embed[0].detach().T, z),
        _row("inverse of eq. 11", inverse, pixels(model, embedded).T, numbers),
    ]


def solved(model: Any, leak: Leak) -> Tensor:
    """Algorithm 1 with the position embedding's gradient as the one at z, then equations 10 and 11; the image, not clamped."""
    weight = model.blocks[0].attn.qkv.weight.detach()
    z = torch.linalg.pinv(leak["pos_embed"][0].T) @ (weight.T @ leak[QKV])  # (tokens, width)
    tokens = z - model.pos_embed[0].detach()
    return folded(pixels(model, tokens[1:]), model, leak)  # the first is the class token


def table(rows: Sequence[Row]) -> Picture:
    """Rows with a tick where the sides agree, and a cross where they do not."""
    failed = [f"{one.where} ({one.error:.0e})" for one in rows if not one.holds]
    ends = f"These fail: {', '.join(failed)}." if failed else "All hold."
    lines = "".join(map(_line, rows))
    head = "".join(f'<th scope="col" style="{CELL};width:{wide}">{name}</th>' for name, wide in COLUMNS.items())
    html = f'<table style="{TABLE};max-width:640px"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
    return Picture(html, f"{len(rows)} rows of the proof, with the error between the two sides of each. {ends}")


def _line(one: Row) -> str:
    error = "0" if one.error == 0 else f"{one.error:.0e}"
    cells = escape(one.sides), f"✓ {error}" if one.holds else f"<strong>✗ {error}</strong>"
    row = f'<th scope="row" style="{CELL};font-weight:normal">{one.where}</th>'
    row += "".join(f'<td style="{CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="border-top:1px solid #9996">{row}</tr>'


def _row(where: str, sides: str, one: Any, other: Tensor) -> Row:
    return Row(where, sides, ((one - other).norm() / other.norm()).item())
