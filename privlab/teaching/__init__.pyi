from . import marking, slides, student_edition

__all__ = ["marking", "slides", "student_edition"]
