"""A mask says the same in every form: rows, two ends, who is seen and who sees."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.masks import Causal, Lengths, Window, as_mask, from_additive, from_hidden, to_hidden

CPU = torch.device("cpu")
MAKERS = {
    "causal": lambda m, n, size, k: Causal(),
    "lengths": lambda m, n, size, k: Lengths(size),
    "window": lambda m, n, size, k: Window(k),
    "causal & lengths": lambda m, n, size, k: Causal() & Lengths(size),
    "window & causal & lengths": lambda m, n, size, k: Window(k) & Causal() & Lengths(size),
    "given": lambda m, n, size, k: as_mask(torch.arange(m * n).reshape(1, m, n) % (k + 2) > 0),
    "given & lengths": lambda m, n, size, k: (
        as_mask(torch.arange(m * n).reshape(m, n) % (k + 2) > 0) & Lengths(size)
    ),
}
every_mask = pytest.mark.parametrize("kind", MAKERS)
cases = st.tuples(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.integers(0, 7), min_size=2, max_size=2),
    st.integers(0, 3),
)


def by_hand(kind, m, n, lengths, k):
    """One pair at a time, from the sentences of the docstrings."""
    allowed = torch.ones(2, m, n, dtype=torch.bool)
    for b in range(2):
        for i in range(m):
            for j in range(n):
                at = n - m + i
                ok = True
                if "causal" in kind:
                    ok &= j <= at
                if "lengths" in kind:
                    ok &= j < lengths[b]
                if "window" in kind:
                    ok &= abs(j - at) <= k
                if "given" in kind:
                    ok &= (i * n + j) % (k + 2) > 0
                allowed[b, i, j] = ok
    return allowed


@every_mask
@given(case=cases)
def test_every_form_says_the_same(kind, case):
    m, n, lengths, k = case
    mask = MAKERS[kind](m, n, torch.tensor(lengths), k)
    want = by_hand(kind, m, n, lengths, k)
    whole = mask.rows(0, m, m, n, 1, CPU).expand(2, m, n)
    assert torch.equal(whole, want)
    middle = mask.rows(m // 2, m, m, n, 1, CPU).expand(2, m - m // 2, n)
    assert torch.equal(middle, want[:, m // 2 :])
    seen, sees = mask.seen(m, n, 1, CPU)
    assert torch.equal(
        torch.ones(2, n, dtype=torch.bool) if seen is None else seen.expand(2, n), want.any(-2)
    )
    assert torch.equal(
        torch.ones(2, m, dtype=torch.bool) if sees is None else sees.expand(2, m), want.any(-1)
    )
    ends = mask.interval(m, n, 1, CPU)
    assert (ends is None) == ("given" in kind)
    if ends is not None:
        lo, hi = (end.expand(2, m).unsqueeze(-1) for end in ends)
        j = torch.arange(n)
        assert torch.equal((j >= lo) & (j < hi), want)


def test_causal_is_aligned_at_the_end_so_that_a_cached_step_agrees():
    whole = Causal().rows(0, 5, 5, 5, 0, CPU)
    assert torch.equal(Causal().rows(0, 1, 1, 5, 0, CPU)[0], whole[-1])
    assert torch.equal(Causal().rows(0, 2, 2, 5, 0, CPU), whole[-2:])


def test_lengths_belong_to_the_first_axes_of_the_batch():
    assert Lengths(torch.tensor([1, 2])).rows(0, 3, 3, 3, 2, CPU).shape == (2, 1, 1, 3)  # (b, heads, m, n)
    with pytest.raises(ShapeError, match="2 axes"):
        Lengths(torch.ones(2, 3, dtype=torch.long)).rows(0, 3, 3, 3, 1, CPU)


@pytest.mark.parametrize(
    ("mask", "hint"),
    [
        (torch.ones(2, 2, dtype=torch.long), "mask.bool"),
        (torch.zeros(2, 2), "score term"),
        ("causal", "boolean tensor"),
    ],
)
def test_what_is_no_mask_is_refused_with_a_hint(mask, hint):
    with pytest.raises((DtypeError, TypeError), match=hint):
        as_mask(mask)


def test_a_mask_of_the_wrong_size_is_refused_with_a_hint():
    with pytest.raises(ShapeError, match=r"\(3, 4\); got \(2, 5\)"):
        as_mask(torch.ones(2, 5, dtype=torch.bool)).rows(0, 3, 3, 4, 1, CPU)


def test_lengths_must_be_whole_numbers_and_windows_not_negative():
    with pytest.raises(DtypeError, match="whole numbers"):
        Lengths(torch.tensor([1.5]))
    with pytest.raises(ValueError, match="at least 0"):
        Window(-1)


def test_converters_are_inverse_and_keep_to_their_convention():
    hidden = torch.tensor([False, True])
    assert from_hidden(hidden).tolist() == [True, False]
    assert to_hidden(from_hidden(hidden)).tolist() == hidden.tolist()
    assert from_additive(torch.tensor([0.0, float("-inf")])).tolist() == [True, False]
    with pytest.raises(ValueError, match="score term"):
        from_additive(torch.tensor([0.0, -1.0]))
    with pytest.raises(DtypeError, match="from_additive"):
        from_hidden(torch.tensor([0.0]))
    with pytest.raises(DtypeError, match="from_hidden"):
        from_additive(hidden)
