from .answers import FOLDER, Answer, Pair, Played, Side, Study, begin, files, load, read, schedule
from .game import Game, play
from .statistics import of_games, summary, wilson

__all__ = [
    "FOLDER",
    "Answer",
    "Game",
    "Pair",
    "Played",
    "Side",
    "Study",
    "begin",
    "files",
    "load",
    "of_games",
    "play",
    "read",
    "schedule",
    "summary",
    "wilson",
]
