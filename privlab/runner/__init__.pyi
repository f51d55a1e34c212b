from . import catalogue, doctor, launch_buttons, pairing, static_pages

__all__ = ["catalogue", "doctor", "launch_buttons", "pairing", "static_pages"]
