from . import architecture, noise_budget, perturbation, regularisers, updates

__all__ = ["architecture", "noise_budget", "perturbation", "regularisers", "updates"]
