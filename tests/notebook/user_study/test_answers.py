"""The user study without its widget: pairs, schedules, files of answers, and what they add up to."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab.notebook import user_study
from privlab.notebook.user_study import Answer, Pair, Played, Study

NAMES = ("full", "skip_4")


def picture(seed, size=6, channels=3):
    return torch.rand(channels, size, size, generator=torch.Generator().manual_seed(seed))


def pairs(count=4, seed=0):
    return [Pair(*(picture(seed + 3 * i + j) for j in range(3)), f"person {i}") for i in range(count)]


def game(choices, player="a", seed=1, digest="d" * 64, names=NAMES, limit=60):
    """A game in which pair i got the answer choices[i]: 1 for the first name, 0 for the second, None for none, and "-" for not yet."""
    made = Played(digest, names, len(choices), limit, player, seed)
    answers = []
    for pair, first_left in user_study.schedule(seed, len(choices)):
        if choices[pair] == "-":
            break
        choice = None if choices[pair] is None else names[1 - choices[pair]]
        answers.append(Answer(pair, names[0 if first_left else 1], choice, 3.0))
    return replace(made, answers=tuple(answers))


def finished(of, folder, seed, side="left", until=None):
    """A game played on disk, by somebody who always takes one side."""
    played = user_study.begin(of, folder, seed, fresh=True)
    for _ in range(until or len(of.pairs)):
        played = played.answer(side, 2.0, folder)
    return played


def edited(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | changes))


# -- pairs and studies -------------------------------------------------------------------------------------------------


def test_the_same_pictures_are_the_same_study_however_they_are_given():
    floats = pairs()
    by_bytes = [Pair(p.target, p.one, p.other) for p in floats]  # uint8 by now, and without the people
    assert by_bytes[0].target.dtype == torch.uint8
    assert Study(floats).digest == Study(by_bytes).digest
    swapped = [Pair(p.target, p.other, p.one) for p in floats]
    assert len({Study(x).digest for x in (floats, swapped, floats[::-1], floats[:3], pairs(seed=50))}) == 5


def test_a_picture_is_clamped_and_rounded_as_a_screen_would():
    pair = Pair(torch.tensor([-1.0, 0.5, 2.0]).expand(1, 1, 3), *(torch.zeros(3, 2, 2) for _ in range(2)))
    assert pair.target.tolist() == [[[0, 128, 255]]]


@pytest.mark.parametrize(
    ("pictures", "says"),
    [
        ((torch.zeros(2, 4, 4), picture(1), picture(2)), r"target: got shape \(2, 4, 4\); give one picture"),
        ((picture(0), picture(1)[None], picture(2)), r"one: got shape \(1, 3, 6, 6\)"),
        ((picture(0), picture(1), "face.png"), "other: got str"),
        ((picture(0), picture(1), picture(2, 8)), "which would tell them apart"),
        ((picture(0), torch.full((3, 6, 6), math.nan), picture(2)), "NaN among the pixels"),
        ((picture(0), torch.ones(3, 6, 6, dtype=torch.int64), picture(2)), "torch.int64; give floats"),
    ],
)
def test_bad_pictures_are_named(pictures, says):
    with pytest.raises(ValueError, match=says):
        Pair(*pictures)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(pairs=[]), r"pairs=\(\) leaves nothing"),
        (
            dict(pairs=[*pairs(1), Pair(*(picture(j, 8) for j in range(3)))]),
            r"`target` has the sizes \[\(3, 6, 6\), \(3, 8, 8\)\]",
        ),
        (dict(names=("full", "full")), r"names=\('full', 'full'\); give two different ones"),
        (dict(names=("full",)), "give two different ones"),
        (dict(names=("full", " ")), "give two different ones"),
        (dict(seconds=0), "seconds=0 for a pair; give a whole number from 1 to 3600"),
        (dict(seconds=1.5), "seconds=1.5"),
        (dict(seconds=True), "seconds=True"),
    ],
)
def test_bad_studies_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        Study(**{"pairs": pairs(), **options})


def test_a_study_that_is_handed_out_is_the_same_study(tmp_path):
    mine = Study(pairs(), ("a", "b"), 30, "Who?")
    mine.save(tmp_path / "faces.study")
    yours = user_study.load(tmp_path / "faces.study")
    assert repr(mine) == repr(yours) == f"Study: 4 pairs, a against b, 30 s each, pictures {mine.digest[:8]}"
    assert (yours.digest, yours.names, yours.seconds, yours.title) == (mine.digest, ("a", "b"), 30, "Who?")
    assert [p.person for p in yours.pairs] == [f"person {i}" for i in range(4)]


def test_a_study_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "faces.study"
    with pytest.raises(FileNotFoundError, match="Study.save writes it"):
        user_study.load(path)
    Study(pairs()).save(path)
    whole = path.read_bytes()
    for broken in (whole[:-7], b"", b"no safetensors at all", whole.replace(b'\\"format\\": 1', b'\\"format\\": 9')):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"faces.study is no study that can be read here \(.+\); ask for it again"):
            user_study.load(path)
    with pytest.raises(ValueError, match="it has the format 9, this privlab reads 1"):
        user_study.load(path)


# -- order and sides ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**63), st.integers(1, 40))
def test_a_schedule_has_every_pair_once_and_each_side_half_the_time(seed, count):
    rounds = user_study.schedule(seed, count)
    assert sorted(pair for pair, _ in rounds) == list(range(count))
    assert abs(2 * sum(left for _, left in rounds) - count) <= 1
    assert rounds == user_study.schedule(seed, count)


def test_sides_are_balanced_over_seeds_for_every_pair_and_every_round():
    count, seeds = 5, 2_000
    by_pair, by_round, at_first = np.zeros(count), np.zeros(count), np.zeros(count)
    for seed in range(seeds):
        for place, (pair, left) in enumerate(user_study.schedule(seed, count)):
            by_pair[pair] += left
            by_round[place] += left
            at_first[pair] += place == 0
    spread = math.sqrt(seeds) / 2  # one standard deviation of a fair coin
    assert abs(by_pair - seeds / 2).max() < 4 * spread and abs(by_round - seeds / 2).max() < 4 * spread
    assert abs(at_first - seeds / count).max() < 4 * spread


def test_who_always_clicks_on_one_side_favours_nobody(tmp_path):
    of = Study(pairs(6))
    played = finished(of, tmp_path, seed=3)
    assert sum(a.choice == "full" for a in played.answers) == 3


def test_the_sides_do_not_depend_on_the_pictures(tmp_path):
    one, other = Study(pairs(8)), Study(pairs(8, seed=500))
    assert one.digest != other.digest
    assert [(a.pair, a.left) for a in finished(one, tmp_path, 11).answers] == [
        (a.pair, a.left) for a in finished(other, tmp_path, 11).answers
    ]


def test_a_schedule_leaves_the_global_generators_alone():
    random.seed(0)
    before = random.getstate()
    user_study.schedule(7, 12)
    assert random.getstate() == before


# -- files -------------------------------------------------------------------------------------------------------------


def test_an_answer_is_on_disk_at_once_and_holds_nothing_personal(tmp_path):
    of = Study(pairs())
    played = user_study.begin(of, tmp_path, seed=5)
    assert not list(tmp_path.iterdir())
    (pair, left), right = played.upcoming, {"full": "skip_4", "skip_4": "full"}[played.upcoming[1]]
    played = played.answer("right", 4.217, tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == f"{of.digest[:8]}_{played.player}.json"
    content = json.loads(path.read_text())
    assert content.pop("answers") == [{"pair": pair, "left": left, "choice": right, "seconds": 4.22}]
    assert content == {
        "format": 1, "study": of.digest, "names": ["full", "skip_4"], "pairs": 4, "limit": 60, "player": played.player, "seed": 5,
    }  # fmt: skip
    played.answer(None, 60, tmp_path)
    assert user_study.read(path).answers[1].choice is None and len(list(tmp_path.iterdir())) == 1


def test_a_half_played_game_goes_on_where_it_was(tmp_path):
    of = Study(pairs())
    begun = finished(of, tmp_path, seed=5, until=2)
    again = user_study.begin(of, tmp_path)
    assert again == begun and again.upcoming == (user_study.schedule(5, 4)[2][0], again.upcoming[1])
    assert user_study.begin(of, tmp_path, seed=5) == begun
    for other in (user_study.begin(of, tmp_path, seed=6), user_study.begin(of, tmp_path, fresh=True)):
        assert other.player != begun.player and not other.answers
    assert not user_study.begin(Study(pairs(seed=99)), tmp_path).answers  # other pictures
    assert not user_study.begin(Study(pairs(), seconds=5), tmp_path).answers
    (tmp_path / "notes.json").write_text("{")
    while not again.over:
        again = again.answer("left", 1, tmp_path)
    with pytest.raises(IndexError):
        again.upcoming  # noqa: B018
    assert user_study.begin(of, tmp_path).player != begun.player


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7"])
def test_a_bad_seed_is_named(tmp_path, seed):
    with pytest.raises(ValueError, match=r"seed=.+; give a whole number from 0, or None"):
        user_study.begin(Study(pairs()), tmp_path, seed=seed)


def test_two_players_are_two_players(tmp_path):
    of = Study(pairs())
    assert len({user_study.begin(of, tmp_path).player for _ in range(50)}) == 50
    assert len({user_study.begin(of, tmp_path).seed for _ in range(50)}) > 45


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (dict(format=2), "it has the format 2, this privlab reads 1"),
        (dict(pairs=1), "it has 4 answers to 1 pairs"),
        (dict(pairs=0), "pairs, limit or seed are out of range"),
        (dict(names=["full", "full"]), "study, player or names are out of form"),
        (dict(player=7), "study, player or names are out of form"),
        (dict(surname="Doe"), "unexpected keyword argument 'surname'"),
        (dict(seed=8), "answer 1 is not to the pair, or not with the sides, that its seed gives"),
        (dict(answers=None), "not iterable"),
        (dict(answers=[{"pair": 0}]), "missing"),
        (dict(limit=1), r"answer 1 took 2.0 s of 1"),
    ],
)
def test_a_file_that_no_game_wrote_is_refused(tmp_path, changes, says):
    finished(Study(pairs()), tmp_path, seed=5)
    (path,) = tmp_path.iterdir()
    edited(path, **changes)
    with pytest.raises(ValueError, match=rf"{path.name} holds no answers that can be read here: .*{says}"):
        user_study.read(path)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("choice", "skip_1", "answer 2 chose 'skip_1'"),
        ("seconds", "NaN", "answer 2 took 'NaN' s"),
        ("seconds", math.nan, "took nan s"),
    ],
)
def test_an_answer_that_no_game_wrote_is_refused(tmp_path, field, value, says):
    finished(Study(pairs()), tmp_path, seed=5)
    (path,) = tmp_path.iterdir()
    answers = json.loads(path.read_text())["answers"]
    answers[1][field] = value
    edited(path, answers=answers)
    with pytest.raises(ValueError, match=says):
        user_study.read(path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b"\xff\xfe\x00", b"[" * 100_000, b" " * 1_000_001], ids=range(7)
)
def test_a_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="broken.json holds no answers that can be read here: .+"):
        user_study.read(path)
    with pytest.raises(ValueError, match="broken.json holds no answers"):
        user_study.summary([path])
    with pytest.raises(FileNotFoundError, match="a game writes one after its first answer"):
        user_study.read(tmp_path / "nowhere.json")


# -- what they add up to -----------------------------------------------------------------------------------------------


def by_hand(hits, count, z=1.959964):
    """Wilson's interval as its definition has it: the shares p with |hits/count - p| = z * sqrt(p * (1 - p) / count)."""
    roots = np.roots([1 + z * z / count, -(2 * hits / count + z * z / count), (hits / count) ** 2])
    return sorted(float(r) for r in roots.real)


@pytest.mark.parametrize(("hits", "count"), [(17, 24), (1, 12), (6, 12), (12, 12), (0, 3)])
def test_wilson_by_hand(hits, count):
    assert user_study.wilson(hits, count) == pytest.approx(by_hand(hits, count), abs=1e-6)


def test_seventeen_of_twenty_four():
    """(17/24 + 1.92/24 ± 1.96 √(17/24 · 7/24 / 24 + 0.96/24²)) / (1 + 3.84/24) = 0.6796 ± 0.1713, on paper."""
    found = user_study.of_games([game([1] * 17 + [0] * 7 + [None] * 2)])
    assert (found.low, found.high) == pytest.approx((0.5083, 0.8509), abs=1e-4)
    assert (found.first, found.answers, found.silent, found.players, found.pairs) == (17, 24, 2, 1, 24)
    assert repr(found).startswith(
        "17 of 24 (71%, 95% interval 51 to 85) found the picture from `full` closer\n1 player, 24 pairs;"
    )
    assert "2 without an answer in time" in repr(found) and "Wilson" in repr(found)
    html = found._repr_html_()
    assert (
        "17 of 24 (71%, 95% interval 51 to 85) found the picture from <code>full</code> closer" in html
        and "skip_4" in html
    )


def test_several_players_are_added_up_pair_by_pair():
    found = user_study.of_games([game([1, 1, 0, None], "a", 1), game([1, 0, 0, 0], "b", 2), game(["-"] * 4, "c", 3)])
    assert (found.first, found.answers, found.silent, found.players, found.pairs) == (3, 7, 1, 2, 4)
    assert found.share == 3 / 7 and found.how == "bootstrap" and "a bootstrap over players and pairs" in repr(found)


def test_left_is_counted():
    played = game([1] * 6, seed=4)
    assert user_study.of_games([played]).left == sum(a.left == "full" for a in played.answers) == 3


def test_nobody_in_time():
    found = user_study.of_games([game([None] * 3)])
    assert math.isnan(found.share) and (found.low, found.high, found.players) == (0, 1, 0)
    assert "Nobody answered in time" in repr(found) and "Nobody answered in time" in found._repr_html_()


def test_players_with_tastes_of_their_own_make_the_interval_wider():
    """Ten players, five who always and five who never prefer the first: 120 answers, but ten independent ones."""
    found = user_study.of_games([game([i % 2] * 12, f"player {i}", i) for i in range(10)])
    alone = user_study.wilson(60, 120)
    assert found.share == 0.5 and found.high - found.low > 2 * (alone[1] - alone[0])
    deviation = math.sqrt(0.25 / 10)  # of the mean of ten coins
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * deviation, 0.5 + 1.96 * deviation), abs=0.06)


def test_pairs_that_differ_make_the_interval_wider():
    """And so does it where all players agree about each pair: then twelve pairs are what there is."""
    found = user_study.of_games([game([1] * 6 + [0] * 6, f"player {i}", i) for i in range(10)])
    deviation = math.sqrt(0.25 / 12)
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * deviation, 0.5 + 1.96 * deviation), abs=0.06)


def test_agreement_of_all_is_no_certainty():
    found = user_study.of_games([game([1] * 12, f"player {i}", i) for i in range(3)])
    assert (found.low, found.high) == user_study.wilson(36, 36) and found.low < 0.95


def test_the_interval_covers_where_wilsons_does_not():
    rng = np.random.default_rng(0)

    def shares(size):
        return 1 / (1 + np.exp(-(0.8 + rng.normal(size=(size, 1)) + 0.7 * rng.normal(size=(1, size)))))

    truth, hits, without = shares(2_000).mean(), 0, 0
    for seed in range(60):
        said = (rng.random((12, 12)) < shares(12)).astype(int)
        found = user_study.of_games([game(row.tolist(), f"player {i}", i) for i, row in enumerate(said)], seed)
        alone = user_study.wilson(found.first, found.answers)
        hits += found.low <= truth <= found.high
        without += alone[0] <= truth <= alone[1]
    assert hits >= 54 and without <= 48, (hits, without)


TABLES = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0, 1, None]), min_size=width, max_size=width), min_size=1, max_size=4
    )
)


@given(TABLES)
def test_swapping_the_names_turns_a_share_into_the_rest(table):
    games = [game(row, f"player {i}", i) for i, row in enumerate(table)]
    one, other = (user_study.of_games([replace(g, names=names) for g in games]) for names in (NAMES, NAMES[::-1]))
    if one.answers:
        assert one.share == pytest.approx(1 - other.share)
        assert 0 <= one.low <= one.share + 1e-9 and one.share - 1e-9 <= one.high <= 1
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low))
    assert (one.answers, one.silent, one.left) == (other.answers, other.silent, other.left)


@given(TABLES, st.randoms(use_true_random=False))
def test_nothing_hangs_on_the_order_of_the_files(table, shuffle):
    games = [game(row, f"player {i}", i) for i, row in enumerate(table)]
    mixed = [*games, *games]  # and twice counts once
    shuffle.shuffle(mixed)
    assert user_study.of_games(mixed) == user_study.of_games(games)


# -- merging -----------------------------------------------------------------------------------------------------------


def test_a_class_copies_its_files_together(tmp_path):
    of = Study(pairs())
    for seed, side in enumerate(("left", "right", "left")):
        finished(of, tmp_path / f"reader {seed}", seed, side)
    paths = sorted(tmp_path.glob("*/*.json"))
    (tmp_path / "class").mkdir()
    for path in paths:
        (tmp_path / "class" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "class" / "again.json").write_bytes(paths[0].read_bytes())  # handed in twice
    whole, files = user_study.summary(tmp_path / "class", of), user_study.summary(paths)
    assert (whole.players, whole.answers, whole.left, whole.left_out) == (3, 12, 8, ())
    assert (files.players, files.first, files.answers) == (3, whole.first, 12)
    assert user_study.summary(str(paths[0])).players == 1


def test_the_longer_of_two_files_of_a_player_counts():
    long = game([1, 0, 1, 1], "a", 5)
    short = replace(long, answers=long.answers[:2])
    assert user_study.of_games([long, short]).answers == user_study.of_games([short, long]).answers == 4
    other = replace(short, answers=(replace(short.answers[0], choice=None), short.answers[1]))
    with pytest.raises(ValueError, match="player a is there twice with different answers; drop one of the two files"):
        user_study.of_games([long, other])


def test_what_does_not_belong_is_left_out_of_a_folder_by_name(tmp_path):
    of, foreign = Study(pairs()), Study(pairs(seed=99))
    finished(of, tmp_path, 1)
    old = tmp_path / finished(of, tmp_path, 2).file
    edited(old, format=0)
    strange = finished(foreign, tmp_path, 3).file
    (tmp_path / "<i>.json").write_text("{")
    (tmp_path / "read me.txt").write_text("no answers")
    found = user_study.summary(tmp_path, of)
    assert found.players == 1 and found.answers == 4 and len(found.left_out) == 3
    said = repr(found)
    assert f"left out: {old.name} holds no answers that can be read here: it has the format 0" in said
    assert f"left out: {strange}: it answers for other pictures ({foreign.digest[:8]}, here {of.digest[:8]})" in said
    assert "left out: <i>.json" in said and "&lt;i&gt;.json" in found._repr_html_() and "<i>" not in found._repr_html_()
    with pytest.raises(ValueError, match="they answer to different studies, .+; say which one is meant: of=study"):
        user_study.summary(tmp_path)


def test_single_files_that_do_not_belong_are_refused(tmp_path):
    of = Study(pairs())
    paths = [tmp_path / finished(s, tmp_path, 1).file for s in (of, Study(pairs(seed=99)))]
    with pytest.raises(ValueError, match=f"{paths[1].name}: it answers for other pictures"):
        user_study.summary(paths, of)
    with pytest.raises(ValueError, match="different studies"):
        user_study.summary(paths)
    with pytest.raises(ValueError, match=r"it was played with names and seconds \(\('full', 'skip_4'\), 60\)"):
        user_study.summary(paths[:1], Study(pairs(), seconds=5))
    edited(paths[0], format=2)
    with pytest.raises(ValueError, match="it has the format 2, this privlab reads 1"):
        user_study.summary(paths[0])


def test_nothing_to_sum_up(tmp_path):
    with pytest.raises(FileNotFoundError, match="a game writes its folder with the first answer"):
        user_study.summary(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no answers that count; play a game first"):
        user_study.summary(tmp_path)
    with pytest.raises(ValueError, match="play a game first"):
        user_study.summary([])
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match="play a game first; broken.json holds no answers"):
        user_study.summary(tmp_path)
    with pytest.raises(ValueError, match=r"games=\(\) holds no game"):
        user_study.of_games([])
