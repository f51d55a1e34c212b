from . import class_guesses, marking, slides, student_edition, web_page

__all__ = [
    "class_guesses",
    "marking",
    "slides",
    "student_edition",
    "web_page",
]
