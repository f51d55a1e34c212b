from . import assignment, class_guesses, collect, grade, slides

__all__ = ["assignment", "class_guesses", "collect", "grade", "slides"]
