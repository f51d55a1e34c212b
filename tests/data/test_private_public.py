"""Who is private and who is public."""

import pytest
import torch

from privlab.data import private_public

WHO = torch.arange(8).repeat_interleave(6)  # 8 people, 6 photographs each
PIXELS = (torch.arange(48) * 5).to(torch.uint8).view(48, 1, 1, 1).expand(-1, 1, 2, 2).contiguous()  # each its own grey


def owner(pixels):
    """Who is on these photographs, read off their grey."""
    return WHO[pixels[:, 0, 0, 0].long() // 5]


def test_private_and_public_people_share_nobody_and_are_everybody():
    draws = [private_public.draw(PIXELS, WHO, 3, 2, seed) for seed in range(5)]
    for draw in draws:
        mine, theirs = set(draw.people.tolist()), set(draw.public_people.tolist())
        assert not mine & theirs and mine | theirs == set(range(8)) and len(mine) == 3
        right = draw.people[draw.labels] == owner(draw.pixels)  # labels are numbered from 0 in the order of `people`
        assert right.all()
        assert set(owner(draw.public).tolist()) == theirs and len(draw.public) == 30
    assert len({tuple(draw.people.tolist()) for draw in draws}) > 1  # another draw, other people


def test_the_victim_sees_four_photographs_of_each_person_and_the_judge_all_six():
    draw = private_public.draw(PIXELS, WHO, 3, 2, 0)
    assert sorted([*draw.train.tolist(), *draw.test.tolist()]) == list(range(18))
    assert [draw.labels[part].bincount().tolist() for part in (draw.train, draw.test)] == [[4] * 3, [2] * 3]
    assert draw.keep()[0].nonzero()[:, 0].tolist() == draw.train.tolist()
    judge, twin = draw.evaluation_keep()
    assert judge.all() and torch.equal(twin[None], draw.keep())


def test_named_people_and_fewer_photographs_of_each():
    one, other = (private_public.draw(PIXELS, WHO, (6, 1), 1, seed, each=4, public=10) for seed in (0, 1))
    assert one.people.tolist() == [1, 6] and len(one.public) == 10 and len(one.pixels) == 8
    assert set(owner(one.pixels).tolist()) == {1, 6}
    assert not torch.equal(one.pixels, other.pixels)  # other photographs of the same people


def test_public_photographs_from_elsewhere_leave_everybody_private():
    outside = torch.zeros(7, 1, 2, 2, dtype=torch.uint8)
    draw = private_public.draw(PIXELS, WHO, 8, 1, 0, public=outside)
    assert len(draw.people) == 8 and len(draw.public_people) == 0 and draw.public is outside


@pytest.mark.parametrize("counts", [[2], [9, 3, 5], [4] * 8])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_of_each_person_are_held_out_and_the_rest_is_all(counts, seed):
    labels = 7 * torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(9))]
    for each in range(1, min(counts)):
        train, test = private_public.hold_out(labels, each, seed)
        assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
        assert train.tolist() == sorted(train.tolist()) and test.tolist() == sorted(test.tolist())
        assert labels[test].unique(return_counts=True)[1].tolist() == [each] * len(counts)
        assert set(labels[train].tolist()) == set(labels.tolist())
        assert torch.equal(test, private_public.hold_out(labels, each, seed)[1])


def test_a_share_is_divided_evenly_among_the_people():
    labels = torch.tensor([0] * 10 + [1] * 30)
    assert labels[private_public.hold_out(labels, 0.2, 0)[1]].tolist() == [0] * 4 + [1] * 4  # 8 of 40
    assert labels[private_public.hold_out(labels, 0.001, 0)[1]].tolist() == [0, 1]  # never nobody


@pytest.mark.parametrize("each", [2, 0.9])
def test_nobody_is_left_without_photographs_to_train_on(each):
    with pytest.raises(ValueError, match=f"each={each} leaves identity 4, with 2, none to train on"):
        private_public.hold_out(torch.tensor([3, 3, 3, 3, 3, 4, 4]), each, 0)
