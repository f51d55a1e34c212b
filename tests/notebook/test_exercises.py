"""Every check accepts the lab's own solution and turns at least three wrong answers away, each with its reason."""

import itertools
import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import jupytext
import numpy as np
import pytest
import scipy.spatial
import scipy.stats
import torch

from privlab import metrics, models
from privlab.attacks import gradient_inversion, membership_inference
from privlab.attacks.gradient_inversion import sensitivity
from privlab.attacks.gradient_inversion.priors import PatchJoints, Registration, total_variation, total_variation_norm
from privlab.attacks.membership_inference import signals
from privlab.attacks.model_inversion import evaluation, losses
from privlab.metrics import roc, tradeoff
from privlab.models import morph
from privlab.notebook import checks
from privlab.notebook.exercises import holm, lab_11, lab_13, lab_14, pareto
from privlab.runner import catalogue

LABS = Path(__file__).parents[2] / "labs"


def flat(grads):
    return torch.cat([g.flatten() for _, g in sorted(grads.items())])


def attack(*bugs, show=lambda model, pixels: pixels, side=torch.logical_not, read=signals.margin, end=None):
    """The mended attack of lab 02, with some of the four bugs left in it, or with others."""

    def odds(logits, labels):
        p = logits.softmax(1)[torch.arange(len(labels)), labels]
        return (p / (1 - p)).log()

    def score(victim, models, keep, pixels, labels):
        def ask(model):
            with torch.no_grad():
                model.train("mode" in bugs)
                shift = torch.randint(-1, 2, (1,)).item() if "question" in bugs else 0
                logits = model(show(model, pixels).roll(shift, -1))
                return odds(logits, labels) if "float32" in bugs else read(logits, labels)

        said = torch.stack([ask(model) for model in models])
        compared = [said[column, i] for i, column in enumerate(side(keep).T)]
        mean, std = (torch.stack([f(each) for each in compared]) for f in (torch.mean, torch.std))
        if end is not None:
            return end(ask(victim), mean, std)
        return (mean - ask(victim)) / std if "sign" in bugs else (ask(victim) - mean) / std

    return score


def joint_norms(images, patch, first=0, apart=1, length=torch.Tensor.norm, gather=sum):
    """Equation 8 of GradViT, and the slips in which pixels are compared and how the jumps are added up."""
    jumps = []
    for axis in (2, 3):
        for k in range(patch + first, images.shape[axis], patch):
            jumps.append(length(images.select(axis, k) - images.select(axis, k - apart)))
    return gather(jumps)


def pulls(gradient, batch, pull):
    """Labels of a batch from the bias gradient: the smallest number, `pull` added to it, again and again."""
    left, found = gradient.clone(), []
    for _ in range(batch):
        found.append(int(left.argmin()))
        left[found[-1]] += pull
    return found


def to_consensus(members, held=lambda x: x, towards=lambda x: x, over=(1, 2, 3, 4)):
    return (held(members) - towards(members.mean(0))).square().sum(over).sqrt()


EQ_5, EQ_6 = ((0, 1), (0.5, 0.5)), ((0, 0), (0.5, 1))


def staged(gradients=EQ_5, statistics=EQ_6):
    return {"gradients": gradients, "statistics": statistics}


def attention_between(names, first, last, kind=".attn.", leaf="weight"):
    """The names of lab 08's first exercise, and those of usual slips."""
    inside = {f"blocks.{i - 1}" for i in range(first, last + 1)}
    return [
        n for n in names if ".".join(n.split(".")[:2]) in inside and kind in n and n.endswith(leaf) and "norm" not in n
    ]


def share_by(grads, groups, size, whole=True):
    sizes = {part: sum(float(size(grads[name])) for name in names) for part, names in groups.items()}
    return {part: value / (sum(sizes.values()) if whole else 1) for part, value in sizes.items()}


def sides_by(step, side, pool=None, up=lambda v: (v + 1) // 2):
    """Sides of the maps of a step, and the slips in it."""
    pool = step.pool if pool is None else pool
    side = side // 4 if step.patchify else up(side)
    found = [up(side) if pool else side]
    for _ in range(3):
        found.append(found[-1] // 2 if step.downsampling == "between stages" else up(found[-1]))
    return found


def block_by(x, layers, shortcut, act, pattern, there=lambda d: d == "1", third="sum", beside=None):
    """A block of lab 10, and the slips in it."""
    acts = [act if there(digit) else (lambda t: t) for digit in pattern]
    y = layers[2](acts[1](layers[1](acts[0](layers[0](x)))))
    add = shortcut(x) if beside is None else beside(x)
    return acts[2](y) + add if third == "branch" else y + acts[2](add) if third == "shortcut" else acts[2](y + add)


def main_effect(dB, switch, on=1, off=0, others=lambda settings: True, repeats=(0, 1, 2)):
    """On less off over the settings of the other switches, a repeat each."""

    def mean(setting, k):
        return statistics.mean(
            v[k] for s, v in dB.items() if s[switch] == setting and others([*s[:switch], *s[switch + 1 :]])
        )

    return [mean(on, k) - mean(off, k) for k in repeats]


def at_equal_levels(one, other, low=max, high=min, order=sorted):
    """The mean difference of two curves over a range of levels."""
    (x, a), (z, b) = (zip(*order(zip(*curve, strict=True)), strict=True) for curve in (one, other))
    grid = np.linspace(low(min(x), min(z)), high(max(x), max(z)), 500)
    return (np.interp(grid, x, a) - np.interp(grid, z, b)).mean()


def damped_step(J, r, damping, outer=False, sign=-1, power=1, slope=None):
    """A damped Gauss-Newton step, and those of the usual slips."""
    bend = J @ J.T if outer else J.T @ J
    return torch.linalg.solve(
        bend + damping**power * torch.eye(len(bend)).to(J), sign * (J.T @ r if slope is None else slope)
    )


def persuade(model, picture, target, steps=50, sign=1, rate=0.02, by=torch.optim.Adam, inside=True, start=None):
    """Pixels that convince a model of a class, and the usual ways to go wrong."""
    x = (picture.clone() if start is None else start(picture)).requires_grad_()
    optimiser = by([x], lr=rate)
    for _ in range(steps):
        (x.grad,) = torch.autograd.grad(sign * torch.nn.functional.cross_entropy(model(x), torch.tensor([target])), x)
        optimiser.step()
        if inside:
            x.data.clamp_(0, 1)
    return x.detach()


def persuade_in_place(model, picture, target, steps=50):
    for _ in range(steps):
        x = picture.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(x)[0, target], x)
        picture.add_(0.02 * slope.sign()).clamp_(0, 1)
    return picture


def until_sure(model, picture, target, steps=50):
    x = picture.clone()
    for _ in range(steps):
        x.requires_grad_()
        p = model(x).softmax(1)[0, target]
        if p > 0.95:
            break
        x = (x + 0.02 * torch.autograd.grad(p.log(), x)[0].sign()).clamp(0, 1).detach()
    return x.detach()


def through_a_sigmoid(model, picture, target, steps=50):
    free = picture.logit().requires_grad_()
    optimiser = torch.optim.Adam([free], lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(free.sigmoid()), torch.tensor([target])).backward()
        optimiser.step()
    return free.detach().sigmoid()


def length_1(z):
    return z.abs().sum().clamp_min(1e-12)


def in_the_ball(
    z,
    t,
    below=length_1,
    less=1e-4,
    low=0.0,
    two=2,
    one=1,
    guard=lambda room: room.clamp_min(1e-6),
    rooms=(1, 1),
    u=None,
):
    """The Poincare distance, and that of the usual slips. `guard` is of 1 - |x|^2, `rooms` the powers of the two below the line."""
    u = z / below(z) if u is None else u(z)
    v = (torch.eye(len(z))[t % len(z)] - less).clamp(low, 1)
    room = math.prod(guard(1 - x.square().sum()) ** power for x, power in zip((u, v), rooms, strict=True))
    return torch.arccosh(one + two * (u - v).square().sum() / room)


def by_one_guard(z, t, guard, below=length_1, less=1e-4):
    """As before, the guard being that of the product."""
    u, v = z / below(z), (torch.eye(len(z))[t] - less).clamp(0, 1)
    return torch.arccosh(1 + 2 * (u - v).square().sum() / guard((1 - u.square().sum()) * (1 - v.square().sum())))


def by_numbers(z, t):
    """Without a tensor."""
    whole = sum(map(abs, z.tolist())) or 1.0
    u, v = [a / whole for a in z.tolist()], [(1 - 1e-4) * (k == t) for k in range(len(z))]
    rooms = [max(1 - sum(a * a for a in x), 1e-9) for x in (u, v)]
    return math.acosh(1 + 2 * sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) / math.prod(rooms))


def to_own(features, targets, private, labels, power=2, which=torch.amin, others=math.inf):
    """PPA's distance, others at infinity; and the slips in it."""
    distance = torch.cdist(features, private) ** power
    return which(distance.where(targets[:, None] == labels, torch.tensor(others)), 1)


def to_own_mean(features, targets, private, labels, power=2):
    means = torch.stack([private[labels == k].mean(0) for k in targets])
    return (features - means).norm(dim=1) ** power


def each_own(features, targets, private, labels, which=lambda d: d.min(), power=2):
    pairs = zip(features, targets, strict=True)
    return torch.stack([which((private[labels == k] - x).norm(dim=1) ** power) for x, k in pairs])


def folding(w, mean, var, gamma, beta, eps, root=torch.sqrt, axis=(-1, 1, 1, 1), shift=lambda m, s, g, b: b - m * s):
    """A convolution and its norm in one, and the slips in it."""
    scale = gamma / root(var + eps)
    return w * scale.view(axis), shift(mean, scale, gamma, beta)


def by_asking(w, mean, var, gamma, beta, eps):
    """What the norm makes of 0 and of 1 is its bias, and its bias and scale."""
    zero, one = (
        torch.nn.functional.batch_norm(x, mean, var, gamma, beta, False, 0, eps)[0]
        for x in (torch.zeros(1, len(w)), torch.ones(1, len(w)))
    )
    return [torch.einsum("oikl,o->oikl", w, one - zero), zero]


def strike_out(z, t, fill=-math.inf):
    z = z.clone()
    z[t] = fill
    return z


def normal_by_hand(mu, sigma, square=lambda m: m * m, log=torch.log, one=1, log_weight=1, total=torch.sum):
    """MID's penalty, and the slips in it."""
    return total((square(mu) + sigma**2 - one) / 2 - log_weight * log(sigma))


def divergence(mu, sigma, p=None, total=torch.sum):
    p = torch.distributions.Normal(mu, sigma) if p is None else p
    return total(torch.distributions.kl_divergence(p, torch.distributions.Normal(0, 1)))


def by_integration(mu, sigma):
    """The definition, E[log p - log q] under p, on a grid."""
    total = 0.0
    for m, s in zip(mu.tolist(), sigma.tolist(), strict=True):
        x = np.linspace(m - 12 * s, m + 12 * s, 20001)
        p, q = scipy.stats.norm(m, s), scipy.stats.norm()
        total += np.trapezoid(p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), x)
    return total


def price(u, d, free=math.nan, task=lambda a, b: a - b, attack=lambda a, b: a - b, end=lambda r: r):
    """Points lost over points lost, and the slips in it."""
    lost = task(u[0], d[0])
    return end(attack(u[1], d[1]) / lost) if lost else free


def price_or(gain):
    """As price, but with something else where the task gains."""
    return lambda u, d: price(u, d) if d[0] <= u[0] else gain


def kept(beats, itself=False):
    """The names that no other beats, as a set. beats: task and attack accuracy of the other, then one's own."""
    return lambda p: {n for n in p if not any(beats(*p[m], *p[n]) for m in p if itself or m != n)}


def in_order(p, level=False):
    """The usual sweep: by falling task accuracy, a running minimum; of equals it keeps one."""
    names, least = [], math.inf
    for n in sorted(p, key=lambda n: (-p[n][0], p[n][1])):
        if p[n][1] < least or (level and p[n][1] == least):
            names.append(n)
            least = p[n][1]
    return names


def with_equals(p):
    found = {p[n] for n in in_order(p)}
    return [n for n in p if p[n] in found]


def by_arrays(p):
    task, attack = np.array(list(p.values())).T
    ahead = (task[:, None] >= task) & (attack[:, None] <= attack)
    beaten = (ahead & ~ahead.T).any(0)
    return np.array(list(p))[~beaten]


def by_neighbours(p):
    names = sorted(p, key=lambda n: -p[n][0])
    return {names[0]} | {n for before, n in itertools.pairwise(names) if p[n][1] < p[before][1]}


def on_the_hull(p, ends=False):
    """Corners of scipy's hull, those below and to the right alone or all."""
    points = np.array(sorted(set(p.values())))
    flat = (
        np.linalg.matrix_rank(points - points[0]) < 2
    )  # in the order of their first number, so the ends stand first and last
    points = points[[0, -1] if flat else scipy.spatial.ConvexHull(points).vertices]
    corners = {tuple(x) for x in points.tolist()}
    return {n for n in (p if ends else tradeoff.front(p)) if p[n] in corners}


def popping(p):
    found = set(tradeoff.front(p))
    p.pop(next(iter(p)))
    return found


def in_each(share, relative, norm, numbers, part=lambda s, n: math.sqrt(s / n), length=lambda r, norm: r * norm):
    """The deviation of the noise in each number of a group, and the slips in it."""
    return length(relative, norm) * part(share, numbers)


def updates_needed(relative, target, ratio=lambda r, t: r * r / (t * t), whole=math.ceil, least=1):
    """How many updates bring the noise of their mean down to the target, and the slips in it."""
    return max(least, whole(ratio(relative, target)))


def until_quiet(relative, target, above=lambda r, n, t: r / math.sqrt(n) > t, first=1):
    n = first
    while above(relative, n, target):
        n += 1
    return n


def halving(relative, target):
    n = 1
    while relative > target:
        relative, n = relative / 2, n + 1
    return n


def believed(one, sigma, other, tau, weight=lambda s: 1 / s**2, below=lambda v, w: v + w, sign=1):
    """The mean of least variance, and the slips in it."""
    v, w = weight(sigma), weight(tau)
    return (one * v + sign * other * w) / below(v, w)


def least(rows, level, holds=lambda row, level: row[1] <= level, pick=min, by=lambda row: row, none=None):
    """The name of the cheapest defence that holds, and the slips on the way to it."""
    names = [name for name, row in rows.items() if holds(row, level)]
    return pick(names, key=lambda name: by(rows[name])) if names else none


def one_by_one(rows, level, holds=lambda dB, level: dB <= level, better=lambda new, old: new < old):
    found, best = None, (math.inf, math.inf)
    for name, row in rows.items():
        if holds(row[1], level) and better(row, best):
            found, best = name, row
    return found


def deleting(rows, level):
    for name in [name for name, (_, dB) in rows.items() if dB > level]:
        del rows[name]
    return least(rows, level)


def share_above(values, bar, ddof=1, width=lambda s, n: s / n**0.5, df=lambda n: n - 1, centre=np.mean):
    """The share of Student's t that lies above the bar, and the slips on the way to it."""
    n = len(values)
    return scipy.stats.t.cdf((centre(values) - bar) / width(np.std(values, ddof=ddof), n), df(n))


def normal_above(values, bar):
    return statistics.NormalDist(np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5).cdf(
        2 * np.mean(values) - bar
    )


def in_words(share, high=0.95, low=0.05, rest="inconclusive"):
    return "reproduced" if share >= high else "not reproduced" if share <= low else rest


def by_interval(values, bar, confidence=0.9):
    low, high = scipy.stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values))
    return "reproduced" if low >= bar else "not reproduced" if high <= bar else "inconclusive"


def by_test(values, bar):
    greater, less = (
        scipy.stats.ttest_1samp(values, bar, alternative=side).pvalue <= 0.05 for side in ("greater", "less")
    )
    return ("reproduced" if greater else "not reproduced") if greater or less else "inconclusive"


def by_statistics(values, bar):
    values = [float(v) for v in values]
    x = (statistics.fmean(values) - bar) / (statistics.stdev(values) / math.sqrt(len(values)))
    return in_words(scipy.stats.t(len(values) - 1).cdf(x))


def nothing_between(values, bar):
    if share_above(values, bar) >= 0.95:
        return "reproduced"
    if share_above(values, bar) <= 0.05:
        return "not reproduced"


def in_place(values, bar):
    values -= bar
    return in_words(share_above(values, 0))


def limit_of(n, spread, p=0.95, df=lambda n: n - 1, width=lambda s, n: s / math.sqrt(n)):
    return scipy.stats.t.ppf(p, df(n)) * width(spread, n)


def counted(effect, spread, limit=limit_of, first=2, small=lambda limit, effect: limit <= effect):
    return next(n for n in range(first, 5_000) if small(limit(n, spread), effect))


def while_above(effect, spread, first=2):
    n = first
    while limit_of(n, spread) > effect:
        n += 1
    return n


def all_at_once(effect, spread):
    n = np.arange(2, 500)
    return n[scipy.stats.t.ppf(0.95, n - 1) * spread / np.sqrt(n) <= effect].min()


def for_ever(effect, spread, p=0.95):
    n = 2
    while limit_of(n, spread, p, width=lambda s, n: s) > effect:
        n += 1
        if n > 1_000:
            raise RuntimeError("it does not come to an end")
    return n


def stepped(
    p, level=0.05, bar=lambda level, k, m: level / (m - k), order=None, stop=True, small=lambda p, bar: p <= bar
):
    """Holm's procedure, and the slips in it."""
    out = set()
    for k, name in enumerate(sorted(p, key=p.get) if order is None else order(p)):
        if small(p[name], bar(level, k, len(p))):
            out.add(name)
        elif stop:
            break
    return out


def up_to_the_last(p, level=0.05, bar=lambda level, k, m: level * (k + 1) / m):
    names = sorted(p, key=p.get)
    last = max((k for k, n in enumerate(names) if p[n] <= bar(level, k, len(p))), default=-1)
    return set(names[: last + 1])


def adjusted(p, level=0.05):
    """By adjusted p-values, as statistics packages do it."""
    names, raw = list(p), np.array(list(p.values()))
    order = raw.argsort()
    steps = np.maximum.accumulate(raw[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return {names[i] for i, step in zip(order, steps, strict=True) if step <= level}


def smallest_first(p, level=0.05):
    left, out = dict(p), set()
    while left and left[name := min(left, key=left.get)] <= level / len(left):
        out.add(name)
        del left[name]
    return frozenset(out)


def emptying(p, level=0.05):
    out, m = set(), len(p)
    while p and p[name := min(p, key=p.get)] <= level / m:
        out.add(name)
        p.pop(name)
        m -= 1
    return out


def turned_round(p, level=0.05):
    names, out = {value: name for name, value in p.items()}, set()
    for k, value in enumerate(sorted(p.values())):
        if value > level / (len(p) - k):
            break
        out.add(names[value])
    return out


def with_a_mark(function, which):
    """As the function, but it leaves a mark on one of its arguments."""

    def marked(*given):
        result = function(*given)
        given[which].add_(1)
        return result

    return marked


WRONG = {
    "07.joints": [
        (lambda x, p: total_variation(x), "That is total variation, as Inverting Gradients"),
        (lambda x, p: total_variation_norm(x), "That is total variation, as DeepInversion"),
        (lambda x, p: x.diff(dim=2).norm() + x.diff(dim=3).norm(), "That is total variation: every jump counts"),
        (lambda x, p: joint_norms(x, 1), "Only each patch-th one is a joint"),
        (lambda x, p: (x[:, :, p:] - x[:, :, :-p]).norm() + (x[..., p:] - x[..., :-p]).norm(), "a whole patch away"),
        (
            lambda x, p: (
                joint_norms(x.unfold(2, p, p), 1, gather=lambda j: j[0])
                + joint_norms(x.unfold(3, p, p), 1, gather=lambda j: sum(j[-2:]))
            ),
            "You compare whole patches",
        ),
        (lambda x, p: joint_norms(x, p, first=1), "Off by one"),
        (
            lambda x, p: joint_norms(x, p, gather=lambda j: j[0]),
            "That is one direction: the joints between patches above",
        ),
        (
            lambda x, p: joint_norms(x, p, gather=lambda j: sum(j[1:])),
            "That is one direction: the joints between patches side",
        ),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.square().sum()), "squared norms"),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.square().sum()).sqrt(), "one norm of all joints together"),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.flatten(1).norm(dim=1).sum()), "one norm an image"),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.norm(dim=2).sum()), "one norm an image and channel"),
        (lambda x, p: joint_norms(x, p, gather=lambda j: sum(j) / len(j)), "the mean over the joints"),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.abs().sum()), "L1 norm"),
        (lambda x, p: joint_norms(x, 4), "not at patches of 3"),
        (lambda x, p: joint_norms(x, p, length=lambda j: j.norm(dim=2), gather=lambda j: j[0]), "Give one number"),
        (lambda x, p: 0.0, "it should be"),
        (8, "Give a function"),
    ],
    "07.stages": [
        (staged(EQ_6, EQ_5), "The two are swapped"),
        (staged(gradients=((0, 0.5),)), "one stage is no schedule"),
        (staged(gradients=((0, 4e-3), (0.5, 2e-3))), "gradients: a stage is a *factor*"),
        (staged(statistics=((0, 0), (0.5, 0.2))), "statistics: a stage is a *factor*"),
        (staged(statistics=((0, 1), (0.5, 0))), "counts from the first step"),
        (staged(gradients=((0, 1), (0.5, 0))), "nothing holds the images"),
        (staged(gradients=((0, 0.5), (0.5, 1))), "the weight rises"),
        (staged(gradients=((0, 1), (60_000, 0.5))), "not at a step"),
        (staged(gradients=((0.5, 1), (0.8, 0.5))), "do not divide a run"),
        (staged(statistics=((0, 0), (0.75, 1))), "should be 0 and 1; yours are 0 and 1"),
        (staged(gradients=0.5), "no tuple of pairs"),
        (staged(gradients=...), "Nothing is written yet"),
        ({"gradients": EQ_5}, "a dict of two entries"),
        ((EQ_5, EQ_6), "a dict of two entries"),
    ],
    "07.counts": [
        (lambda g, b: g.argsort()[:b], "each class once"),
        (lambda g, b: [i for i, v in enumerate(g) if v < 0], "every class whose number is negative"),
        (lambda g, b: pulls(g, b, 0.0), "the smallest again and again"),
        (lambda g, b: pulls(g, b, -1 / b), "the smallest again and again"),
        (lambda g, b: pulls(g, b, 1.0), "the pull of an image that is alone"),
        (lambda g, b: pulls(g, b, 1 / len(g)), "You added 1/classes"),
        (lambda g, b: g.argsort(descending=True)[:b].tolist(), "a label pulls its class down"),
        (lambda g, b: [i for i, n in enumerate((-b * g).round().int()) for _ in range(max(int(n), 0))], "You rounded"),
        (lambda g, b: pulls(g, b - 1, 1 / b), "yours has 2"),
        (lambda g, b: pulls(g, b, 1 / (2 * b)), "Whose number is the smallest?"),
        (lambda g, b: int(g.argmin()), "Give a list of labels"),
        (lambda g, b: [1.02 * v for v in pulls(g, b, 1 / b)], "the number of a class, such as 2; yours has 1.02"),
        (lambda g, b: torch.tensor(pulls(g, b, 1 / b)) + 0.5, "yours has 1.5"),
        (lambda g, b: [v - 0.01 if v < 1 else v for v in pulls(g, b, 1 / b)], "the number of a class"),
        (lambda g, b: [True if v == 1 else v for v in pulls(g, b, 1 / b)], "yours has True"),
        ([1, 1, 3], "Give a function"),
    ],
    "07.registration": [
        (lambda m: to_consensus(m.detach(), towards=lambda c: c.detach()), "the gradient is still zero"),
        (lambda m: torch.tensor(to_consensus(m).tolist()), "the gradient is still zero"),
        (lambda m: to_consensus(m, held=torch.Tensor.detach), "no gradient towards the consensus"),
        (lambda m: to_consensus(m, towards=lambda c: m), "itself is 0"),
        (lambda m: to_consensus(m).square(), "squared distances"),
        (lambda m: to_consensus(m) / (2 * 3 * 8 * 8) ** 0.5, "root mean squares"),
        (lambda m: to_consensus(m).sum(), "You added the members up"),
        (lambda m: to_consensus(m, over=(2, 3, 4)), "Give one distance a member"),
        (lambda m: 2 * to_consensus(m), "should stay what they were"),
        (lambda m: to_consensus(m).tolist(), "Give a tensor"),
        (0.0, "Give a function"),
    ],
    "07.damped": [
        (lambda J, r, d: damped_step(J, r, 0.0), "You forgot the damping: where"),
        (lambda J, r, d: -torch.linalg.pinv(J) @ r, "You forgot the damping: where"),
        (lambda J, r, d: torch.linalg.pinv(J) @ r, "You forgot the damping, and"),
        (lambda J, r, d: damped_step(J, r, d, sign=1), "The sign is wrong"),
        (lambda J, r, d: damped_step(J, r, d, power=2), "the square of the damping"),
        (lambda J, r, d: damped_step(J, r, -d), "Add it"),
        (lambda J, r, d: torch.linalg.solve(J.T @ J + d, -J.T @ r), "every number of J^T J"),
        (lambda J, r, d: torch.linalg.solve(J.T @ J + d * torch.diag((J**2).sum(0)), -J.T @ r), "Marquardt's rule"),
        (lambda J, r, d: damped_step(J, r, d * (J**2).sum() / J.shape[1]), "as `GaussNewton` does"),
        (lambda J, r, d: -J.T @ r, "the gradient alone"),
        (lambda J, r, d: -J.T @ r / d, "J^T J is missing"),
        (lambda J, r, d: damped_step(J, r, d, outer=True), "J J^T in place of J^T J"),
        (lambda J, r, d: torch.linalg.solve(J + d * torch.eye(len(J)).to(J), -r), "J in place of J^T J"),
        (lambda J, r, d: damped_step(J, r, d, slope=J @ r), "J r on the right"),
        (
            lambda J, r, d: damped_step(J, r, d) if len(J) == 3 else damped_step(J, r, d, outer=True),
            "5 rows and 2 columns",
        ),
        (lambda J, r, d: damped_step(J, r, d if len(J) > 2 else 0.0), "2 rows and 4 columns"),
        (lambda J, r, d: damped_step(J, r, d)[:, None], "yours the shape (3, 1)"),
        (lambda J, r, d: 2 * damped_step(J, r, d), "what is left over?"),
        (lambda J, r, d: damped_step(J, r, d).tolist(), "Give a tensor"),
        (lambda J, r, d: None, "Nothing is written yet"),
        (0.1, "Give a function"),
    ],
    "07.credit": [
        ({"b", "d", "e"}, "an image that needs no gradient"),
        ({"a", "d", "e"}, "More steps help a search"),
        ({"a", "b", "e"}, "the client's gradient is not needed"),
        ({"a", "b", "d"}, "chosen for one of two searches"),
        ({"a", "b", "c", "d", "e"}, "how it should be"),
        ({"a", "b", "d", "e", "f"}, "no accident of one batch"),
        (set(), "an image that needs no gradient"),
        ({"a", "g"}, "There is no 'g'; the facts are a to f"),
        (12.0, "Give a set of letters"),
    ],
    "08.select": [
        (lambda names, a, b: [n for n in names if ".attn." in n and n.endswith("weight")], "Compare whole numbers"),
        (lambda names, a, b: attention_between(names, a, b, leaf=""), "is a bias"),
        (lambda names, a, b: attention_between(names, a + 1, b + 1), "count from 1"),
        (lambda names, a, b: attention_between(names, a, b - 1), "both ends are included"),
        (lambda names, a, b: attention_between(names, a, b, kind=""), "the MLP has weights too"),
        (lambda names, a, b: attention_between(names, a, b, kind="attn.qkv"), "the output projection"),
        (lambda names, a, b: attention_between(names, a, b, kind="attn.proj"), "query, key and value"),
        (
            lambda names, a, b: [n for n in names if n.startswith(f"blocks.{a - 1}") and "attn" in n and "weight" in n],
            "block 10",
        ),
        (lambda names, a, b: [n for n in names if "proj" in n and "weight" in n], "is in no block"),
        (lambda names, a, b: [*attention_between(names, a, b), f"blocks.{a - 1}.norm1.weight"], "none of its own"),
        (lambda names, a, b: 2 * attention_between(names, a, b), "some twice"),
        (lambda names, a, b: [], "is missing"),
        (lambda names, a, b: "blocks.1.attn.qkv.weight", "give a list of names"),
        (lambda names, a, b: [1, 2], "give the names themselves"),
        (["blocks.1.attn.qkv.weight"], "Give a function"),
    ],
    "08.share": [
        (lambda g, p: share_by(g, p, lambda x: x.square().sum(), whole=False), "divide by their sum"),
        (lambda g, p: {k: 100 * v for k, v in share_by(g, p, lambda x: x.square().sum()).items()}, "In percent"),
        (lambda g, p: share_by(g, p, lambda x: x.norm()), "added the norms"),
        (lambda g, p: share_by(g, p, lambda x: x.numel()), "how *many* numbers"),
        (lambda g, p: share_by(g, p, lambda x: x.square().mean()), "mean square of each tensor"),
        (lambda g, p: share_by(g, p, lambda x: x.sum()), "signs and all"),
        (lambda g, p: share_by(g, p, lambda x: x.abs().sum()), "absolute values"),
        (
            lambda g, p: {k: v**0.5 for k, v in share_by(g, p, lambda x: x.square().sum()).items()},
            "shares of the *length*",
        ),
        (
            lambda g, p: {k: torch.cat([g[n].flatten() for n in v]).norm() / 8 for k, v in p.items()},
            "The share of stem",
        ),
        (lambda g, p: {n: 0.2 for n in g}, "Give a dict with the parts"),
        (lambda g, p: 0.5, "yours is float"),
        ({"stem": 0.4}, "Give a function"),
    ],
    "08.fewest": [
        ({"blocks.0.attn.qkv.weight"}, "are not the fewest"),
        ({"pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"}, "is not needed"),
        ({"pos_embed"}, "needs 'patch_embed.proj.weight'"),
        ({"patch_embed.proj.weight", "cls_token"}, "needs 'pos_embed'"),
        ({"blocks.0.mlp.fc1.weight"}, "No closed form of ours"),
        ({"pos_embed", "patch_embed.weight"}, "no gradient named 'patch_embed.weight'"),
        ({"stem"}, "'stem' is a part"),
        (set(), "The set is empty"),
        ("pos_embed", "Give a set"),
    ],
    "08.rows": [
        (lambda size, patch: (size // patch) ** 2, "the class token enters"),
        (lambda size, patch: size // patch + 1, "both ways"),
        (lambda size, patch: size // patch, "and a class token"),
        (lambda size, patch: 3 * patch**2, "pixels of a patch"),
        (lambda size, patch: 3 * size**2, "all pixels"),
        (lambda size, patch: 3 * ((size // patch) ** 2 + 1), "in one space"),
        (lambda size, patch: 17, "rows_needed(image_size=32, patch=4): For the example it should be 65"),
        (17, "Give a function"),
    ],
    "08.label": [
        ({"head.weight"}, "Ten are enough"),
        ({"head.weight", "head.bias"}, "enough by itself"),
        ({"norm.bias"}, "mixed by the head's weights"),
        ({"pos_embed"}, "one number for each class"),
        ({"blocks.1.mlp.fc2.bias"}, "one number for each class"),
        ({"head"}, "parts['head'] lists them"),
        ({"bias"}, "no gradient named 'bias'; sorted(leak.grads) lists all"),
        ([], "The set is empty"),
        ("head.bias", "with one name it is {'head.bias'}"),
        (3, "Give a set of parameter names."),
    ],
    "08.safe": [
        ({"c", "d", "f"}, "hardly misses the stem"),
        ({"a", "d", "f"}, "is not a search"),
        ({"a", "c", "f"}, "another weight"),
        ({"a", "c", "d"}, "stopped early"),
        ({"a", "b", "c", "d", "f"}, "worth reading"),
        ("acdef", "low in its ranking"),
        ({"a", "c", "g"}, "There is no 'g'"),
        (4, "Give a set of letters"),
    ],
    "09.variant": [
        (morph.variant(9, activations="100"), "behind the depthwise convolution"),
        (morph.variant(9, activations="001"), "behind the addition, and step 10 has none there"),
        (morph.STEPS[10], "Make it yourself, out of step 9"),
        (morph.variant(10), "Make it yourself"),
        ((0, 1, 0), "this is a tuple"),
        (morph.variant(9, activations="101"), "which ones stay"),
        (morph.variant(9, activations="110"), "keeps 2 activations"),
        (morph.variant(9, activations="000"), "keeps 0 activations"),
        (morph.STEPS[9], "nothing is taken away"),
        (morph.variant(8, activations="010"), "More than the activations differs"),
        (morph.STEPS[11], "norms in a block"),
        ("010", "this is a str"),
        (..., "Nothing is written yet"),
    ],
    "09.sides": [
        (lambda step, side: sides_by(step, side, pool=False), "halves the side once more"),
        (lambda step, side: sides_by(step, side, pool=True), "no pooling behind its stem"),
        (lambda step, side: sides_by(step, side, up=lambda v: v / 2), "no half places"),
        (lambda step, side: sides_by(step, side, up=lambda v: v // 2), "rounds up"),
        (lambda step, side: [3 * v for v in sides_by(step, side)], "Look at the stem again"),
        (lambda step, side: [sides_by(step, side)[0], *sides_by(step, side)[:3]], "the second halves it"),
        (lambda step, side: sides_by(step, side)[-1], "give the four sides"),
        (lambda step, side: None, "Nothing is written yet"),
        ([8, 4, 2, 1], "Give a function"),
    ],
    "09.moved": [
        ({4}, "Right so far: 4. One step is missing"),
        ({8}, "Right so far: 8. One step is missing"),
        ({4, 8, 13}, "from inside the blocks to between stages"),
        ({4, 7, 8}, "Step 7 leaves the first stage's map at 4 x 4"),
        ({1, 4, 8}, "has no step before it"),
        (set(), "2 steps are missing"),
        (4, "Give a set"),
        ({...}, "Nothing is written yet"),
    ],
    "09.report": [
        ({"a", "b", "f"}, "may hold the search back"),
        ({"a", "e", "f"}, "'any attack'"),
        ({"b", "e", "f"}, "never tried step 10 on another network"),
        ({"a", "b", "e"}, "look at 10 minus 9"),
        ("abcef", "An activation has no parameters"),
        ("abdef", "cancels"),
        ("abefg", "the reasons are a to f"),
        (3, "Give a set of letters"),
    ],
    "09.hidden": [
        (lambda a, n, s: (a[s] - a[s - 1]) - (n[s] - n[s - 1]), "The sign"),
        (lambda a, n, s: n[s] - a[s], "two searches at one step"),
        (lambda a, n, s: n[s] - n[s - 1], "Gauss-Newton's jump. Take"),
        (lambda a, n, s: a[s] - a[s - 1], "Adam's jump. Ask"),
        (lambda a, n, s: ((n[s] - n[s - 1]) - (a[s] - a[s - 1])).mean(), "That is the mean"),
        (lambda a, n, s: n[s] + a[s], "yours makes"),
        (lambda a, n, s: None, "Nothing is written yet"),
        (3, "Give a function"),
    ],
    "09.rank": [
        (lambda v: torch.special.entr(v / v.sum()).sum().item(), "its exponential"),
        (lambda v: (-torch.special.entr(v / v.sum()).sum()).exp().item(), "The sign"),
        (lambda v: sensitivity.effective_rank(v.square()), "not of their squares"),
        (lambda v: int((v > 0).sum()), "the plain rank"),
        (lambda v: (-(v / v.sum() * (v / v.sum()).log2()).nansum()).exp().item(), "base 2"),
        (lambda v: v / v.sum(), "Give one number"),
        (lambda v: None, "Nothing is written yet"),
        (3.0, "Give a function"),
    ],
    "10.sharpness": [
        (lambda gap: 1 / gap, "not 1 / beta"),
        (lambda gap: gap / math.log(2), "Upside down"),
        (lambda gap: gap * math.log(2), "Upside down, and"),
        (lambda gap: math.log10(2) / gap, "the natural one"),
        (5.0, "Give a function"),
    ],
    "10.block": [
        (lambda *a: block_by(*a, there=bool), "counts as true"),
        (lambda *a: block_by(*a, there=lambda d: d == 1), "not with the number 1"),
        (lambda x, three, s, act, p: block_by(x, three, s, act, p[::-1]), "the other way round"),
        (lambda *a: block_by(*a, there=lambda d: d == "0"), "0 means that an activation is gone"),
        (lambda *a: block_by(*a, third="branch"), "yours stands on the branch"),
        (lambda *a: block_by(*a, third="shortcut"), "on the shortcut alone"),
        (lambda *a: block_by(*a, beside=torch.zeros_like), "the shortcut is missing"),
        (lambda *a: block_by(*a, beside=lambda x: x), "You add x itself"),
        (lambda x, three, s, act, p: block_by(x, three, s, act, p[:2] + "0"), "The third activation is missing"),
        (
            lambda x, three, s, act, p: block_by(
                x,
                [lambda t, f=f, d=d: f(act(t) if d == "1" else t) for f, d in zip(three, p[:2] + "0", strict=True)],
                s,
                act,
                "00" + p[2],
            ),
            "yours stand in front",
        ),
        (lambda x, three, s, act, p: 2 * block_by(x, three, s, act, p), "Pattern 111 comes out wrong"),
        (lambda x, three, s, act, p: block_by(x, three, s, act, p).sum(), "a map of the same shape"),
        (lambda x, three, s, act, p: "map", "gives str"),
        ("110", "Give a function"),
    ],
    "10.confounded": [
        ({"overlap", "weights"}, "keeps the largest of 9"),
        ({"overlap", "maxima"}, "3 x 7 x 7"),
        ({"weights", "maxima"}, "share pixels"),
        ({"overlap", "weights", "maxima", "resolution"}, "are both 8"),
        ({"overlap", "weights", "maxima", "channels"}, "the first stage"),
        ({"overlap", "weights", "maxima", "activation"}, "from step 8 on"),
        ({"stride"}, "'stride' is not on the list"),
        ("overlap", "Give a set"),
    ],
    "10.values": [
        (lambda size, batch: (size // 32) ** 2, "You left the batch out"),
        (lambda size, batch: batch * (size // 32), "square it"),
        (lambda size, batch: batch * (size // 4) ** 2, "the map behind the stem"),
        (lambda size, batch: batch * (size // 16) ** 2, "is 32"),
        (lambda size, batch: batch * (size // 8) ** 2, "Three of the four stages"),
        (lambda size, batch: batch * size**2, "the pixels of the images"),
        (lambda size, batch: batch, "right for 32 pixels only"),
        (lambda size, batch: 3 * batch * (size // 32) ** 2, "Colours are gone"),
        (lambda size, batch: batch * (size // 32) ** 2 + 1, "values(size=64, batch=1): For the example it should be 4"),
        (4, "Give a function"),
    ],
    "10.effect": [
        (lambda dB, i: main_effect(dB, i, on=0, off=1), "The sign"),
        (lambda dB, i: [v / 2 for v in main_effect(dB, i)], "Half of it"),
        (lambda dB, i: [4 * v for v in main_effect(dB, i)], "You added where a mean"),
        (lambda dB, i: main_effect(dB, i, others=lambda rest: not any(rest)), "with all others off"),
        (lambda dB, i: [statistics.mean(v[k] for s, v in dB.items() if s[i]) for k in range(3)], "subtract that"),
        (lambda dB, i: 3 * [statistics.mean(main_effect(dB, i))], "You averaged over the repeats"),
        (lambda dB, i: statistics.mean(main_effect(dB, i)), "keep the repeats apart"),
        (lambda dB, i: main_effect(dB, (i + 1) % 3), "the effect of switch 1"),
        (lambda dB, i: main_effect(dB, i)[:2], "there are 3 repeats"),
        (lambda dB, i: [v + 1 for v in main_effect(dB, i)], "repeat 0 should be"),
        ([1.0, 2.0, 3.0], "Give a function"),
    ],
    "10.matched": [
        (lambda one, other: at_equal_levels(other, one), "The sign"),
        (lambda a, b: np.mean([p - q for p, q in zip(a[1], b[1], strict=False)]), "epoch by epoch"),
        (lambda a, b: a[1][-1] - b[1][-1], "the ends of the two trainings"),
        (lambda a, b: np.mean(a[1]) - np.mean(b[1]), "each over its own levels"),
        (lambda a, b: at_equal_levels(a, b, low=min, high=max), "Your grid leaves a curve"),
        (lambda a, b: at_equal_levels(a, b, order=list), "rising order"),
        (lambda a, b: 200 * at_equal_levels(a, b), "take its mean"),
        (lambda a, b: at_equal_levels(a, b) + 0.01, "it should be 0.0550"),
        (lambda a, b: [at_equal_levels(a, b)] * 2, "Give one number"),
        (0.05, "Give a function"),
    ],
    "11.convince": [
        (lambda m, x, t, steps=50: x.clone(), "has not moved"),
        (lambda m, x, t, steps=50: persuade(m, x, t, 0), "has not moved"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, sign=-1), "believes less in class 1"),
        (lambda m, x, t, steps=50: persuade(m, x, t - 1, steps), "you make the model sure of class 0"),
        (lambda m, x, t, steps=50: persuade(m, x, 0, steps), "nothing in it goes by `target`"),
        (lambda m, x, t, steps=50: persuade(m, x, int(m(x).argmax()), steps, sign=-1), "goes by `target`"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, inside=False), "Outside [0, 1]"),
        (lambda m, x, t, steps=50: x.requires_grad_().clamp_(0, 1), "Clamp them under torch.no_grad()"),
        (lambda m, x, t, steps=50: torch.nn.functional.cross_entropy(m(x), t), "`target` is an int"),
        (persuade_in_place, "is no longer as it was"),
        (
            lambda m, x, t, steps=50: persuade(m, x, t, steps, start=lambda x: x),
            "is no longer as it was",
        ),
        (lambda m, x, t, steps=50: persuade(m, x.requires_grad_().detach(), t, steps), "no longer as it was"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps).requires_grad_(), "still needs a gradient"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps)[0], "yours has (3, 6, 6)"),
        (lambda m, x, t, steps=50: m(persuade(m, x, t, steps)), "yours has (1, 5)"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps).tolist(), "this is a list"),
        (lambda m, x, t, steps=50: (persuade(m, x, t, steps), 0.99), "this is a tuple"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps) * torch.nan, "from nan to nan"),
        (lambda m, x, t, steps=50: persuade(m, x, t, 1), "but more than 0.9 can be had"),
        (
            lambda m, x, t, steps=50: persuade(m, x, t, steps, rate=0.02, by=torch.optim.SGD),
            "but more than 0.9 can be had",
        ),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, start=torch.zeros_like), "the last column"),
        (lambda m, x, t, steps=50: persuade(m, x, t, 50), "you ask the model 50 times"),
        (torch.zeros(1, 3, 6, 6), "Give a function"),
    ],
    "11.evidence": [
        ({"a", "b", "c", "e"}, "exercise 1"),
        ({"b", "c", "d", "e"}, "The generator makes faces"),
        ({"b", "c", "e", "f"}, "The loss is the opinion of the door's network"),
        ({"c", "e"}, "names a judge"),
        ({"b", "e"}, "It needs a baseline"),
        ({"b", "c"}, "People are judges, too"),
        (set(), "names a judge"),
        ({"a"}, "exercise 1"),
        ({"b", "g"}, "There is no 'g'"),
        (3, "Give a set of letters"),
        ("b", "It needs a baseline"),
    ],
    "11.pairs": [
        ({"a", "c", "d"}, "differ in their stems"),
        ({"b", "c", "d"}, "tells what the stem does"),
        ({"c", "d", "e"}, "twice as many convolutions"),
        ({"c"}, "no skip connection at all"),
        ({"d"}, "in one stage only"),
        ({"a"}, "differ in their stems"),
        ({"c", "d", "f"}, "There is no 'f'; the pairs are a to e"),
        (0.5, "Give a set of letters"),
    ],
    "11.poincare": [
        (
            lambda z, t: by_one_guard(z, t, lambda room: room, lambda z: z.abs().sum()).nan_to_num(0.0, posinf=100.0),
            "does not tell the search where to go",
        ),
        (lambda z, t: in_the_ball(z, t, below=lambda z: z.abs().sum()), "poincare([0, 0, 0, 0], 1) gives nan"),
        (lambda z, t: in_the_ball(z, t, guard=lambda room: room), "poincare([0, 0, 3, 0], 2) gives inf"),
        (
            lambda z, t: by_one_guard(z, t, lambda room: room, lambda z: z.abs().sum() + 1e-9),
            "u lies on the rim of the ball",
        ),
        (lambda z, t: by_numbers(z, t) / any(z.tolist()), "0 / 0 is not a number"),
        (lambda z, t: in_the_ball(z, t) if z.any() else None, "gives no number"),
        (lambda z, t: in_the_ball(z, t, u=lambda z: z.softmax(0)), "Your u is a softmax"),
        (lambda z, t: in_the_ball(z, t, below=torch.norm), "Euclidean length"),
        (lambda z, t: in_the_ball(z, t, below=torch.norm, guard=lambda room: room), "Euclidean length"),
        (lambda z, t: in_the_ball(z.double(), t, below=torch.norm, guard=lambda room: room), "Euclidean length"),
        (
            lambda z, t: in_the_ball(z, t, below=torch.norm, guard=lambda room: room.clamp_min(1e-12)),
            "Euclidean length",
        ),
        (lambda z, t: in_the_ball(z, t, below=torch.norm, guard=lambda room: room.clamp_min(1e-4)), "Euclidean length"),
        (lambda z, t: by_one_guard(z, t, lambda room: room + 1e-6, below=torch.norm), "Euclidean length"),
        (lambda z, t: in_the_ball(z, t, less=0), "one-hot to the last digit"),
        (lambda z, t: in_the_ball(z, t, less=0, guard=lambda room: room), "one-hot to the last digit"),
        (lambda z, t: in_the_ball(z, t, less=0, guard=lambda room: room + 1e-12), "one-hot to the last digit"),
        (lambda z, t: by_one_guard(z, t, lambda room: room.clamp_min(1e-7), less=0), "one-hot to the last digit"),
        (lambda z, t: in_the_ball(z, t, low=-1), "cut it off at 0"),
        (lambda z, t: in_the_ball(z, t, two=1), "The factor 2 is missing"),
        (lambda z, t: in_the_ball(z, t, two=1, u=lambda z: z.softmax(0)), "which hardly changes any more"),
        (lambda z, t: in_the_ball(z, t, two=1, u=lambda z: z.softmax(0)), "The factor 2 is missing"),
        (lambda z, t: in_the_ball(z, t, rooms=(1, 0)), "1 - |v|^2 is missing"),
        (lambda z, t: in_the_ball(z, t, rooms=(0, 1)), "1 - |u|^2 is missing"),
        (lambda z, t: in_the_ball(z, t, rooms=(0, 0)), "Nothing stands below"),
        (lambda z, t: in_the_ball(z, t, one=0), "the 1 + is missing"),
        (lambda z, t: in_the_ball(z, t, guard=lambda room: room.clamp_min(1e-3)), "too strong"),
        (lambda z, t: by_one_guard(z, t, lambda room: room.clamp_min(1e-3)), "too strong"),
        (lambda z, t: in_the_ball(z, t + 1), "too far to the right"),
        (lambda z, t: in_the_ball(z, t - 1), "too far to the left"),
        (lambda z, t: in_the_ball(z, z.argmax()), "the largest logit"),
        (lambda z, t: in_the_ball(z, t, below=torch.sum), "Absolute values come first"),
        (lambda z, t: in_the_ball(z, t, u=lambda z: z / z.abs().max()), "outside the unit ball"),
        (lambda z, t: in_the_ball(z, t, u=lambda z: z, guard=lambda room: room), "outside the unit ball"),
        (lambda z, t: in_the_ball(z.abs(), t), "lost the sign of the logits"),
        (lambda z, t: in_the_ball(-z, t), "The sign of your u"),
        (lambda z, t: -in_the_ball(z, t), "The sign is turned"),
        (lambda z, t: in_the_ball(z, t).cosh(), "the arccosh itself is missing"),
        (lambda z, t: -z.log_softmax(0)[t], "the cross-entropy"),
        (lambda z, t: in_the_ball(z, t) + 1, "Print u and v"),
        (lambda z, t: z / z.abs().sum(), "Give one number"),
        (0.5, "Give a function"),
    ],
    "11.delta": [
        (lambda *a: to_own(*a, power=1), "That is not squared"),
        (lambda f, t, p, y: torch.cdist(f, p).square().amin(1), "photographs of anybody"),
        (lambda f, t, p, y: torch.cdist(f, p).amin(1), "photographs of anybody"),
        (lambda f, t, p, y: torch.cdist(f, p).amin(1), "That is not squared"),
        (lambda f, t, p, y: (torch.cdist(f, p).square() + 1e9 * (t[:, None] == y)).amin(1), "of all *others*"),
        (lambda *a: each_own(*a, which=torch.mean), "You take the mean over the photographs"),
        (lambda *a: each_own(*a, which=torch.mean, power=1), "You take the mean over the photographs"),
        (lambda *a: to_own(*a, which=torch.amax, others=-1.0), "the farthest photograph"),
        (lambda *a: to_own(*a, which=torch.amax, others=-1.0, power=1), "the farthest photograph"),
        (lambda *a: each_own(*a, which=torch.sum), "You add up the distances"),
        (lambda *a: each_own(*a, which=lambda d: d[0]), "the first photograph"),
        (to_own_mean, "the mean of the features"),
        (lambda *a: to_own_mean(*a, power=1), "the mean of the features"),
        (lambda *a: to_own(*a, others=0.0), "The others win, with 0"),
        (lambda *a: to_own(*a) / a[0].shape[1], "mean over the width"),
        (lambda *a: to_own(*a, power=4), "You squared twice"),
        (lambda f, t, p, y: torch.cdist(f, p, p=1).where(t[:, None] == y, torch.inf).amin(1), "absolute differences"),
        (lambda *a: to_own(*a, which=torch.argmin), "whole numbers, as places are"),
        (lambda *a: to_own(*a, which=torch.min), "2 things at once"),
        (lambda *a: to_own(*a).mean(), "one number for all"),
        (lambda *a: to_own(*a)[:, None], "something else, of the shape (6, 1)"),
        (lambda f, t, p, y: torch.cdist(f, p).square(), "all distances"),
        (lambda f, t, p, y: to_own(p, y, f, t), "one for each photograph"),
        (lambda *a: to_own(*a).squeeze(), "For 1 reconstructions"),
        (lambda *a: to_own(*a) + 1, "meant for person 1, it should be"),
        (lambda *a: to_own(*a) * torch.nan, "gives nan"),
        (with_a_mark(to_own, 0), "changes its argument `features`"),
        (with_a_mark(to_own, 2), "changes its argument `private`"),
        (with_a_mark(to_own, 3), "changes its argument `labels`"),
        (torch.zeros(6), "Give a function"),
    ],
    "11.fold": [
        (lambda w, m, v, g, b, eps: folding(w, m, v, g, b, 0), "eps is forgotten"),
        (lambda w, m, v, g, b, eps: folding(w, m, v, g, b, 1e-5), "You took 1e-5"),
        (lambda *a: folding(*a, root=lambda v: v), "You divide by the variance; "),
        (lambda w, m, v, g, b, eps: folding(w, m, v, g, b, 0, root=lambda v: v), "and without eps"),
        (lambda w, m, v, g, b, eps: folding(w, m, v.sqrt(), g, b, eps, root=lambda v: v), "under the root"),
        (lambda *a: folding(*a, root=lambda v: 1 / v.sqrt()), "You multiply by the standard deviation"),
        (lambda *a: folding(*a, root=torch.ones_like), "The standard deviation is forgotten"),
        (lambda w, m, v, g, b, eps: folding(w, m, v, 1, b, eps), "gamma is forgotten"),
        (lambda w, m, v, g, b, eps: folding(w, m, v, 1 / g, b, eps), "gamma stands below the line"),
        (lambda *a: folding(*a, axis=(1, -1, 1, 1)), "along the inputs"),
        (lambda *a: folding(*a, axis=(-1,)), "along the columns"),
        (lambda *a: folding(*a, axis=(-1, 1)), "along the rows"),
        (lambda w, *rest: (w, folding(w, *rest)[1]), "The weight is as it was"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b), "The mean is forgotten"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: -m * s), "beta is forgotten"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: 0 * b), "beta and mean are forgotten"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b + m * s), "The mean has the wrong sign"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: m * s - b), "Your whole bias"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b - m * s / g), "The mean is not multiplied by gamma"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b - m * g), "not divided by the standard deviation"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b - m), "The mean is not scaled"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: (b - m) * s), "beta is scaled"),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b * g - m * s), "beta is multiplied by gamma"),
        (
            lambda w, m, v, g, b, eps: folding(w, m, v, g, b, 0, shift=lambda m, s, g, b: b + m * s),
            "eps is forgotten: the norm divides by the root of var + eps. The mean has the wrong sign",
        ),
        (lambda *a: folding(*a, shift=lambda m, s, g, b: b - m * s + 1), "3 output channels the new bias is off"),
        (lambda *a: (folding(*a)[0] + 1, folding(*a)[1]), "3 output channels the new weight is off"),
        (lambda w, *rest: folding(w, *rest, root=torch.sqrt if len(w) == 3 else torch.square), "4 output channels"),
        (lambda *a: folding(*a)[::-1], "The weight comes first"),
        (lambda *a: folding(*a)[0], "this is a Tensor"),
        (lambda *a: (*folding(*a), 1), "Give two tensors"),
        (lambda *a: (folding(*a)[0], folding(*a)[1].view(-1, 1, 1, 1)), "The new bias should have the shape (3,)"),
        (lambda *a: (folding(*a)[0].flatten(1), folding(*a)[1]), "yours has (3, 27)"),
        (with_a_mark(folding, 0), "changes its argument `weight`"),
        (with_a_mark(folding, 2), "changes its argument `var`"),
        (torch.zeros(3), "Give a function"),
    ],
    "12.margin": [
        (lambda z, t: z.max() - z[t], "yours stays the same, however far ahead"),
        (lambda z, t: (strike_out(z, t).max() - z[t]).clamp_min(0), "yours stays the same, however far ahead"),
        (lambda z, t: z[t] - strike_out(z, t).max(), "The sign is turned"),
        (lambda z, t: -signals.margin(z[None], torch.tensor([t])), "Your logsumexp of the others"),
        (
            lambda z, t: z[t] - z.max(),
            "yours stays the same, however far ahead: it is its own rival, or you cut off at 0. This goes on. The sign",
        ),
        (lambda z, t: strike_out(z.softmax(0), t).max() - z.softmax(0)[t], "You took a softmax"),
        (lambda z, t: z.softmax(0)[t] - strike_out(z.softmax(0), t).max(), "is there to avoid. The sign is turned"),
        (lambda z, t: strike_out(z, t, 0).sum() / (len(z) - 1) - z[t], "the mean of the others"),
        (lambda z, t: z.mean() - z[t], "the mean of all classes"),
        (lambda z, t: strike_out(z, t, 0).sum() - z[t], "You added the others up"),
        (lambda z, t: strike_out(z, t).logsumexp(0) - z[t], "Your logsumexp of the others"),
        (lambda z, t: torch.nn.functional.cross_entropy(z, torch.tensor(t)), "cross-entropy"),
        (lambda z, t: strike_out(z, t, math.inf).min() - z[t], "the smallest of the others"),
        (lambda z, t: z.sort().values[-2] - z[t], "the second largest of all"),
        (lambda z, t: strike_out(z, t, 0).max() - z[t], "You put a 0"),
        (lambda z, t: (z * (torch.arange(len(z)) != t)).max() - z[t], "You put a 0"),
        (lambda z, t: z[z != z[t]].max() - z[t], "not by its value"),
        (lambda z, t: strike_out(z, t, 0).abs().max() - z[t], "absolute values"),
        (lambda z, t: -z[t], "The rival is missing"),
        (lambda z, t: strike_out(z, t).max(), "The target's own logit is missing"),
        (lambda z, t: strike_out(z, t).max() + z[t], "You added the two"),
        (lambda z, t: (strike_out(z, t).max() - z[t]).abs(), "the absolute value"),
        (lambda z, t: 1 + strike_out(z, t).max() - z[t], "You added 1"),
        (lambda z, t: torch.relu(1 + strike_out(z, t).max() - z[t]), "That is a hinge loss"),
        (lambda z, t: strike_out(z, t - 1).max() - z[t - 1], "too far to the left"),
        (lambda z, t: strike_out(z, t + 1).max() - z[t + 1], "too far to the right"),
        (lambda z, t: strike_out(z, t).max() - strike_out(z, t)[t], "before you have read its logit"),
        (lambda z, t: max(z[:t].max(), z[t + 1 :].max()) - z[t], "stopped with"),
        (lambda z, t: strike_out(z, t or 1).max() - z[t], "For ([1.25, 3.5, -0.5], 0) it should be 2.25"),
        (with_a_mark(lambda z, t: strike_out(z, t).max() - z[t], 0), "changes its argument `logits`"),
        (
            lambda z, t: -z[t].clone() + z.index_fill_(0, torch.tensor(t), -math.inf).max(),
            "changes its argument `logits`",
        ),
        (lambda z, t: strike_out(z, t) - z[t], "Give one number; this has the shape (5,)"),
        (lambda z, t: 7.0, "it should be -1.25, and yours gives 7."),
        (1.5, "Give a function"),
    ],
    "12.vendor": [
        ({"a", "b", "c", "d", "e"}, "One picture can be chosen"),
        ({"a", "b", "c", "d", "f"}, "The victim is no judge"),
        ({"b", "c", "d"}, "paid for at the task. Even b needs a"),
        ({"a", "c", "d"}, "the cheapest defence"),
        ({"a", "b", "d"}, "How large is the spread?"),
        ({"a", "b", "c"}, "a stricter judge"),
        ({"e"}, "One picture can be chosen"),
        ({"a", "g"}, "There is no 'g'; the facts are a to f"),
        (7, "Give a set of letters"),
    ],
    "12.players": [
        ("b", "more than guessing"),
        ("c", "which one is closer"),
        ("D", "a habit of clicking left"),
        ("e", "There is no 'e'"),
        ({"a"}, "Give one letter as text"),
    ],
    "12.kl": [
        (lambda m, s: normal_by_hand(m, s, total=torch.mean), "You took the mean"),
        (lambda m, s: -normal_by_hand(m, s), "The sign is turned"),
        (lambda m, s: 0.5 * (1 + (s**2).log() - m**2 - s**2).sum(), "The sign is turned"),
        (lambda m, s: normal_by_hand(m, s) / math.log(2), "in bits"),
        (lambda m, s: normal_by_hand(m, s) / math.log(10), "base 10; nats"),
        (lambda m, s: normal_by_hand(m, s, total=torch.max), "You took the largest"),
        (lambda m, s: normal_by_hand(m, s, log=lambda s: (s**2).log()), "The logarithm counts twice"),
        (lambda m, s: normal_by_hand(m, s, log=torch.log2), "The logarithm is to base 2"),
        (lambda m, s: normal_by_hand(m, s, log=torch.log10), "The logarithm is to base 10"),
        (lambda m, s: normal_by_hand(m, s, log=torch.log1p), "the logarithm of 1 + sigma"),
        (lambda m, s: normal_by_hand(m, s, log_weight=0), "no logarithm"),
        (lambda m, s: normal_by_hand(m, s, log_weight=-1), "The logarithm has the wrong sign"),
        (lambda m, s: normal_by_hand(m, s, log_weight=-2), "the wrong sign, and counts twice"),
        (lambda m, s: normal_by_hand(m, s, log_weight=0.5), "a half too many"),
        (lambda m, s: 2 * normal_by_hand(m, s), "twice as large"),
        (lambda m, s: (m**2 + s**2 - 1 - s.log()).sum(), "missing from the squares"),
        (lambda m, s: (m**2 + s**2 - 1 / 2 - s.log()).sum(), "You halve the constant alone"),
        (lambda m, s: (m**2 + s**2 / 2 - 1 / 2 - s.log()).sum(), "mu^2 has no half"),
        (lambda m, s: (m**2 / 2 + s**2 - 1 / 2 - s.log()).sum(), "sigma^2 has no half"),
        (lambda m, s: ((m**2 + s**2) / 2 - 1 - s.log()).sum(), "The constant needs the half"),
        (lambda m, s: normal_by_hand(m, s, one=0), "A constant is missing"),
        (lambda m, s: normal_by_hand(m, s, one=-1), "Your constant has the wrong sign"),
        (lambda m, s: ((m**2 + s**2).sum() - 1) / 2 - s.log().sum(), "once for the whole of z"),
        (lambda m, s: normal_by_hand(m, s, square=lambda m: m), "mu is not squared"),
        (lambda m, s: normal_by_hand(m, s, square=torch.abs), "the absolute value of mu"),
        (lambda m, s: divergence(0 * m, s), "mu plays no part"),
        (lambda m, s: ((m**2 + s - 1) / 2 - s.log()).sum(), "there should stand a variance"),
        (lambda m, s: ((m**2 - 1) / 2 - s.log()).sum(), "Nothing holds sigma down"),
        (lambda m, s: divergence(m, s.sqrt()), "You took sigma for a variance"),
        (lambda m, s: divergence(m, s**2), "You handed over sigma^2"),
        (lambda m, s: -0.5 * (1 + s - m**2 - s.exp()).sum(), "the logarithm of a variance"),
        (lambda m, s: divergence(m, s.exp()), "the logarithm of a standard deviation"),
        (
            lambda m, s: torch.distributions.kl_divergence(
                torch.distributions.Normal(0, 1), torch.distributions.Normal(m, s)
            ).sum(),
            "the other direction",
        ),
        (lambda m, s: divergence(m, s.sqrt(), total=torch.mean), "its square. You took the mean"),
        (
            lambda m, s: normal_by_hand(m, s, one=0, log_weight=-1),
            "the wrong sign: a small sigma gives more away, and should cost more. With mu",
        ),
        (lambda m, s: divergence(m, s, total=lambda each: each), "Give one number; this has the shape (3,)"),
        (lambda m, s: 1.0, "it should be 4.11226, and yours gives 1. Try one number of z"),
        (lambda m, s: normal_by_hand(m.square_().sqrt(), s), "changes its argument `mu`"),
        (with_a_mark(normal_by_hand, 1), "changes its argument `sigma`"),
        (3.0, "Give a function"),
    ],
    "12.delta": [
        (lambda u, d: (u[0] - d[0]) / (u[1] - d[1]), "upside down"),
        (lambda u, d: price(u[::-1], d[::-1]), "read it the other way"),
        (lambda u, d: d[1] / d[0], "accuracies with the defence"),
        (lambda u, d: u[1] / u[0], "accuracies without any defence"),
        (lambda u, d: price(u, d, task=lambda a, b: b - a), "The sign is turned"),
        (lambda u, d: price(u, d, attack=lambda a, b: b - a), "The sign is turned"),
        (
            lambda u, d: price(u, d, task=lambda a, b: 1 - b / a, attack=lambda a, b: 1 - b / a),
            "shares of what there was",
        ),
        (
            lambda u, d: price(u, d, task=lambda a, b: a / b - 1, attack=lambda a, b: a / b - 1),
            "shares of what is left",
        ),
        (lambda u, d: price(u, d, attack=lambda a, b: 1 - b / a), "the attacker's loss as a share"),
        (lambda u, d: price(u, d, task=lambda a, b: 1 - b / a), "the task's loss as a share"),
        (
            lambda u, d: price(u, d, task=lambda a, b: 100 * (1 - b / a)),
            "as you do for the attacker. Yours is 100 times too small",
        ),
        (lambda u, d: (d[1] / u[1]) / (d[0] / u[0]), "You compare what is left"),
        (lambda u, d: (d[0] - d[1]) / (u[0] - u[1]), "You subtract within a pair"),
        (lambda u, d: (u[1] - d[1]) - (u[0] - d[0]), "one loss less the other"),
        (lambda u, d: u[1] - d[1], "That is what the attacker loses"),
        (lambda u, d: u[0] - d[0], "That is what the task loses"),
        (lambda u, d: d[1] - u[1], "no part in it. The sign is turned"),
        (lambda u, d: (u[1] - d[1]) / (sum(u) - sum(d)), "the sum of both losses"),
        (lambda u, d: price(u, d, end=abs), "You dropped the sign"),
        (lambda u, d: price(u, d, attack=lambda a, b: abs(a - b)), "You dropped the sign"),
        (lambda u, d: price(u, d, end=lambda r: max(r, 0)), "You cut off at 0"),
        (lambda u, d: price(u, d, end=round), "You round to whole numbers"),
        (lambda u, d: (u[1] - d[1]) // (u[0] - d[0]), "You divide to whole numbers"),
        (lambda u, d: price(u, d, end=lambda r: round(r, 1)), "one decimal"),
        (lambda u, d: price(u, d, end=lambda r: round(r, 2)), "two decimals"),
        (lambda u, d: price(u, d, end=lambda r: 100 * r), "100 times too large"),
        (lambda u, d: price(u, d, task=lambda a, b: abs(a - b)), "dropped the sign of its loss"),
        (lambda u, d: abs(price(u, d)) if u[0] < d[0] else price(u, d), "dropped the sign that says so"),
        (price_or(math.nan), "For ((90.5, 60.0), (92.0, 49.25)) yours gives nan; it should be -7.16667"),
        (price_or(None), "yours gives nothing"),
        (price_or(0.0), "the task *gains*, and you give 0"),
        (price_or(math.inf), "and you give infinity"),
        (lambda u, d: price(u, d) if u[1] != d[1] else math.nan, "it should be 0. Only where"),
        (lambda u, d: price(u, d) if u[1] != d[1] else 1.0, "Here one of the losses is 0"),
        (lambda u, d: (u[1] - d[1]) / (u[0] - d[0]), "stops with ZeroDivisionError"),
        (lambda u, d: torch.tensor(u[1] - d[1]) / (u[0] - d[0]), "gives inf. The attacker lost a finite"),
        (lambda u, d: price(u, d, free=math.inf), "gives inf"),
        (lambda u, d: price(u, d, free=0.0), "says that the attacker lost nothing, and they lost 27.75 points"),
        (lambda u, d: (u[1] - d[1]) / (u[0] - d[0] or 1e-9), "gives 2.775e+10; whatever number"),
        (lambda u, d: price(u, d, free=None), "gives no number"),
        (lambda u, d: price(u, d, free="nan"), "gives no number"),
        (lambda u, d: price(u, d) if u != d else 1.0, "For (94.5, 61.0) and (94.5, 61.0) the task loses nothing"),
        (
            lambda u, d: price(u, d, free=math.nan) if u[0] - d[0] > 0.5 else math.nan,
            "it should be 11.5, and yours gives nan",
        ),
        (lambda u, d: np.subtract(u, d), "Give one number; this has the shape (2,)"),
        (lambda u, d: 7.0, "it should be 4.73077, and yours gives 7. Write down the two losses"),
        (4.73, "Give a function"),
    ],
    "12.front": [
        (
            kept(lambda t, a, mine, his: t >= mine and a >= his and (t, a) != (mine, his)),
            "a high attack accuracy for a good one",
        ),
        (
            kept(lambda t, a, mine, his: t <= mine and a <= his and (t, a) != (mine, his)),
            "a low task accuracy for a good one",
        ),
        (kept(lambda t, a, mine, his: t <= mine and a >= his and (t, a) != (mine, his)), "the front of the worst"),
        (lambda p: tradeoff.front({n: x[::-1] for n, x in p.items()}), "the front of the worst"),
        (kept(lambda t, a, mine, his: t > mine and a < his), "You ask for better in both"),
        (kept(lambda t, a, mine, his: t > mine and a <= his), "To be level at the *task*"),
        (kept(lambda t, a, mine, his: t >= mine and a < his), "To be level for the *attacker*"),
        (kept(lambda t, a, mine, his: t >= mine and a <= his), "throws both out"),
        (kept(lambda t, a, mine, his: t >= mine and a <= his, itself=True), "Does each of yours beat itself?"),
        (kept(lambda t, a, mine, his: t > mine or a < his), "better in *either*"),
        (in_order, "throws one out"),
        (lambda p: {x: n for n, x in p.items() if n in with_equals(p)}.values(), "throws one out"),
        (lambda p: in_order(p, level=True), "To be level for the *attacker*"),
        (by_neighbours, "You compare each with its neighbour"),
        (lambda p: {max(p, key=p.get)}, "You keep the most accurate alone"),
        (lambda p: [n for n in p if p[n][1] == min(a for _, a in p.values())], "You keep the safest alone"),
        (lambda p: {max(p, key=lambda n: p[n][0]), min(p, key=lambda n: p[n][1])}, "the most accurate and the safest"),
        (lambda p: [max(p, key=lambda n: p[n][0] / p[n][1])], "You rank by one number"),
        (lambda p: [max(p, key=lambda n: p[n][0] - p[n][1])], "You rank by one number"),
        (on_the_hull, "the corners of a convex hull"),
        (lambda p: on_the_hull(p, ends=True), "the corners of a convex hull"),
        (lambda p: set(p) - set(tradeoff.front(p)), "that *are* beaten"),
        (lambda p: p.keys(), "You keep all of them"),
        (lambda p: set(), "You keep none at all"),
        (lambda p: {p[n] for n in tradeoff.front(p)}, "You give the pairs of numbers"),
        (lambda p: [list(p[n]) for n in tradeoff.front(p)], "You give the pairs of numbers"),
        (lambda p: list(range(len(p))), "0 is no name"),
        (lambda p: [n in tradeoff.front(p) for n in p], "is no name"),
        (lambda p: list(p.items()), "is no name"),
        (
            lambda p: {*tradeoff.front(p), "g"} & set(p),
            "You keep one at (91.0, 58.0), and beside it there is (93.0, 57.0)",
        ),
        (lambda p: set(tradeoff.front(p)) - {"c"}, "You throw out the one at (93.0, 57.0)"),
        (lambda p: next(iter(tradeoff.front(p))), "this is a str"),
        (lambda p: len(tradeoff.front(p)), "this is a int"),
        (popping, "changes the dictionary"),
        ({"a"}, "Give a function"),
    ],
    "13.brochure": [
        ({"b", "d", "e"}, "sent unchanged"),
        ({"a", "d", "e"}, "makes any noise look good"),
        ({"a", "b", "e"}, "averages out"),
        ({"a", "b", "d"}, "about the cost"),
        ({"a", "b", "c", "d", "e"}, "the right baseline"),
        ({"a", "b", "d", "e", "f"}, "More clients would not repair"),
        (set(), "sent unchanged"),
        ({"a", "g"}, "There is no 'g'; the facts are a to f"),
        (12.0, "Give a set of letters"),
    ],
    "13.deviation": [
        (lambda s, r, norm, n: r * norm * s / math.sqrt(n), "`share` is one of energy"),
        (lambda s, r, norm, n: r * norm * s / n, "`share / numbers` is a part of the energy"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s) / n, "where its root belongs"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s / n) / math.sqrt(n), "where its root belongs"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s), "So long is the noise of the whole group"),
        (lambda s, r, norm, n: r * norm * s, "belongs under a root"),
        (lambda s, r, norm, n: r * norm / math.sqrt(n), "`share` is missing"),
        (lambda s, r, norm, n: r * norm, "Neither `share` nor `numbers`"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s * n), "You multiply by `numbers`"),
        (lambda s, r, norm, n: r * norm * math.sqrt(n / s), "upside down: a larger share"),
        (lambda s, r, norm, n: r * norm * (s / n) ** 0.25, "`share / numbers` twice"),
        (lambda s, r, norm, n: r * norm * math.sqrt((1 - s) / n), "left for the other groups"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s / (n - 1)), "You divide by `numbers - 1`"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s / 100 / n), "no percents"),
        (lambda s, r, norm, n: r * norm * math.sqrt(s) / 10 / math.sqrt(n), "no percents"),
        (lambda s, r, norm, n: r * math.sqrt(s / n), "`norm` is missing"),
        (lambda s, r, norm, n: norm * math.sqrt(s / n), "`relative` is missing"),
        (lambda s, r, norm, n: math.sqrt(s / n), "`relative` and `norm` are missing"),
        (lambda s, r, norm, n: r * norm**2 * math.sqrt(s / n), "`norm` is squared"),
        (lambda s, r, norm, n: r**2 * norm * math.sqrt(s / n), "`relative` is squared"),
        (lambda s, r, norm, n: (r * norm) ** 2 * math.sqrt(s / n), "`relative * norm` is squared"),
        (lambda s, r, norm, n: math.sqrt(r * norm * s / n), "You took the root of `relative * norm`, too"),
        (lambda s, r, norm, n: r * math.sqrt(norm * s / n), "You took the root of `norm`, too"),
        (lambda s, r, norm, n: norm * math.sqrt(r * s / n), "You took the root of `relative`, too"),
        (lambda s, r, norm, n: r / norm * math.sqrt(s / n), "You divide by `norm`"),
        (lambda s, r, norm, n: norm / r * math.sqrt(s / n), "You divide by `relative`"),
        (lambda s, r, norm, n: s * (r * norm) ** 2 / n, "That is the variance"),
        (lambda *a: math.sqrt(in_each(*a)), "one root too many"),
        (lambda s, r, norm, n: r * s / math.sqrt(n), "under the root. `norm` is missing"),
        (lambda s, r, norm, n: r * math.sqrt(s) / n, "deviations do not. `norm` is missing"),
        (lambda s, r, norm, n: s * r**2 / n, "gets more. That is the variance"),
        (lambda s, r, norm, n: (r * norm * s) ** 2 / n, "under the root. That is the variance"),
        (lambda s, r, norm, n: s * (r * norm) ** 2, "its part of it. That is the variance"),
        (lambda s, r, norm, n: r * norm**2 / math.sqrt(n), "gets all of the noise. `norm` is squared"),
        (lambda s, r, norm, n: r * s / n, "goes with its root. `norm` is missing"),
        (lambda *a: np.full(a[3], in_each(*a)), "Give one number; this has the shape (100,)"),
        (lambda *a: (in_each(*a), in_each(*a) ** 2), "Give one number; this has the shape (2,)"),
        (lambda *a: 2 * in_each(*a), "it should be 0.3, and yours gives 0.6. How much energy"),
        (lambda *a: torch.tensor(7.0), "it should be 0.3, and yours gives 7"),
        (lambda s, r, norm, n: r * norm * torch.sqrt(s / n), "stopped with TypeError"),
        (0.3, "Give a function"),
    ],
    "13.rounds": [
        (lambda r, t: math.ceil(r / t), "You took the ratio itself"),
        (lambda r, t: until_quiet(r, t, lambda r, n, t: r / n > t), "You took the ratio itself"),
        (lambda r, t: updates_needed(r, t, lambda r, t: math.sqrt(r / t)), "You took its root"),
        (lambda r, t: updates_needed(r, t, lambda r, t: (r / t) ** 4), "You squared the ratio twice"),
        (lambda r, t: updates_needed(r, t, lambda r, t: (t / r) ** 2), "Your ratio is upside down"),
        (lambda r, t: updates_needed(r, t, lambda r, t: r**2 / t), "You squared `relative` alone"),
        (lambda r, t: until_quiet(r, t, lambda r, n, t: r**2 / n > t), "You squared `relative` alone"),
        (lambda r, t: updates_needed(r, t, lambda r, t: r / t**2), "Are brackets missing?"),
        (lambda r, t: updates_needed(r, t, lambda r, t: r - t), "You took a difference. It"),
        (lambda r, t: updates_needed(r, t, lambda r, t: r**2 - t**2), "You took a difference of squares"),
        (lambda r, t: updates_needed(r, t, lambda r, t: r**2), "`target` plays no part"),
        (halving, "You halve the noise with each update"),
        (lambda r, t: updates_needed(r, t, whole=math.floor), "You round down"),
        (lambda r, t: int(r**2 / t**2), "You round down"),
        (lambda r, t: r**2 // t**2, "You round down"),
        (lambda r, t: updates_needed(r, t, whole=round), "You round to the nearest"),
        (lambda r, t: (r / t) ** 2, "Nobody sends a part"),
        (lambda r, t: max(1.0, (r / t) ** 2), "Nobody sends a part"),
        (lambda r, t: math.floor((r / t) ** 2) + 1, "noise of just `target` will do"),
        (lambda r, t: until_quiet(r, t, lambda r, n, t: r / math.sqrt(n) >= t), "noise of just `target` will do"),
        (lambda r, t: updates_needed(r, t) + 1, "one too many"),
        (lambda r, t: updates_needed(r, t) - 1, "one too few"),
        (lambda r, t: math.floor(r / t), "You took the ratio itself. You round down"),
        (lambda r, t: r / t, "You took the ratio itself. Nobody sends a part"),
        (lambda r, t: round(r**2 / t), "of the whole ratio. You round to the nearest"),
        (lambda r, t: math.ceil(math.log2(r / t)), "to halve it takes four. Yours is one too few"),
        (
            lambda r, t: math.ceil((r / t) ** 2),
            "For (0.0, 0.5), where the first update is quiet enough, yours gives 0",
        ),
        (lambda r, t: math.ceil((r / t) ** 2 - 1e-9), "For (0.0, 0.5)"),
        (
            lambda r, t: updates_needed(r, t) if r > t else 0,
            "For (0.25, 0.5), where the first update is quiet enough, yours",
        ),
        (lambda r, t: updates_needed(r, t) if r >= t else 0, "For (0.25, 0.5)"),
        (lambda r, t: updates_needed(r, t) if r > t else None, "yours gives no number"),
        (lambda r, t: updates_needed(r, t, least=2), "yours gives 2. It should be 1."),
        (lambda r, t: (updates_needed(r, t), r / t), "Give one number; this has the shape (2,)"),
        (lambda r, t: 10, "it should be 4, and yours gives 10. How noisy"),
        (4, "Give a function"),
    ],
    "13.weigh": [
        (lambda *a: believed(*a, weight=lambda s: 1 / s), "You weigh by 1 / sigma."),
        (lambda *a: believed(*a, weight=lambda s: 1 / s**4), "You squared twice"),
        (lambda *a: believed(*a, weight=lambda s: s**2), "or have changed places."),
        (lambda a, s, b, t: (a / t**2 + b / s**2) / (1 / s**2 + 1 / t**2), "or have changed places."),
        (lambda *a: believed(*a, weight=lambda s: s), "and sigma is not squared"),
        (lambda a, s, b, t: (a * s + b * t) / (s + t), "and sigma is not squared"),
        (lambda a, s, b, t: (a + b) / 2, "the noisier one counts as much"),
        (lambda a, s, b, t: a if s < t else b, "You keep the less noisy one alone"),
        (lambda a, s, b, t: a if s > t else b, "throw the better one away"),
        (lambda a, s, b, t: a, "You return `one`"),
        (lambda a, s, b, t: b, "You return `other`"),
        (lambda a, s, b, t: a / s**2 + b / t**2, "Your weights do not add up to 1. Divide"),
        (lambda a, s, b, t: a / t**2 + b / s**2, "each stands at the other measurement"),
        (lambda *a: believed(*a, below=lambda v, w: 2), "You divide by 2"),
        (lambda *a: believed(*a, below=lambda v, w: v), "the weight of `one` alone"),
        (lambda a, s, b, t: a / s**2 + b / t**2 / (1 / s**2 + 1 / t**2), "Are brackets missing above the line?"),
        (lambda a, s, b, t: (a / s**2 + b / t**2) / s**-2 + t**-2, "Are brackets missing?"),
        (lambda *a: believed(*a, sign=-1), "A mean adds them"),
        (lambda a, s, b, t: believed(a, s, 0, t), "Only `one` is in yours"),
        (lambda a, s, b, t: believed(0, s, b, t), "Only `other` is in yours"),
        (lambda a, s, b, t: 1 / (1 / s**2 + 1 / t**2), "its variance"),
        (lambda a, s, b, t: math.sqrt(1 / (1 / s**2 + 1 / t**2)), "its standard deviation"),
        (lambda a, s, b, t: (a / s**2 + b / t**2) / (s**2 + t**2), "You divide by the sum of the variances"),
        (lambda a, s, b, t: (a / s + b / t) / (s + t), "the sum of both sigmas"),
        (lambda a, s, b, t: a / s + b / t, "1 / sigma^2. Your weights do not add up to 1"),
        (lambda a, s, b, t: a * s**2 + b * t**2, "Your weights do not add up to 1"),
        (lambda a, s, b, t: a + b, "as much as the other. Your weights do not add up to 1"),
        (lambda a, s, b, t: (a / s + b / t) / 2, "1 / sigma^2. You divide by 2"),
        (lambda a, s, b, t: (a - b) / 2, "as much as the other. You take one measurement from the other"),
        (lambda a, s, b, t: (believed(a, s, b, t), 1.0), "Give one number; this has the shape (2,)"),
        (lambda *a: 5.0, "it should be 7.6, and yours gives 5. Where one is twice as noisy"),
        (lambda a, s, b, t: torch.softmax([s, t], 0), "stopped with TypeError"),
        (7.6, "Give a function"),
    ],
    "13.cheapest": [
        (lambda rows, level: least(rows, level, lambda row, level: row[1] < level), "just *at* `level` holds"),
        (lambda rows, level: one_by_one(rows, level, lambda dB, level: dB < level), "just *at* `level` holds"),
        (lambda rows, level: least(rows, level, lambda row, level: row[1] >= level), "Your comparison is turned"),
        (lambda rows, level: least(rows, level, lambda row, level: row[1] > level), "those that do *not* hold"),
        (lambda rows, level: min(rows, key=rows.get), "`level` decides nothing"),
        (lambda rows, level: least(rows, level, lambda row, level: row[0] <= level), "`level` decides nothing"),
        (
            lambda rows, level: least(rows, level, lambda row, level: row[1] <= level and row[0] > 0),
            "those with which the task *gains*",
        ),
        (lambda rows, level: least(rows, level, by=lambda row: row[1]), "Yours leaves the attacker least"),
        (lambda rows, level: min(rows, key=lambda n: rows[n][1]), "Yours leaves the attacker least"),
        (lambda rows, level: least({n: row[::-1] for n, row in rows.items()}, level), "The cost comes first in a pair"),
        (lambda rows, level: least(rows, level, pick=max, by=lambda row: row[1]), "Yours has the most dB"),
        (lambda rows, level: least(rows, level, pick=max), "You take the dearest"),
        (lambda rows, level: least(rows, level, by=lambda row: -row[0]), "You take the dearest"),
        (lambda rows, level: least(rows, level, by=lambda row: abs(row[0])), "You dropped the sign"),
        (lambda rows, level: least(rows, level, by=lambda row: max(row[0], 0.0)), "A cost below 0 counts as 0"),
        (lambda rows, level: least(rows, level, by=sum), "You add points to dB"),
        (lambda rows, level: min({n: row for n, row in rows.items() if row[1] <= level}), "the alphabet"),
        (lambda rows, level: next(n for n, row in rows.items() if row[1] <= level), "You take the first that holds"),
        (lambda rows, level: next((n for n in rows if rows[n][1] <= level), None), "You take the first that holds"),
        (lambda rows, level: one_by_one(rows, level, better=lambda *_: True), "You take the last that holds"),
        (lambda rows, level: next(n for n in rows if rows[n][1] < level), "holds, too. You take the first"),
        (
            lambda rows, level: max((n for n in rows if rows[n][1] > level), key=lambda n: rows[n][0]),
            "do *not* hold. They should stay at or below `level`.",
        ),
        (
            lambda rows, level: least(rows, level, lambda row, level: row[1] < level, by=lambda row: abs(row[0])),
            "holds, too. You dropped the sign",
        ),
        (
            lambda rows, level: max(rows, key=rows.get),
            "`level` decides nothing in yours. Is it left out, or held against the points, which stand first in a pair? You",
        ),
        (lambda rows, level: least(rows, level, by=lambda row: row[0]), "Three that hold cost 2 points"),
        (lambda rows, level: one_by_one(rows, level, better=lambda new, old: new[0] <= old[0]), "Of these"),
        (lambda rows, level: least(rows, level, by=lambda row: (row[0], -row[1])), "yours gives 'pruning'. Of these"),
        (
            lambda rows, level: min((n for n in rows if rows[n][1] <= level), key=rows.get),
            "Where no defence holds, yours stops with ValueError",
        ),
        (
            lambda rows, level: sorted((n for n in rows if rows[n][1] <= level), key=rows.get)[0],
            "Where no defence holds, yours stops with IndexError",
        ),
        (lambda rows, level: least(rows, level, none=""), "give None; yours gives ''"),
        (lambda rows, level: least(rows, level, none="none"), "give None; yours gives 'none'"),
        (lambda rows, level: least(rows, level, none=math.nan), "give None; yours gives nan"),
        (lambda rows, level: least(rows, level) or min(rows, key=rows.get), "give None; yours gives 'clipping'"),
        (lambda rows, level: least(rows, level) if rows else "", "Where the dictionary is empty, give None"),
        (lambda rows, level: least(rows, level) if rows else rows[0], "is empty, yours stops with KeyError"),
        (lambda rows, level: rows[least(rows, level)], "You give the pair of numbers"),
        (lambda rows, level: list(rows[least(rows, level)]), "You give the pair of numbers"),
        (lambda rows, level: rows[least(rows, level)][0], "You give what it costs"),
        (lambda rows, level: rows[least(rows, level)][1], "Give one name, and nothing else; this is a float"),
        (lambda rows, level: (least(rows, level), rows[least(rows, level)]), "and nothing else; this is a tuple"),
        (lambda rows, level: {least(rows, level)}, "and nothing else; this is a set"),
        (lambda rows, level: [least(rows, level)], "and nothing else; this is a list"),
        (lambda rows, level: torch.tensor(rows[least(rows, level)]), "and nothing else; this is a Tensor"),
        (lambda rows, level: list(rows).index(least(rows, level)), "and nothing else; this is a int"),
        (lambda rows, level: "", "'' is no name in the dictionary"),
        (lambda rows, level: least(rows, level).upper(), "'PRUNING' is no name"),
        (lambda rows, level: least(rows, 20.0), "At a level of 16.25 dB you choose 'shuffling', 1.25 points and 17 dB"),
        (
            lambda rows, level: "noise",
            "you choose 'noise', 6 points and 12.5 dB. Look at 'pruning', 3.5 points and 20 dB.",
        ),
        (
            lambda rows, level: least(rows, level) if level < 20 else None,
            "At a level of 20 dB you choose none. Look at",
        ),
        (deleting, "changes the dictionary"),
        ("pruning", "Give a function"),
    ],
    "14.verdict": [
        (lambda v, bar: in_words(share_above(v, bar, ddof=0)), "Your deviation divides by n"),
        (lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: s)), "So wide is the spread of single repeats"),
        (lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: s / n)), "where its root belongs"),
        (
            lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: s / (n - 1) ** 0.5)),
            "You divide by sqrt(n - 1)",
        ),
        (lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: s * n**0.5)), "You multiply by sqrt(n)"),
        (lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: s**2 / n**0.5)), "that is the variance"),
        (lambda v, bar: in_words(share_above(v, bar, width=lambda s, n: 1)), "The width is missing"),
        (lambda v, bar: in_words(normal_above(v, bar)), "You took the normal distribution"),
        (lambda v, bar: in_words(share_above(v, bar, df=lambda n: n)), "You took n degrees of freedom"),
        (lambda v, bar: in_words(share_above(v, bar, df=lambda n: n - 2)), "You took n - 2 degrees"),
        (lambda v, bar: in_words(share_above(v, bar), 0.975, 0.025), "97.5% and 2.5%"),
        (lambda v, bar: by_interval(v, bar, 0.95), "97.5% and 2.5%"),
        (lambda v, bar: by_interval(v, bar, 0.8), "Your limits are 90% and 10%"),
        (lambda v, bar: in_words(share_above(v, bar), 0.99, 0.01), "99% and 1%"),
        (lambda v, bar: in_words(1 - share_above(v, bar)), "Yours says the opposite"),
        (lambda v, bar: by_test(-v, -bar), "Yours says the opposite"),
        (lambda v, bar: in_words(share_above(v, 0)), "`bar` plays no part"),
        (lambda v, bar: in_words(share_above(v, -bar)), "You add `bar`"),
        (lambda v, bar: in_words(share_above(v, bar, centre=np.median)), "You took the median"),
        (lambda v, bar: in_words(share_above(v, bar, centre=np.max)), "the best of the repeats"),
        (lambda v, bar: in_words(share_above(v, bar, centre=np.min)), "the worst of the repeats"),
        (lambda v, bar: in_words(share_above(abs(v.mean() - bar) + v - v.mean(), 0)), "You dropped the sign"),
        (lambda v, bar: in_words(share_above(v, bar), rest="not reproduced"), "wherever less than 95%"),
        (
            lambda v, bar: (
                "reproduced"
                if scipy.stats.ttest_1samp(v, bar, alternative="greater").pvalue <= 0.05
                else "not reproduced"
            ),
            "wherever less than 95%",
        ),
        (lambda v, bar: in_words(share_above(v, bar), rest="reproduced"), "unless 5% or less"),
        (lambda v, bar: in_words(share_above(v, bar), 0.5, rest="not reproduced"), "go by whether the mean"),
        (lambda v, bar: "reproduced" if v.mean() > bar else "not reproduced", "go by whether the mean"),
        (lambda v, bar: in_words(share_above(v, bar), low=-1), "Yours never says 'not reproduced'"),
        (
            lambda v, bar: {"not reproduced": "inconclusive", "inconclusive": "not reproduced"}.get(
                by_test(v, bar), "reproduced"
            ),
            "have changed places",
        ),
        (
            lambda v, bar: "reproduced" if scipy.stats.ttest_1samp(v, bar).pvalue <= 0.05 else "not reproduced",
            "of a test on two sides",
        ),
        (lambda v, bar: in_words((v > bar).mean()), "You count the repeats above"),
        (
            lambda v, bar: "reproduced" if (v > bar).all() else "inconclusive" if (v > bar).any() else "not reproduced",
            "You count the repeats above",
        ),
        (lambda v, bar: in_words(share_above(v, bar, ddof=0), 0.975, 0.025), "`ddof=1`. Your limits are 97.5%"),
        (
            lambda v, bar: in_words(share_above(v, bar, df=lambda n: n), rest="not reproduced"),
            "n - 1 are left. You say 'not reproduced' wherever",
        ),
        (lambda v, bar: in_words(share_above(v, bar), 95, 5), "Yours says 'not reproduced' whatever"),
        (lambda v, bar: by_test(v, bar).capitalize(), "letter by letter"),
        (lambda v, bar: by_test(v, bar).replace(" ", "_"), "'not_reproduced' is none of the three words"),
        (lambda v, bar: share_above(v, bar) >= 0.95, "True and False are two"),
        (lambda v, bar: share_above(v, bar).item(), "this is a float"),
        (lambda v, bar: (by_test(v, bar), 1.0), "this is a tuple"),
        (nothing_between, "Is a `return` missing"),
        (in_place, "changes the values"),
        (
            lambda v, bar: "inconclusive" if len(v) < 3 else by_test(v, bar),
            "For [-2.5, -2.75] and a bar of 1, 1.1% of the distribution lie above it",
        ),
        (lambda v, bar: in_words(share_above(v)), "stopped with TypeError"),
        ("reproduced", "Give a function"),
    ],
    "14.repeats": [
        (lambda e, s: counted(e, s, lambda n, s: 1.645 * s / n**0.5), "You took the normal distribution"),
        (lambda e, s: math.ceil((1.645 * s / e) ** 2), "You took the normal distribution"),
        (lambda e, s: counted(e, s, lambda n, s: 1.96 * s / n**0.5), "And 1.96 is its limit on two sides"),
        (lambda e, s: math.ceil((scipy.stats.norm.ppf(0.975) * s / e) ** 2), "And 1.96 is its limit on two sides"),
        (lambda e, s: (scipy.stats.norm.ppf(0.95) * s / e) ** 2, "And nobody repeats a part of a run"),
        (lambda e, s: int((1.645 * s / e) ** 2), "And you round down"),
        (lambda e, s: round((1.645 * s / e) ** 2), "And you round to the nearest"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, 0.975)), "You took the limit on two sides"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, 0.9)), "the limit of 90%"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, 0.99)), "the limit of 99%"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, df=lambda n: n)), "You took n degrees of freedom"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, df=lambda n: n - 2)), "You took n - 2 degrees"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s) + limit_of(n, s, 0.8)), "You add a second quantile"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s**2)), "You squared `spread`. It"),
        (lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, width=lambda s, n: s / n)), "where its root belongs"),
        (
            lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, width=lambda s, n: s**2 / n)),
            "and forgot the root of n",
        ),
        (
            lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, width=lambda s, n: (s / n) ** 0.5)),
            "stands under the root",
        ),
        (
            lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, width=lambda s, n: s / (n - 1) ** 0.5)),
            "by sqrt(n - 1)",
        ),
        (lambda e, s: counted(e, 1.0), "`spread` plays no part"),
        (lambda e, s: counted(s, e), "have changed places"),
        (for_ever, "The number of repeats does not make your limit smaller"),
        (lambda e, s: for_ever(e, s, 0.975), "95%. The number of repeats does not make your limit smaller"),
        (lambda e, s: counted(e, s) + 1, "one too many"),
        (lambda e, s: counted(e, s) - 1, "one too few"),
        (lambda e, s: while_above(e, s, first=1), "Yours gives 1, whatever it is asked. With one repeat"),
        (lambda e, s: counted(e, s, small=lambda limit, e: limit >= e), "Is the comparison turned?"),
        (
            lambda e, s: counted(e, s, lambda n, s: limit_of(n, s, 0.975)) - 1,
            "to the one side: 95%. Yours is one too few",
        ),
        (
            lambda e, s: counted(e, s, lambda n, s: limit_of(n, s**2, 0.975)),
            "to the one side: 95%. You squared `spread`.",
        ),
        (lambda e, s: counted(e, s, first=3), "Where two will do, yours starts later"),
        (lambda e, s: max(5, counted(e, s)), "Two repeats have one degree of freedom"),
        (lambda e, s: 12, "it should be 5, and yours gives 12. Work out the limit"),
        (lambda e, s: (counted(e, s), e), "Give one number; this has the shape (2,)"),
        (lambda e, s: scipy.stats.t.ppf(0.95), "stopped with TypeError"),
        (13, "Give a function"),
    ],
    "14.flaws": [
        ("q", "Give a dict"),
        ({"A": "q"}, "Study B has no letter yet"),
        ({"A": "q", "B": "p", "C": "r", "D": "t"}, "'t' is none of the letters"),
        ({"A": "s", "B": "p", "C": "r", "D": "s"}, "Study A: Look at the mean of public photographs"),
        ({"A": "q", "B": "s", "C": "r", "D": "s"}, "Study B: What differs from repeat to repeat?"),
        ({"A": "q", "B": "p", "C": "s", "D": "s"}, "Study C: When was it fixed"),
        ({"A": "q", "B": "p", "C": "r", "D": "q"}, "Study D: Both attacks beat"),
        ({"A": ..., "B": ..., "C": ..., "D": ...}, "Nothing is written yet"),
    ],
    "14.holm": [
        (lambda p, level=0.05: {n for n in p if p[n] <= level}, "as if it were the only one"),
        (lambda p, level=0.05: {n for n in p if p[n] <= level / len(p)}, "Bonferroni's correction"),
        (lambda p, level=0.05: {n for n in p if p[n] * len(p) <= level}, "Bonferroni's correction"),
        (up_to_the_last, "That is Benjamini and Hochberg's procedure"),
        (
            lambda p, level=0.05: set(
                itertools.compress(p, scipy.stats.false_discovery_control(list(p.values())) <= level) if p else ()
            ),
            "That is Benjamini and Hochberg's procedure",
        ),
        (
            lambda p, level=0.05: stepped(p, level, lambda level, k, m: level * (k + 1) / m),
            "Your bars are level * k / m",
        ),
        (lambda p, level=0.05: up_to_the_last(p, level, lambda level, k, m: level / (m - k)), "as Hochberg does"),
        (lambda p, level=0.05: stepped(p, level, stop=False), "You do not stop at the first that fails"),
        (lambda p, level=0.05: stepped(p, level, lambda level, k, m: level / (m - k + 1)), "one too large"),
        (
            lambda p, level=0.05: stepped(p, level, lambda level, k, m: level / max(m - k - 1, 1e-9)),
            "one too small",
        ),
        (lambda p, level=0.05: stepped(p, level, lambda level, k, m: level / (k + 1)), "Your divisors grow"),
        (lambda p, level=0.05: stepped(p, level, lambda level, k, m: 1 - (1 - level) ** (1 / (m - k))), "of Šidák"),
        (lambda p, level=0.05: stepped(p, level, order=lambda p: sorted(p, key=p.get)[::-1]), "begin with the largest"),
        (lambda p, level=0.05: stepped(p, level, order=list), "the order of the dictionary"),
        (lambda p, level=0.05: stepped(p, level, order=sorted), "You sort by name"),
        (lambda p, level=0.05: stepped(p, level, small=lambda p, bar: p > bar), "Your comparison is turned"),
        (lambda p, level=0.05: set(p) - stepped(p, level), "those that do *not* pass"),
        (
            lambda p, level=0.05: set(sorted(p, key=p.get)[: len(stepped(p, level)) + 1]),
            "the first that fails pass as well",
        ),
        (
            lambda p, level=0.05: {n for n in p if p[n] == min(p.values()) and p[n] <= level / len(p)},
            "but the smallest against its bar",
        ),
        (lambda p, level=0.05: stepped(p), "`level` plays no part"),
        (lambda p, level=0.05: stepped(p, level / 2), "You halve `level`"),
        (lambda p, level=0.05: {n for n in p if p[n] <= 0.05}, "as if it were the only one"),
        (
            lambda p, level=0.05: stepped(p, level, lambda level, k, m: level / m, order=list),
            "Sort them by p-value first. You hold each p-value against level / m",
        ),
        (lambda p, level=0.05: stepped(p, level, small=lambda p, bar: p < bar), "A p-value just *at* its bar"),
        (turned_round, "Where two names have the same p-value"),
        (emptying, "changes the dictionary"),
        (lambda p, level=0.05: sorted(stepped(p, level)) * 2, "this is a list"),
        (lambda p, level=0.05: {n: p[n] for n in stepped(p, level)}, "this is a dict"),
        (lambda p, level=0.05: {n: n in stepped(p, level) for n in p}, "this is a dict"),
        (lambda p, level=0.05: {p[n] for n in stepped(p, level)}, "You give p-values"),
        (lambda p, level=0.05: {(n, p[n]) for n in stepped(p, level)}, "give the names alone"),
        (lambda p, level=0.05: {n.upper() for n in stepped(p, level)}, "is no name in the dictionary"),
        (lambda p, level=0.05: len(stepped(p, level)), "this is a int"),
        (lambda p, level=0.05: stepped(p, level) or None, "Is a `return` missing"),
        (lambda p, level=0.05: stepped(p, level) if p else {}, "so Python reads {}"),
        (lambda p, level=0.05: stepped(p, level) if p else None, "yours gives None; it should be set()"),
        (
            lambda p, level=0.05: stepped(p, level) if min(p.values()) <= 1 else set(),
            "Where the dictionary is empty, yours stops with ValueError",
        ),
        (lambda p, level=0.05: stepped(p, level) | {"norm"} & p.keys(), "you let pass 'norm'"),
        (lambda p, level=0.05: stepped(p, level) - {"labels"}, "you do not let pass 'labels'"),
        (lambda p: stepped(p), "stopped with TypeError"),
        ({"norm"}, "Give a function"),
    ],
}


RIGHT = {  # other ways than the lab's own
    "07.joints": [
        joint_norms,
        lambda x, p: joint_norms(x, p).item(),
        lambda x, p: PatchJoints(p)(x),
        lambda x, p: (
            sum((x[:, :, k] - x[:, :, k - 1]).pow(2).sum() ** 0.5 for k in range(p, x.shape[2], p))
            + sum((x[:, :, :, k - 1] - x[:, :, :, k]).pow(2).sum() ** 0.5 for k in range(p, x.shape[3], p))
        ),
    ],
    "07.stages": [
        staged(),
        {
            name: tuple(t.stages)
            for t in gradient_inversion.gradvit(prior=torch.nn.BatchNorm2d(3)).terms
            if (name := t.name) in staged()
        },
        staged([[0, 1], [0.5, 0.5]], [(0.0, 0.0), (0.5, 1.0)]),
        staged(((0, 1), (0.25, 1), (0.5, 0.5))),
    ],
    "07.counts": [
        lambda g, b: pulls(g, b, 1 / b),
        lambda g, b: torch.tensor(pulls(g, b, 1 / b)[::-1]),
        lambda g, b: torch.tensor(pulls(g, b, 1 / b)).double(),
        lambda g, b: ((g[:, None] + torch.arange(b) / b).flatten().argsort()[:b] // b).tolist(),
    ],
    "07.registration": [
        to_consensus,
        lambda m: to_consensus(m, towards=lambda c: c.detach()),
        Registration("none"),
        lambda m: torch.stack([torch.dist(one, m.mean(0)) for one in m]),
    ],
    "07.damped": [
        damped_step,
        lambda J, r, d: -J.T @ torch.linalg.inv(J @ J.T + d * torch.eye(len(J)).to(J)) @ r,
        lambda J, r, d: (
            torch.linalg.lstsq(
                torch.cat([J, d**0.5 * torch.eye(J.shape[1]).to(J)]), torch.cat([-r, torch.zeros(J.shape[1]).to(r)])
            ).solution
        ),
        lambda J, r, d: damped_step(J.float(), r.float(), d),
    ],
    "07.credit": [{"a", "b", "d", "e"}, ["E", "b", "A", "d"], "abde", ("e", "d", "b", "a")],
    "08.select": [
        lambda names, a, b: set(attention_between(names, a, b)),
        lambda names, a, b: [f"blocks.{i}.attn.{x}.weight" for i in range(a - 1, b) for x in ("proj", "qkv")],
    ],
    "08.share": [
        lambda g, p: share_by(g, p, lambda x: x.norm() ** 2),
        lambda g, p: {k: torch.cat([g[n].flatten() for n in v]).norm() ** 2 / 105 for k, v in p.items()},
    ],
    "08.fewest": [["patch_embed.proj.weight", "pos_embed"], frozenset({"pos_embed", "patch_embed.proj.weight"})],
    "08.rows": [lambda size, patch: size**2 // patch**2 + 1, lambda size, patch: torch.tensor((size / patch) ** 2 + 1)],
    "08.label": [["head.bias"], ("head.bias",)],
    "08.safe": [{"a", "c", "d", "f"}, ["F", "a", "d", "c"], "acdf"],
    "09.variant": [morph.variant(9, activations="010"), replace(morph.STEPS[9], activations="010")],
    "09.sides": [sides_by, lambda step, side: tuple(sides_by(step, side))],
    "09.moved": [{4, 8}, [8, 4]],
    "09.hidden": [lambda a, n, s: (n[s] - a[s]) - (n[s - 1] - a[s - 1])],
    "10.sharpness": [lambda gap: math.log(2) / gap, lambda gap: -math.log(0.5) / gap],
    "09.rank": [sensitivity.effective_rank, lambda v: sensitivity.effective_rank(7 * v)],
    "10.block": [
        lambda *a: block_by(*a),
        lambda x, layers, shortcut, act, p: block_by(x, layers, shortcut, act, [str(int(d)) for d in p]),
    ],
    "10.confounded": [["maxima", "weights", "overlap"], frozenset({"maxima", "weights", "overlap"})],
    "10.values": [
        lambda size, batch: batch * size**2 / 1024,
        lambda size, batch: torch.zeros(batch, size // 32, size // 32).numel(),
    ],
    "10.effect": [
        main_effect,
        lambda dB, i: torch.tensor(main_effect(dB, i)),
        lambda dB, i: np.mean(
            [np.subtract(dB[(*s[:i], 1, *s[i + 1 :])], v) for s, v in dB.items() if s[i] == 0], axis=0
        ),
    ],
    "10.matched": [at_equal_levels, lambda a, b: torch.tensor(at_equal_levels(a, b))],
    "11.convince": [
        persuade,
        until_sure,
        through_a_sigmoid,
        lambda m, x, t, steps=50: persuade(m, x, t, steps, rate=0.1),
        lambda m, x, t, steps=50: persuade(m, x, t, steps, rate=1, by=torch.optim.SGD),
        lambda m, x, t, steps=50: persuade(m, x, t, steps, inside=False).clamp(0, 1),
        lambda m, x, t, steps=50: persuade_in_place(m, x.clone(), t, steps),
    ],
    "11.evidence": [{"b", "c", "e"}, ["E", "b", "C"], ("c", "b", "e"), "bce", "b, c, e"],
    "11.pairs": [{"c", "d"}, ["D", "c"], "cd", ("d", "c")],
    "11.poincare": [
        in_the_ball,
        by_numbers,
        lambda z, t: in_the_ball(z.double(), t),
        lambda z, t: in_the_ball(z, t)[None],
        lambda z, t: losses.poincare(z[None], torch.tensor([t])),
        lambda z, t: in_the_ball(z, t, guard=lambda room: room + 1e-6),
        lambda z, t: in_the_ball(z, t, guard=lambda room: room.clamp(1e-9, 1)),
        lambda z, t: in_the_ball(z, t, below=lambda z: z.abs().sum() + 1e-6),
        lambda z, t: by_one_guard(z, t, lambda room: room + 1e-8),
        lambda z, t: by_one_guard(z, t, lambda room: room.clamp_min(1e-9)),
    ],
    "11.delta": [
        to_own,
        each_own,
        lambda *a: to_own(*a).tolist(),
        lambda *a: to_own(*a).numpy(),
        lambda *a: evaluation.nearest(*a).square(),
        lambda f, t, p, y: ((f[:, None] - p).square().sum(-1) + 1e9 * (t[:, None] != y)).double().amin(1),
    ],
    "11.fold": [
        folding,
        by_asking,
        lambda w, m, v, g, b, eps: torch.nn.utils.fusion.fuse_conv_bn_weights(w, None, m, v, eps, g, b),
        lambda *a: list(folding(*(x.double() if torch.is_tensor(x) else x for x in a))),
    ],
    "12.margin": [
        lambda z, t: strike_out(z, t).max() - z[t],
        lambda z, t: max(a for k, a in enumerate(z.tolist()) if k != t) - z[t].item(),
        lambda z, t: np.delete(z.numpy(), t).max() - z.numpy()[t],
        lambda z, t: (lambda top: z[top[1] if top[0] == t else top[0]] - z[t])(z.topk(2).indices),
        lambda z, t: torch.cat([z[:t], z[t + 1 :]]).double().max() - z[t],
        lambda z, t: strike_out(z.log_softmax(0), t).max() - z.log_softmax(0)[t],  # it takes the same from both
        lambda z, t: strike_out(z, t, -1e9).max()[None] - z[t],
    ],
    "12.vendor": [{"a", "b", "c", "d"}, ["d", "C", "b", "A"], "abcd", "a, b, c, d"],
    "12.players": ["a", "A", " (a) "],
    "12.kl": [
        normal_by_hand,
        divergence,
        by_integration,
        lambda m, s: -0.5 * (1 + (s**2).log() - m**2 - s**2).sum(),
        lambda m, s: sum((a * a + b * b - 1) / 2 - math.log(b) for a, b in zip(m.tolist(), s.tolist(), strict=True)),
        lambda m, s: torch.distributions.kl_divergence(
            torch.distributions.MultivariateNormal(m, (s**2).diag()),
            torch.distributions.MultivariateNormal(torch.zeros_like(m), torch.eye(len(m))),
        ),
        lambda m, s: normal_by_hand(m, s + 1e-8)[None],
    ],
    "12.delta": [
        price,
        lambda u, d: price(u, d, task=lambda a, b: b - a, attack=lambda a, b: b - a),
        lambda u, d: np.divide(*np.subtract(u, d)[::-1]) if u[0] != d[0] else np.nan,
        lambda u, d: torch.tensor(price(u, d)),
        lambda u, d: price(u, d) if abs(u[0] - d[0]) > 1e-9 else float("nan"),
        lambda u, d: tradeoff.ratio([u[0] - d[0]] * 2, [u[1] - d[1]] * 2).value,
    ],
    "12.front": [
        tradeoff.front,
        with_equals,
        by_arrays,
        kept(lambda t, a, mine, his: t >= mine and a <= his and (t > mine or a < his)),
        kept(lambda t, a, mine, his: (t > mine and a <= his) or (t >= mine and a < his), itself=True),
        lambda p: {n: p[n] for n in tradeoff.front(p)}.keys(),
        lambda p: tuple(tradeoff.front(p)),
        lambda p: (n for n in tradeoff.front(p)),
        lambda p: {n: p[n] for n in tradeoff.front(p)},
    ],
    "13.brochure": [{"a", "b", "d", "e"}, ["E", "b", "A", "d"], "abde", ("e", "d", "b", "a")],
    "13.deviation": [
        in_each,
        lambda s, r, norm, n: r * norm * (s / n) ** 0.5,
        lambda s, r, norm, n: math.sqrt(s * (r * norm) ** 2 / n),
        lambda s, r, norm, n: np.sqrt(s) * norm * r / np.sqrt(n),
        lambda s, r, norm, n: torch.tensor(s / n).sqrt() * r * norm,
        lambda s, r, norm, n: torch.full((n,), r * norm / n**0.5).square().mul(s).mean().sqrt()[None],
    ],
    "13.rounds": [
        updates_needed,
        until_quiet,
        lambda r, t: max(1, math.ceil((r / t) ** 2 - 1e-9)),
        lambda r, t: max(1, math.ceil((r / t) ** 2)),
        lambda r, t: math.ceil((r / t) ** 2) or 1,
        lambda r, t: 1 if r <= t else -int(-((r / t) ** 2) // 1),
        lambda r, t: np.maximum(1, np.ceil(np.square(r / t))),
        lambda r, t: torch.tensor((r / t) ** 2).ceil().clamp_min(1).int(),
        lambda r, t: next(n for n in itertools.count(1) if r**2 / n <= t**2),
    ],
    "13.weigh": [
        believed,
        lambda a, s, b, t: (a * t**2 + b * s**2) / (s**2 + t**2),
        lambda a, s, b, t: a + (b - a) * s**2 / (s**2 + t**2),
        lambda a, s, b, t: np.average([a, b], weights=[s**-2, t**-2]),
        lambda a, s, b, t: np.linalg.lstsq(np.array([[1 / s], [1 / t]]), np.array([a / s, b / t]), rcond=None)[0],
        lambda a, s, b, t: (torch.tensor([s, t]).log().mul(-2).softmax(0) * torch.tensor([a, b])).sum(),
    ],
    "13.cheapest": [
        least,
        one_by_one,
        lambda rows, level: min({n: r for n, r in rows.items() if r[1] <= level}, key=rows.get, default=None),
        lambda rows, level: next(iter(sorted((n for n in rows if rows[n][1] <= level), key=rows.get)), None),
        lambda rows, level: min(((*r, n) for n, r in rows.items() if r[1] <= level), default=[None])[-1],
        lambda rows, level: deleting(dict(rows), level),
    ],
    "14.verdict": [
        lambda v, bar: in_words(share_above(v, bar)),
        by_interval,
        by_test,
        by_statistics,
        lambda v, bar: in_words(scipy.stats.t.sf(bar, len(v) - 1, loc=v.mean(), scale=v.std(ddof=1) / len(v) ** 0.5)),
        lambda v, bar: in_words(1 - scipy.stats.ttest_1samp(v, bar, alternative="greater").pvalue),
        lambda v, bar: in_words(share_above(v, bar, ddof=0, width=lambda s, n: s / (n - 1) ** 0.5)),
        lambda v, bar: in_words(share_above(torch.tensor(v).numpy() - bar, 0)),
        lambda v, bar: np.select(
            [share_above(v, bar) >= 0.95, share_above(v, bar) <= 0.05], ["reproduced", "not reproduced"], "inconclusive"
        ),
        lambda v, bar: np.array(["not reproduced", "inconclusive", "reproduced"])[
            np.searchsorted([0.05, 0.95], share_above(v, bar))
        ],
    ],
    "14.repeats": [
        counted,
        while_above,
        all_at_once,
        lambda e, s: counted(e, s, first=1),
        lambda e, s: float(counted(e, s)),
        lambda e, s: torch.tensor(counted(e, s)),
        lambda e, s: counted(e / s, 1.0),
        lambda e, s: counted(e, s, lambda n, s: scipy.stats.t.interval(0.9, n - 1, scale=s / n**0.5)[1]),
        lambda e, s: counted(e, s, lambda n, s: -limit_of(n, s, 0.05)),
        lambda e, s: next(n for n in itertools.count(2) if scipy.stats.t.cdf(e * n**0.5 / s, n - 1) >= 0.95),
    ],
    "14.flaws": [
        {"A": "q", "B": "p", "C": "r", "D": "s"},
        {"d": "S", "c": "R", "b": " P ", "a": "Q"},
    ],
    "14.holm": [
        lambda p, level=0.05: sorted(stepped(p, level)),
        lambda p, level=0.05: tuple(stepped(p, level)),
        stepped,
        adjusted,
        smallest_first,
        lambda p, level=0.05: stepped(p, level).copy(),
        lambda p, level=0.05: dict.fromkeys(stepped(p, level)).keys(),
        lambda p, level=0.05: {np.str_(n) for n in stepped(p, level)},
        lambda p, level=0.05: emptying(dict(p), level),
        lambda p, level=0.05: {
            n for n in p if all(q <= level / sum(r >= q for r in p.values()) for q in p.values() if q <= p[n])
        },
    ],
}


def answers(tag):
    """(exercise, the lab's own answer): the cells of every lab, and of what goes deeper, with that tag, run on their own."""
    given = {"math": math, "np": np, "t": scipy.stats.t, "torch": torch}  # and what labs take from privlab
    given |= {"membership_inference": membership_inference, "metrics": metrics, "models": models, "roc": roc}
    for lab in catalogue.everything(LABS):
        answer = None
        for cell in jupytext.read(lab.path).cells:
            if tag in cell.metadata.get("tags", []):
                scope = dict(given)
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in (*given, "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


def test_every_exercise_of_the_labs_has_a_check_and_the_other_way_round():
    assert sorted(name for name, _ in answers("solution")) == checks.names()


@pytest.mark.parametrize(("name", "answer"), list(answers("solution")))
def test_the_solution_is_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)
    assert "right" in outcome._repr_html_()


@pytest.mark.parametrize(("name", "answer"), list(answers("exercise")))
def test_the_exercise_as_it_is_given_is_not_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert not outcome.passed
    assert "stopped with" not in outcome.why


@pytest.mark.parametrize(("name", "answer"), [(n, answer) for n, answers in RIGHT.items() for answer in answers])
def test_other_right_answers_are_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)


@pytest.mark.parametrize(("name", "wrong", "why"), [(n, w, why) for n, rows in WRONG.items() for w, why in rows])
def test_wrong_answers_are_told_why(name, wrong, why):
    outcome = checks.verify(name, wrong)
    assert not outcome.passed
    assert why in outcome.why, outcome.why


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("08.label", {"head.bias"}, "p - y"),
        ("08.fewest", {"pos_embed", "patch_embed.proj.weight"}, "dL/dW = G^T X"),
        ("08.safe", "acdf", "show ways that need no stem"),
        ("13.weigh", RIGHT["13.weigh"][0], "Its derivative is zero"),
        ("13.brochure", "abde", "a mean over rounds"),
    ],
)
def test_a_right_answer_that_can_be_guessed_is_told_why_it_is_right(name, answer, why):
    right, wrong = checks.verify(name, answer), checks.verify(name, ["nothing"])
    assert right.passed and why in str(right) and "<details><summary>Why" in right._repr_html_()
    assert why not in str(wrong) and "<details>" not in wrong._repr_html_()


@pytest.mark.parametrize("name", checks.names())
@pytest.mark.parametrize("unwritten", [None, ..., lambda *_: None])
def test_an_open_exercise_is_no_error(name, unwritten):
    outcome = checks.verify(name, unwritten)
    assert not outcome.passed and "Traceback" not in outcome.why


def test_the_readers_own_error_is_shown():
    assert "stopped with ZeroDivisionError" in checks.verify("05.noise", lambda g, r: 1 / 0).why


def test_the_network_to_convince_doubts_its_targets_and_is_blind_to_the_last_column():
    x = lab_11.PICTURE.clone().requires_grad_()
    logits = lab_11.network(x)
    assert logits.softmax(1)[0, list(lab_11.TARGETS)].max() < 0.25
    slope = torch.autograd.grad(logits.square().sum(), x)[0]
    assert (slope[..., -1] == 0).all() and (slope[..., :-1] != 0).all()


def test_every_slip_on_the_way_to_the_front_keeps_something_else():
    chosen = {
        why: {tuple(frozenset(choice(dict(p))) for p in pareto.PLANES) for choice in choices}
        for why, choices in {"": (tradeoff.front,), **pareto.SLIPS}.items()
    }
    assert not any(one & other for one, other in itertools.combinations(chosen.values(), 2))


SINGLE = {  # the parts of a right answer, and how they make one
    "13.deviation": (
        (lab_13.PARTS, lab_13.LENGTHS, lab_13.DEVIATIONS),
        lambda part, length, end: lambda *a: end(in_each(*a, part=part, length=length)),
    ),
    "13.rounds": (
        (lab_13.RATIOS, lab_13.WHOLES),
        lambda ratio, whole: lambda r, t: updates_needed(r, t, ratio, whole, least=0),
    ),
    "13.weigh": (
        (lab_13.WEIGHTS, lab_13.TOGETHER),
        lambda weight, end: lambda a, s, b, t: end(a, weight(s), b, weight(t)),
    ),
    "13.cheapest": (
        (lab_13.HOLDS, lab_13.PICKS),
        lambda holds, pick: lambda rows, level: pick({n: row for n, row in rows.items() if holds(row, level)}),
    ),
    "14.verdict": (
        (lab_14.CENTRES, lab_14.SPREADS, lab_14.WIDTHS, lab_14.SHARES, lab_14.WORDS),
        lambda centre, spread, width, share, word: (
            lambda v, bar: word(share(centre(v, bar) / width(spread(v), len(v)), len(v)))
        ),
    ),
    "14.holm": (
        (holm.ORDERS, holm.BARS, holm.PASSES, holm.RULES, holm.LEVELS),
        lambda order, bar, passes, rule, of: (
            lambda p, level=0.05: rule(
                order(p), [passes(p[n], bar(of(level), k, len(p))) for k, n in enumerate(order(p))]
            )
        ),
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_every_single_slip_of_the_last_labs_has_a_reason_of_its_own(name):
    parts, build = SINGLE[name]
    for k, part in enumerate(parts):
        for why in filter(None, part):
            assert checks.verify(name, build(*(p[why if i == k else ""] for i, p in enumerate(parts)))).why == why


def test_every_check_turns_at_least_three_wrong_answers_away():
    assert min(map(len, WRONG.values())) >= 3


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
