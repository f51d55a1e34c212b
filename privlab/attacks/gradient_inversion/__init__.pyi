from . import (
    adaptive,
    closed_form,
    label_recovery,
    objectives,
    presets,
    priors,
    results,
    search,
    search_spaces,
    sensitivity,
)
from .gauss_newton import GaussNewton
from .presets import (
    annealed,
    april,
    deep_inversion,
    dlg,
    gradinversion,
    gradvit,
    idlg,
    inverting_gradients,
    quasi_newton,
    tag,
)
from .results import kept_run
from .search import GradientMatching, Term

__all__ = [
    "GaussNewton", "GradientMatching", "Term", "adaptive", "annealed", "april", "closed_form", "deep_inversion", "dlg", "gradinversion",
    "gradvit", "idlg", "inverting_gradients", "kept_run", "label_recovery", "objectives", "presets", "priors", "quasi_newton", "results",
    "search", "search_spaces", "sensitivity", "tag",
]  # fmt: skip
