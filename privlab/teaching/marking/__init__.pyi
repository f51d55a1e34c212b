from . import students
from .gradebook import Row, mark, notebooks, shown
from .students import Scheme, Student, scheme
from .watching import watch

__all__ = ["Row", "Scheme", "Student", "mark", "notebooks", "scheme", "shown", "students", "watch"]
