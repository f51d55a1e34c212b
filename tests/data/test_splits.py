"""Who is trained on what: even parts without overlap, exact halves, pairs that complement each other."""

import pytest
import torch

from privlab import data


@pytest.mark.parametrize(("n", "seed"), [(8, 0), (33, 1), (60, 7)])
def test_four_parts_are_even_and_share_nothing(n, seed):
    parts = data.four_way(torch.zeros(n, dtype=torch.long), seed)
    assert {len(part) for part in parts} == {n // 4}
    assert len(set(torch.cat(parts).tolist())) == 4 * (n // 4)
    assert torch.equal(torch.cat(parts), torch.cat(data.four_way(torch.zeros(n), seed)))


def test_a_class_that_a_part_lacks_is_named():
    labels = torch.zeros(40, dtype=torch.long)
    labels[7] = 3
    says = r"class 3 is absent from (victim|shadow)_\w+, which gets 10 of 40 images; give more"
    with pytest.raises(ValueError, match=says):
        data.four_way(labels, 0)


def test_pairs_complement_each_other_and_others_do_not():
    assert data.in_out(201, 6, 0, pairs=True).sum(1).tolist() == [100, 101] * 3
    keep = data.in_out(200, 6, 0, pairs=True)
    assert torch.equal(keep[1::2], ~keep[::2])
    free = data.in_out(200, 6, 0)
    assert not torch.equal(free[1::2], ~free[::2])


@pytest.mark.parametrize("pairs", [False, True])
def test_every_way_to_hold_a_sample_is_as_likely(pairs):
    keep = data.in_out(24_000, 4, 1, pairs)
    assert keep.shape == (4, 24_000) and keep.dtype == torch.bool
    assert torch.equal(keep, data.in_out(24_000, 4, 1, pairs))
    assert not torch.equal(keep, data.in_out(24_000, 4, 2, pairs))
    ways = (keep * torch.tensor([1, 2, 4, 8])[:, None]).sum(0).bincount(minlength=16)
    possible = [3, 5, 6, 9, 10, 12] if not pairs else [5, 6, 9, 10]  # which two of the four hold it
    expected = 24_000 / len(possible)
    assert sorted(ways.nonzero().flatten().tolist()) == possible
    assert (ways[possible] - expected).abs().max() < 5 * expected**0.5


def test_models_that_have_no_half():
    with pytest.raises(ValueError, match="models=3 cannot hold each sample in exactly half of them; give an even"):
        data.in_out(10, 3, 0)
