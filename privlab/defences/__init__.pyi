from . import architecture, dp_sgd, noise_budget, perturbation, regularisers, updates

__all__ = ["architecture", "dp_sgd", "noise_budget", "perturbation", "regularisers", "updates"]
