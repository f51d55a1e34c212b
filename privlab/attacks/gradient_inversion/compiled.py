"""The step of a search as one compiled function: for long runs, which earn back the minutes that compiling takes.

What torch.compile makes of a model cannot be differentiated twice. So the network's gradients, the terms and their gradient are
written down first, as one list of operations in which nothing is left to differentiate, and that list is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad
from torch.fx.experimental.proxy_tensor import make_fx

from privlab.attacks.gradient_inversion.derivatives import TwiceDifferentiable
from privlab.attacks.gradient_inversion.terms import Term
from privlab.leak import Leak
from privlab.models.forward import Gradients, functional

BACKEND = "inductor"  # torch.compile's; "eager" runs the same list of operations as it stands

Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # (images, weights) -> gradient, values


class Compiled:
    """What `Descent.look` does, for known labels and a whole batch.

    model, leak: as in `matching.GradientMatching.search`, the leak with labels.  parameters: those to differentiate by, as in `Descent`.
    A function is made for every set of terms that count together, when that set is first met.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, Tensor], leak: Leak) -> None:
        self.parameters = {n: p.detach() for n, p in parameters.items()}
        self.leak = _Checked(leak.grads, leak.batch_size, leak.image_shape, leak.labels, leak.normalise, leak.precision)
        _ = self.leak.norm  # kept by the leak; otherwise each step would compute it
        self.steps: dict[tuple[str, ...], Step] = {}

        self.forward = TwiceDifferentiable(model, functional(model))

    def __call__(self, x: Tensor, terms: Sequence[Term], weights: Tensor) -> tuple[Tensor, Tensor]:
        """The values (terms,) of the terms, unweighted, and the gradient of their weighted sum at x, like x.

        x: normalised images (batch, channels, height, width).  weights: (terms,).
        Raises ValueError for a term, or a network, that cannot be written down as operations on tensors.
        """
        x, names = x.detach(), tuple(t.name for t in terms)
        with torch.no_grad():  # what is to be differentiated is so inside
            if names not in self.steps:
                self.steps[names] = self._compile(x, terms, weights)
            gradient, values = self.steps[names](x, weights)
        return values, gradient

    def _compile(self, x: Tensor, terms: Sequence[Term], weights: Tensor) -> Step:
        def total(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
            def task(parameters: Gradients) -> Tensor:
                return F.cross_entropy(self.forward(parameters, x), self.leak.labels)  # type: ignore[arg-type]

            grads = grad(task)(self.parameters) if any(t.of == "gradients" for t in terms) else {}
            values = torch.stack([t.value(x, grads, self.leak) for t in terms])  # (terms,)
            return weights @ values, values

        try:
            operations = make_fx(grad(total, has_aux=True))(x, weights)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise ValueError(
                f"compiled=True: the model, or one of the terms {', '.join(t.name for t in terms)}, is more than operations on tensors, "
                f"so it cannot be compiled; give compiled=False ({str(error).strip().splitlines()[0]})"
            ) from error
        return torch.compile(operations, backend=BACKEND, fullgraph=True)


class _Checked(Leak):
    """A leak whose gradients were found finite before: to look again in every step would be a question in midst of the operations."""

    def __getitem__(self, name: str) -> Tensor:
        return self.grads[name]
