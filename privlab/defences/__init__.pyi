from . import architecture, dp_sgd, perturbation, regularisers, updates

__all__ = ["architecture", "dp_sgd", "perturbation", "regularisers", "updates"]
