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
from .cases import Case, run_cases
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
from .results import kept_run, search_once
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
    "run_cases",
    "search_once",
    "search_spaces",
    "sensitivity",
    "tag",
]
