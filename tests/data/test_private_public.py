"""Who is private and who is public, draw by draw."""

import pytest
import torch

from privlab.data import private_public

WHO = torch.arange(8).repeat_interleave(6)  # 8 people, 6 photographs each
PIXELS = (torch.arange(48) * 5).to(torch.uint8).view(48, 1, 1, 1).expand(-1, 1, 2, 2).contiguous()  # each its own grey


def owner(pixels):
    """Who is on these photographs, read off their grey."""
    return WHO[pixels[:, 0, 0, 0].long() // 5]


def test_private_and_public_people_share_nobody_and_are_everybody():
    split = private_public.draw(PIXELS, WHO, 3, 2, range(5))
    for i, draw in enumerate(split.draws):
        mine, theirs = set(draw.people.tolist()), set(draw.public_people.tolist())
        assert not mine & theirs and mine | theirs == set(range(8)) and len(mine) == 3
        pixels, labels = split.photographs(i)
        assert (draw.people[labels] == owner(pixels)).all()  # labels are numbered from 0 in the order of `people`
        assert set(owner(draw.public).tolist()) == theirs and len(draw.public) == 30
    assert len({tuple(draw.people.tolist()) for draw in split.draws}) > 1  # another draw, other people


def test_each_person_has_photographs_to_train_on_and_two_to_test_on():
    split = private_public.draw(PIXELS, WHO, 3, 2, range(2))
    for draw in split.draws:
        assert sorted([*draw.train.tolist(), *draw.test.tolist()]) == draw.all.tolist()
        assert split.labels[draw.test].bincount().tolist() == [2, 2, 2]
        assert split.labels[draw.train].bincount().tolist() == [4, 4, 4]


def test_the_rows_of_the_keep_matrix_are_the_draws():
    split = private_public.draw(PIXELS, WHO, 3, 2, range(3))
    train, everything = split.keep(), split.keep(all=True)
    assert train.shape == everything.shape == (3, 54)
    assert (everything.sum(0) == 1).all()  # each photograph belongs to one draw
    for i, draw in enumerate(split.draws):
        assert train[i].nonzero()[:, 0].tolist() == sorted(draw.train.tolist())
        assert everything[i].nonzero()[:, 0].tolist() == draw.all.tolist()


def test_the_same_seed_draws_the_same():
    one, other = (private_public.draw(PIXELS, WHO, 3, 2, [4]) for _ in range(2))
    assert torch.equal(one.pixels, other.pixels) and torch.equal(one.draws[0].train, other.draws[0].train)


def test_named_people_and_fewer_photographs_of_each():
    split = private_public.draw(PIXELS, WHO, (6, 1), 1, [0, 1], each=4, public=10)
    for i, draw in enumerate(split.draws):
        assert draw.people.tolist() == [1, 6] and len(draw.public) == 10 and len(draw.all) == 8
        assert set(owner(split.photographs(i)[0]).tolist()) == {1, 6}
    assert not torch.equal(split.photographs(0)[0], split.photographs(1)[0])  # other photographs of the same people


def test_public_photographs_from_elsewhere_leave_everybody_private():
    outside = torch.zeros(7, 1, 2, 2, dtype=torch.uint8)
    draw = private_public.draw(PIXELS, WHO, 8, 1, [0], public=outside).draws[0]
    assert len(draw.people) == 8 and len(draw.public_people) == 0 and draw.public is outside


@pytest.mark.parametrize("everybody", [8, tuple(range(8)), (0, 99)])
def test_somebody_has_to_be_left(everybody):
    with pytest.raises(ValueError, match="private="):
        private_public.draw(PIXELS, WHO, everybody, 1, [0])


def test_it_says_what_it_is():
    told = "2 draws of 3 private people (12 photographs to train on, 6 to test) and 5 public ones (30 photographs)"
    assert repr(private_public.draw(PIXELS, WHO, 3, 2, range(2))) == told


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(each=-1), "each=-1 is not a number of photographs"),
        (dict(public=0), "public=0 is not a number of photographs"),
        (dict(private=[1, 1, 2]), "names somebody twice; name each once"),
    ],
)
def test_a_draw_names_what_cannot_be_drawn(given, words):
    pixels, labels = torch.zeros(12, 1, 4, 4, dtype=torch.uint8), torch.arange(12) // 3
    with pytest.raises(ValueError, match=words):
        private_public.draw(pixels, labels, **{"private": 2, "held_out": 1, "seeds": [0], **given})
