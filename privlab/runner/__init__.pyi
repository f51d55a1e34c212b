from . import catalogue, doctor, launch_buttons, pairing

__all__ = ["catalogue", "doctor", "launch_buttons", "pairing"]
