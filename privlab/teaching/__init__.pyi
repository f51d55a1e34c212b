from . import class_guesses, marking, slides, student_edition

__all__ = ["class_guesses", "marking", "slides", "student_edition"]
