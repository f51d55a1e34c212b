from . import answer_key, class_guesses, kit, lesson_plans, marking, question_bank, slides, student_edition, web_page

__all__ = [
    "answer_key",
    "class_guesses",
    "kit",
    "lesson_plans",
    "marking",
    "question_bank",
    "slides",
    "student_edition",
    "web_page",
]
