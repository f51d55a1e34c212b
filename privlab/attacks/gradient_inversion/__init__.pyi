from . import (
    adaptive,
    cases,
    closed_form,
    label_recovery,
    matching,
    objectives,
    presets,
    priors,
    results,
    search_spaces,
    sensitivity,
)
from .cases import Case
from .gauss_newton import GaussNewton
from .matching import GradientMatching
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
from .terms import Term

__all__ = [
    "Case",
    "GaussNewton",
    "GradientMatching",
    "Term",
    "adaptive",
    "annealed",
    "april",
    "cases",
    "closed_form",
    "deep_inversion",
    "dlg",
    "gradinversion",
    "gradvit",
    "idlg",
    "inverting_gradients",
    "kept_run",
    "label_recovery",
    "matching",
    "objectives",
    "presets",
    "priors",
    "quasi_newton",
    "results",
    "search_spaces",
    "sensitivity",
    "tag",
]
