from . import assignment, class_guesses, collect, grade, slides, student_edition

__all__ = ["assignment", "class_guesses", "collect", "grade", "slides", "student_edition"]
