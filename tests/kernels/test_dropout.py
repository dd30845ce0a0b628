"""Dropout: which elements go is random, repeatable, and the same in backward."""

import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck, gradgradcheck

from regard.kernels.attention.dropout_operator import dropout


def kept(shape: tuple[int, ...], rate: float, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return dropout(torch.ones(shape), rate) != 0


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_the_share_kept_is_that_of_independent_draws(rate: float, size: int) -> None:
    counts = [int(kept((size,), rate, seed).sum()) for seed in range(20)]
    deviations = [(c - size * (1 - rate)) / (size * rate * (1 - rate)) ** 0.5 for c in counts]
    assert stats.kstest(deviations, "norm").pvalue > 1e-4


@pytest.mark.parametrize("apart", [1, 2, 7, 8, 64, 4095, 4096, 4097, 65536])
def test_places_do_not_know_of_each_other(apart: int) -> None:
    there = kept((1 << 20,), 0.3, apart)
    both = (there[apart:] & there[:-apart]).double()
    deviation = (both.mean() - 0.49) * len(both) ** 0.5 / 0.75  # bounds the spread of a 2-dependent mean
    assert abs(deviation) < 5


def test_runs_do_not_know_of_each_other() -> None:
    some = torch.stack([kept((1 << 17,), 0.5, seed) for seed in range(40)]).double() * 2 - 1
    like = some @ some.T / some.shape[1] ** 0.5  # standard normal off the diagonal
    off = like[~torch.eye(40, dtype=torch.bool)]
    assert off.abs().max() < 5 and stats.kstest(like[*torch.triu_indices(40, 40, 1)], "norm").pvalue > 1e-4


def test_neighbours_in_words_of_bits_are_uniform() -> None:
    bits = kept((1 << 20,), 0.5, 3).view(-1, 8).long()
    counts = torch.bincount((bits * 2 ** torch.arange(8)).sum(1), minlength=256)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_kept_is_scaled_and_backward_keeps_the_same(dtype: torch.dtype) -> None:
    x = torch.randn(300, 50, dtype=dtype, requires_grad=True)
    out = dropout(x, 0.3)
    there = out != 0
    torch.testing.assert_close(out, torch.where(there, x / 0.7, 0))
    g = torch.randn_like(x)
    (to_x,) = torch.autograd.grad(out, x, g)
    torch.testing.assert_close(to_x, torch.where(there, g / 0.7, 0))


def test_the_same_seed_and_any_number_of_threads_give_the_same() -> None:
    threads = torch.get_num_threads()
    answers = []
    for width in (1, 2, 3):
        torch.set_num_threads(width)
        answers.append(kept((513, 997), 0.3, 7))
    torch.set_num_threads(threads)
    assert all(torch.equal(answers[0], other) for other in answers)
    assert not torch.equal(answers[0], kept((513, 997), 0.3, 8))


def test_an_expanded_or_transposed_input_is_read_where_it_stands() -> None:
    x = torch.randn(5, 1, 7).expand(5, 6, 7).transpose(0, 2)
    torch.manual_seed(0)
    out = dropout(x, 0.4)
    torch.testing.assert_close(out, torch.where(out != 0, x / 0.6, 0))


def test_derivatives_of_any_order() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        return dropout(x**2, 0.4)

    assert gradcheck(f, x) and gradgradcheck(f, x)
    assert gradcheck(f, x, check_batched_grad=True)


def test_nothing_all_and_empty() -> None:
    x = torch.randn(3, 4)
    assert dropout(x, 0.0) is x
    assert (dropout(x, 1.0) == 0).all()
    assert dropout(torch.empty(0, 4), 0.5).shape == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_type(dtype: torch.dtype) -> None:
    out = dropout(torch.ones(1000, dtype=dtype), 0.5)
    assert out.dtype == dtype and set(out.unique().tolist()) == {0.0, 2.0}


def test_what_is_not_a_number_stays_so_or_goes() -> None:
    out = dropout(torch.full((10_000,), torch.nan), 0.5)
    assert 0.4 < (out == 0).double().mean() < 0.6 and (out.isnan() | (out == 0)).all()
