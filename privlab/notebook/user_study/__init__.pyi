from .answers import FOLDER, Answer, Pair, Played, Side, Study, begin, files, load, read, schedule
from .class_board import Board, board
from .game import Game, play
from .statistics import of_games, summary, wilson

__all__ = [
    "FOLDER",
    "Answer",
    "Board",
    "Game",
    "Pair",
    "Played",
    "Side",
    "Study",
    "begin",
    "board",
    "files",
    "load",
    "of_games",
    "play",
    "read",
    "schedule",
    "summary",
    "wilson",
]
