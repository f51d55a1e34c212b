from . import leave_one_out, lira, network_based, rmia, signals

__all__ = ["leave_one_out", "lira", "network_based", "rmia", "signals"]
