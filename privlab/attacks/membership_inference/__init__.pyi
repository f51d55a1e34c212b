from . import lira, network_based, rmia, signals

__all__ = ["lira", "network_based", "rmia", "signals"]
