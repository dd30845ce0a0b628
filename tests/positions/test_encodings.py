"""Encodings of a place: the paper's sinusoids, and correction 1: the lecture's exponent cannot be right."""

import math

import pytest
import torch

from regard.positions import Learned, Sinusoidal, sinusoid


def by_definition(t, d):
    return [f(t / 10000 ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)]


def with_the_exponent_of_the_lecture(t, d):
    return [
        f(t / 10000 ** (e / d)) for i in range(d // 2) for f, e in ((math.sin, 2 * i), (math.cos, 2 * i + 1))
    ]


def misfit(table, k):
    """How far the best linear map of x_t is from x_{t+k}."""
    found = torch.linalg.lstsq(table[:-k], table[k:], driver="gelsd").solution
    return (table[:-k] @ found - table[k:]).abs().max().item()


def test_equals_the_definition():
    table = sinusoid(torch.arange(50), 16)
    assert table.dtype == torch.float64
    expected = torch.tensor([by_definition(t, 16) for t in range(50)], dtype=torch.float64)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 5, 50])
def test_moving_on_is_linear_and_not_with_the_exponent_of_the_lecture(k):
    wrong = torch.tensor([with_the_exponent_of_the_lecture(t, 16) for t in range(512)], dtype=torch.float64)
    assert misfit(sinusoid(torch.arange(512), 16), k) < 1e-10
    assert misfit(wrong, k) > 0.5


def test_how_alike_two_places_are_depends_on_their_distance_alone():
    table = sinusoid(torch.arange(100), 16)
    alike = table @ table.T
    for k in range(100):
        diagonal = alike.diagonal(k)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-11)


def test_wavelengths_from_2_pi_to_nearly_10000_times_that():
    d = 16
    last = 2 * math.pi * 10000 ** ((d - 2) / d)
    places = torch.tensor([0.0, 2 * math.pi, last], dtype=torch.float64)
    first_pair, last_pair = sinusoid(places, d)[:, :2], sinusoid(places, d)[:, -2:]
    torch.testing.assert_close(first_pair[1], first_pair[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(last_pair[2], last_pair[0], rtol=0, atol=1e-9)
    assert last < 2 * math.pi * 10000


def test_odd_widths_lose_the_last_cosine():
    assert torch.equal(
        sinusoid(torch.arange(5), 7)[:, -1], (torch.arange(5).double() * 10000 ** (-6 / 7)).sin()
    )


def test_the_table_grows_and_follows_the_dtype():
    positions = Sinusoidal(8)
    for n, start in ((3, 0), (1, 3), (700, 2), (4, 1)):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            found = positions(n, start, like=torch.empty(0, dtype=dtype))
            assert found.dtype == dtype
            assert torch.equal(found, sinusoid(torch.arange(start, start + n), 8).to(dtype))
    assert list(positions.parameters()) == [] and positions.state_dict() == {}
    assert "width=8" in repr(positions)


def test_learned_positions_are_rows_that_end_somewhere():
    positions = Learned(8, 10)
    like = torch.empty(0)
    assert torch.equal(positions(4, 6, like=like), positions.table[6:])
    assert positions(2, like=like.double()).dtype == torch.float64
    positions(3, like=like).sum().backward()
    assert positions.table.grad.sum(-1).tolist() == [8.0] * 3 + [0.0] * 7
    with pytest.raises(ValueError, match="learned positions for 10 places; got a sequence of 11.*longest"):
        positions(5, 6, like=like)
    assert "longest=10" in repr(positions)
