from . import class_guesses, marking, question_bank, slides, student_edition

__all__ = ["class_guesses", "marking", "question_bank", "slides", "student_edition"]
