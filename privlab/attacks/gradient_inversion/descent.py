"""One restart of a search: the images on their way down, from a start to where it stops. Every preset of `presets.py` shares this loop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.gradient_inversion.derivatives import (
    LONG,
    Choice,
    Evaluation,
    TwiceDifferentiable,
    assert_twice_differentiable,
)
from privlab.attacks.gradient_inversion.differences import once_differentiable
from privlab.attacks.gradient_inversion.results import Checkpoint, State
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.leak import Leak
from privlab.models.forward import Gradients

if TYPE_CHECKING:
    from privlab.attacks.gradient_inversion.search import GradientMatching, Term

OPTIMISERS: dict[str, Any] = {"adam": torch.optim.Adam, "lbfgs": torch.optim.LBFGS}  # of up to 20 evaluations a step


class Descent:
    """The images of one restart on their way down.

    attack: with its terms made ready for this victim.  x: normalised images to begin with, (group * batch, channels, height, width).
    label_logits: (group * batch, classes) where labels are searched for too.  The others are those of `GradientMatching.search`.
    """

    def __init__(
        self, attack: GradientMatching, forward: TwiceDifferentiable, parameters: Gradients, leak: Leak, restart: int, x: Tensor,
        label_logits: Tensor | None, space: Space, chunk: int, choice: Choice,
    ) -> None:  # fmt: skip
        self.attack, self.forward, self.parameters, self.leak, self.restart = attack, forward, parameters, leak, restart
        self.space, self.choice, self.batch = space, choice, leak.batch_size
        self.chunks = [slice(i, min(i + chunk, self.batch)) for i in range(0, self.batch, chunk)]
        self.step = self.evaluations = 0
        self.low, self.high = (leak.normalise(torch.full_like(x[:1], value)) for value in (0.0, 1.0))
        with torch.no_grad():
            latent = torch.cat([space.begin(part) for part in self._inside(x).split(self.batch)])
        self.latent, self.label_logits = latent.clone().requires_grad_(), label_logits  # (group * batch, ...)
        self.variables = [self.latent] if label_logits is None else [self.latent, label_logits.requires_grad_()]
        self.optimiser: torch.optim.Optimizer = OPTIMISERS[attack.optimiser](self.variables, lr=attack.lr)

    def states(self) -> Iterator[State]:
        """A state before each step, and one after the last."""
        while True:
            self.evaluate()
            state = self._state()
            yield state
            if state.reason:
                return
            self._advance()

    @property
    def progress(self) -> float:
        return self.step / self.attack.steps

    def evaluate(self) -> Tensor:
        """The loss, over all seeds; its gradient is left in the variables' `.grad`, and `self.values` (terms, group) has its terms."""
        self.before = {"evaluations": self.evaluations, "counts": self.choice.counts, "agrees": self.choice.agrees}
        self.active = [t for t in self.attack.terms if t.factor(self.progress) > 0]
        self.images = torch.cat([self.space.images(part) for part in self.latent.split(self.batch)])
        x = self.images.detach()
        values: dict[str, Sequence[Tensor]] = {}
        logits = (
            [None] * self.attack.group if self.label_logits is None else self.label_logits.detach().split(self.batch)
        )
        seeds = [self._evaluate_seed(*seed) for seed in zip(x.split(self.batch), logits, strict=True)]
        for k, term in enumerate(t for t in self.active if t.of != "group"):
            values[term.name] = [of_seed[k] for of_seed, _ in seeds]
        gradients = [
            torch.cat(each) for each in zip(*(each for _, each in seeds), strict=True)
        ]  # by images, by label logits
        for term in (t for t in self.active if t.of == "group"):
            together = x.unflatten(0, (-1, self.batch)).clone().requires_grad_()
            apart = term.value(together, {}, self.leak)  # (group,)
            values[term.name] = list(apart.detach())
            (gradient,) = torch.autograd.grad(term.weigh(self.progress) * apart.sum(), together)
            gradients[0] = gradients[0] + gradient.flatten(0, 1)
        gradients[0] = torch.autograd.grad(self.images, self.latent, gradients[0])[0]
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.grad = (gradient.sign() if self.attack.signed else gradient).contiguous()  # L-BFGS takes no other
        self.values = torch.stack([torch.stack(list(values[t.name])) for t in self.active])
        self.loss = self._weights(self.active, self.values) @ self.values.sum(1)
        return self.loss

    def _evaluate_seed(self, x: Tensor, label_logits: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """For one seed: the values of its terms, and the gradients of their weighted sum by the images and by the label logits."""
        variables = [v.requires_grad_() for v in (x, label_logits) if v is not None]
        terms = [t for t in self.active if t.of != "group"]
        if not terms:
            return x.new_zeros(0), [torch.zeros_like(v) for v in variables]
        exactly = partial(self._exactly, terms, *variables)
        if any(t.of == "gradients" for t in terms):
            self.evaluations += 1
            by_difference = partial(self._by_difference, terms, *variables)
            evaluation = self.choice.take(partial(self._carefully, exactly), by_difference)
        else:
            evaluation = exactly()
        return evaluation.values.detach(), evaluation.gradients

    def _carefully(self, exactly: Callable[[], Evaluation]) -> Evaluation:
        """An exact evaluation; a long search that goes exactly sees at its second whether it can do with less care."""
        long = self.attack.steps * (20 if self.attack.optimiser == "lbfgs" else 1) >= LONG
        if long and self.forward.plain is None and self.choice.exact and not self.choice.agrees:
            return self.forward.lightened(exactly)
        return exactly()

    def _exactly(self, terms: Sequence[Term], *variables: Tensor) -> Evaluation:
        """By differentiating twice.  variables: the images, and label logits if they are searched for."""
        matching, whole = any(t.of == "gradients" for t in terms), len(self.chunks) == 1
        grads: Gradients = {}
        if matching:
            grads = self.gradients(*variables, create_graph=True) if whole else self._gradients_by_chunk(*variables)
        values = torch.stack([t.value(variables[0], grads, self.leak) for t in terms])  # (terms,)
        total = self._weights(terms, values) @ values
        inputs = variables if whole or not matching else [*variables, *grads.values()]
        gradients = list(torch.autograd.grad(total, inputs, materialize_grads=True))
        if len(inputs) > len(variables):
            self._add_by_chunk(variables, gradients[: len(variables)], gradients[len(variables) :])
        return Evaluation(values, gradients[: len(variables)])

    def _by_difference(self, terms: Sequence[Term], *variables: Tensor) -> Evaluation:
        """By two first derivatives: u = dD/dg at the gradients g, and from there the derivative along it, see `differences`."""
        difference = self.choice.difference
        assert difference is not None

        def loss(forward: Callable[[Tensor], Tensor]) -> Tensor:
            return self.client_loss(forward, *variables)

        grads = {n: g.requires_grad_() for n, g in difference.update(loss, variables).items()}
        values = torch.stack([once_differentiable(t.value)(variables[0], grads, self.leak) for t in terms])  # (terms,)
        total = self._weights(terms, values) @ values
        both = torch.autograd.grad(total, [*variables, *grads.values()], materialize_grads=True)
        direct, u = list(both[: len(variables)]), both[len(variables) :]
        return Evaluation(values, difference.vjp(loss, variables, u), direct)

    def gradients(
        self, x: Tensor, label_logits: Tensor | None = None, *, rows: slice = slice(None), create_graph: bool = False
    ) -> Gradients:
        """What the client would have sent for these images, or the share of some rows of the batch in it."""
        loss = self.client_loss(self.forward, x, label_logits, rows=rows)
        update = torch.autograd.grad(
            loss, list(self.parameters.values()), create_graph=create_graph, materialize_grads=True
        )
        if create_graph and self.choice.exact == 0:
            assert_twice_differentiable(update)
        return dict(zip(self.parameters, update, strict=True))

    def client_loss(
        self,
        forward: Callable[[Tensor], Tensor],
        x: Tensor,
        label_logits: Tensor | None = None,
        *,
        rows: slice = slice(None),
    ) -> Tensor:
        """The loss that the client differentiates, of these images by this forward pass; the share of some rows of the batch in it."""
        logits = forward(x)  # (rows, classes)
        if self.leak.labels is not None:
            loss = F.cross_entropy(logits, self.leak.labels[rows])
        else:  # labels as free as the images: a softmax over logits that are searched for (Zhu et al. 2019)
            loss = -(label_logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()  # type: ignore[union-attr]
        return loss if len(x) == self.batch else loss * (len(x) / self.batch)

    # A batch in chunks: its gradient is the sum of those of its chunks. So the gradient of any distance D of that sum can be had chunk by
    # chunk: first the sum g without a graph, then dD/dg, and then for each chunk c the gradient of <dD/dg, g_c>. The memory is that of
    # one chunk, the cost one more gradient.

    def _gradients_by_chunk(self, *variables: Tensor) -> Gradients:
        total = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        for rows in self.chunks:
            update = self.gradients(*(v[rows].detach() for v in variables), rows=rows)
            total = {n: g + update[n] for n, g in total.items()}
        return {n: g.requires_grad_() for n, g in total.items()}

    def _add_by_chunk(self, variables: Sequence[Tensor], gradients: list[Tensor], slope: list[Tensor]) -> None:
        """Add to the gradients by the variables what goes through the update.  slope: dD/dg."""
        for rows in self.chunks:
            inputs = [v[rows].detach().requires_grad_() for v in variables]
            update = self.gradients(*inputs, rows=rows, create_graph=True).values()
            for gradient, more in zip(gradients, torch.autograd.grad([*update], inputs, slope), strict=True):
                gradient[rows] += more

    def _advance(self) -> None:
        """One step of the optimiser, from where `evaluate` was called last."""
        self.optimiser.param_groups[0]["lr"] = self.attack.lr * self.attack.schedule(self.progress)
        present = [self.loss]  # L-BFGS asks for the present point again: no need to compute it twice
        self.optimiser.step(lambda: present.pop() if present else self.evaluate())  # type: ignore[arg-type, return-value]
        with torch.no_grad():
            if isinstance(self.space, Pixels):  # a box of pixels is none of what makes them
                self.latent.copy_(self._inside(self.latent))
        self.step += 1

    def _state(self) -> State:
        """Where it stands, by the seed that stands best."""
        names = [t.name for t in self.active]
        values = [dict(zip(names, row, strict=True)) for row in self.values.T.tolist()]  # seed by seed
        losses = [{t.name: t.weigh(self.progress) * of_seed[t.name] for t in self.active} for of_seed in values]
        lasting = [t for t in self.attack.terms if t.factor(1.0) > 0]
        scores = [sum(t.weigh(1.0) * of_seed.get(t.name, math.nan) for t in lasting) for of_seed in values]
        ranks = scores if all(map(math.isfinite, scores)) else [sum(of_seed.values()) for of_seed in losses]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        images = self.images.detach().split(self.batch)[best]
        labels: Any = self.leak.labels
        if self.label_logits is not None:
            labels = self.label_logits.split(self.batch)[best].argmax(1)
        known = math.isfinite(sum(sum(of_seed.values()) for of_seed in losses))
        finite = known and all(v.grad.isfinite().all() for v in self.variables if v.grad is not None)
        reason = "not finite" if not finite else "steps" if self.step == self.attack.steps else ""
        return State(
            self.restart, self.step, self.evaluations, self.leak.normalise.inverse(images).clamp(0, 1), labels, losses[best],
            scores[best], reason, self.checkpoint, self.choice.counts,
        )  # fmt: skip

    def checkpoint(self) -> Checkpoint:
        """All that the descent needs to evaluate its present state again and go on."""
        optimiser = copy.deepcopy(self.optimiser.state_dict())
        variables = [v.detach().clone() for v in self.variables]
        state = {"restart": self.restart, "step": self.step, "variables": variables, "optimiser": optimiser}
        return state | self.before

    def resume(self, checkpoint: Checkpoint) -> None:
        """Take up a descent where `checkpoint` left it."""
        self.step, self.evaluations = checkpoint["step"], checkpoint["evaluations"]
        with torch.no_grad():
            for variable, kept in zip(self.variables, checkpoint["variables"], strict=True):
                variable.copy_(kept)
        self.choice.exact, self.choice.by_difference = checkpoint["counts"].values()
        self.choice.agrees = checkpoint["agrees"]
        self.optimiser.load_state_dict(checkpoint["optimiser"])

    def _weights(self, terms: Sequence[Term], like: Tensor) -> Tensor:
        return like.new_tensor([t.weigh(self.progress) for t in terms])

    def _inside(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) if self.attack.boxed else x
