"""The k largest and log Σ exp against sorting and torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels.decoding.topk_logsumexp import topk_logsumexp


def by_sorting(row: list[float], k: int, first: int) -> list[int]:
    return sorted(range(first, len(row)), key=lambda j: -row[j])[:k]  # stable: of equals the first


def check(logits: torch.Tensor, k: int, first: int) -> None:
    values, places, whole = topk_logsumexp(logits, k, first)
    wanted = [by_sorting(row, k, first) for row in logits.tolist()]
    assert places.tolist() == wanted
    assert torch.equal(values, logits.gather(1, places))
    torch.testing.assert_close(whole, logits[:, first:].logsumexp(-1, keepdim=True), rtol=1e-6, atol=2e-6)


@given(
    st.integers(1, 4), st.integers(1, 200), st.integers(1, 9), st.integers(0, 3), st.integers(0, 9999),
    st.sampled_from([0.1, 1.0, 30.0]), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_equals_sorting(
    r: int, v: int, k: int, first: int, seed: int, scale: float, dtype: torch.dtype
) -> None:
    if v <= first:
        return
    source = torch.Generator().manual_seed(seed)
    check(torch.randn(r, v, generator=source, dtype=dtype) * scale, k, first)


@given(st.lists(st.sampled_from([0.0, 1.0, -1.0, -torch.inf]), min_size=1, max_size=150), st.integers(1, 5))
def test_ties_and_hidden_words(row: list[float], k: int) -> None:
    check(torch.tensor([row]), k, 0)


def test_a_large_vocabulary_in_threads_and_any_layout() -> None:
    logits = torch.randn(8000, 300).t()
    check(logits, 5, 2)


def test_what_is_no_number_shows_in_the_sum() -> None:
    logits = torch.zeros(2, 100)
    logits[0, 50] = torch.nan
    assert topk_logsumexp(logits, 3)[2].isnan().flatten().tolist() == [True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    logits = torch.randn(3, 40).to(dtype)
    values, places, whole = topk_logsumexp(logits, 4, 2)
    assert values.dtype == whole.dtype == torch.float32
    assert torch.equal(values, logits.float().gather(1, places))
    torch.testing.assert_close(whole, logits[:, 2:].float().logsumexp(-1, keepdim=True))


def test_fewer_words_than_asked_for() -> None:
    values, places, _ = topk_logsumexp(torch.tensor([[5.0, 1.0, 2.0]]), 7, 1)
    assert places.tolist() == [[2, 1]] and values.tolist() == [[2.0, 1.0]]
