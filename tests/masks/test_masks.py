"""A mask says the same in every form: rows, two ends, who is seen and who sees."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.masks import (
    Blocks,
    Causal,
    Documents,
    Lengths,
    Prefix,
    Window,
    as_mask,
    from_additive,
    from_hidden,
    to_hidden,
)

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
    "documents": lambda m, n, size, k: Documents(
        torch.stack([torch.arange(n) // (k + 1), torch.zeros(n).long()])
    ),
    "pieces": lambda m, n, size, k: Documents(torch.arange(n) % (k + 1)),
    "documents & causal": lambda m, n, size, k: Documents(torch.arange(n).flip(0) // (k + 1)) & Causal(),
    "prefix": lambda m, n, size, k: Prefix(k),
    "prefixes": lambda m, n, size, k: Prefix(size),
    "blocks": lambda m, n, size, k: Blocks(torch.arange(n * n).reshape(n, n) % 3 > 0, k + 1),
    "prefix | window": lambda m, n, size, k: (Lengths(size) | Window(k)) & Causal(),
    "not": lambda m, n, size, k: ~(Causal() & Lengths(size)),
    "not documents": lambda m, n, size, k: ~Documents(torch.arange(n) // (k + 1)) | Window(0),
}
DEFINED = {  # of query at position p, key j, in sequence b, as the docstrings say
    "documents": lambda b, p, j, ls, k, n: p >= 0 and (b == 1 or p // (k + 1) == j // (k + 1)),
    "pieces": lambda b, p, j, ls, k, n: p >= 0 and p % (k + 1) == j % (k + 1),
    "documents & causal": lambda b, p, j, ls, k, n: (
        0 <= p >= j and (n - 1 - p) // (k + 1) == (n - 1 - j) // (k + 1)
    ),
    "prefix": lambda b, p, j, ls, k, n: j < k or j <= p,
    "prefixes": lambda b, p, j, ls, k, n: j < ls[b] or j <= p,
    "blocks": lambda b, p, j, ls, k, n: p >= 0 and (p // (k + 1) * n + j // (k + 1)) % 3 > 0,
    "prefix | window": lambda b, p, j, ls, k, n: (j < ls[b] or abs(j - p) <= k) and j <= p,
    "not": lambda b, p, j, ls, k, n: not (j <= p and j < ls[b]),
    "not documents": lambda b, p, j, ls, k, n: p == j or p < 0 or p // (k + 1) != j // (k + 1),
}
NO_INTERVALS = ("given", "given & lengths", "pieces", "blocks", "prefix | window", "not", "not documents")
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
                if kind in DEFINED:
                    allowed[b, i, j] = DEFINED[kind](b, at, j, lengths, k, n)
                    continue
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
    assert (ends is None) == (kind in NO_INTERVALS and not (kind == "pieces" and (k == 0 or k + 1 >= n)))
    if ends is not None:
        lo, hi = (end.expand(2, m).unsqueeze(-1) for end in ends)
        j = torch.arange(n)
        assert torch.equal((j >= lo) & (j < hi), want)
    part = mask.cells(m // 2, m, n // 2, n, m, n, 1, CPU)
    assert torch.equal(part.expand(2, m - m // 2, n - n // 2), want[:, m // 2 :, n // 2 :])
    tiles = mask.tiles(2, 3, m, n, 1, CPU)
    assert tiles.shape == (-(-m // 2), -(-n // 3))
    for r, c in (~tiles).nonzero().tolist():
        assert not want[:, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3].any()
    first, last = mask.span(m // 2, m, m, n)
    assert 0 <= first <= last <= n
    assert not want[:, m // 2 :, :first].any() and not want[:, m // 2 :, last:].any()
    if (offsets := mask.offsets(n)) is not None:
        far = torch.arange(n) - torch.arange(n - m, n).unsqueeze(-1)
        assert torch.equal((far >= offsets[0]) & (far <= offsets[1]), want[0])


@every_mask
@given(case=cases)
def test_the_last_query_sees_alone_what_it_sees_among_others(kind, case):
    m, n, lengths, k = case
    if "given" in kind:
        return  # its rows are numbered, not aligned
    mask = MAKERS[kind](m, n, torch.tensor(lengths), k)
    whole = mask.rows(0, m, m, n, 1, CPU).expand(2, m, n)
    assert torch.equal(mask.rows(0, 1, 1, n, 1, CPU).expand(2, 1, n), whole[:, -1:])


def test_tiles_of_what_is_empty_are_skipped():
    ids = torch.arange(12).div(4, rounding_mode="floor")
    assert torch.equal(Documents(ids).tiles(4, 4, 12, 12, 0, CPU), torch.eye(3, dtype=torch.bool))
    assert torch.equal(Documents(ids % 2).tiles(4, 4, 12, 12, 0, CPU)[0], torch.tensor([True, False, True]))
    assert Window(1).tiles(4, 4, 12, 12, 0, CPU).sum() == 7
    given = as_mask(torch.block_diag(torch.ones(4, 4), torch.ones(8, 8)).bool())
    assert given.tiles(4, 4, 12, 12, 0, CPU).sum() == 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Documents([1, 2]), "tensor of whole numbers"),
        (lambda: Documents(torch.ones(2)), "whole numbers"),
        (lambda: Documents(torch.tensor(1)), "one number"),
        (lambda: Documents(torch.ones(2, 3).long()).check((2, 4), 3, 5), r"\(2, 5\); got \(2, 3\)"),
        (lambda: Documents(torch.ones(3, 5).long()).check((2, 4), 3, 5), r"\(2, 5\); got \(3, 5\)"),
        (lambda: Prefix(-1), "at least 0"),
        (lambda: Prefix(1.5), "whole number"),
        (lambda: Prefix(torch.ones(2)), "whole numbers"),
        (lambda: Prefix(torch.ones(3).long()).check((2, 4), 5, 5), "per sequence"),
        (lambda: Window(1.5), "whole number"),
        (lambda: Blocks(torch.ones(2, 2), 4), "boolean"),
        (lambda: Blocks(torch.ones(2).bool(), 4), "rows, columns"),
        (lambda: Blocks(torch.ones(2, 2).bool(), 0), "at least 1"),
        (lambda: Blocks(torch.ones(2, 2).bool(), 4).check((2,), 9, 9), "3 × 3 tiles of 4"),
        (lambda: Blocks(torch.ones(3, 2, 2).bool(), 4).check((2,), 8, 8), "broadcast"),
    ],
)
def test_bad_arguments_are_named(make, says):
    with pytest.raises((TypeError, ValueError, DtypeError, ShapeError), match=says):
        make()


def test_masks_are_written_as_they_are_read():
    lengths = Lengths(torch.tensor([1]))
    assert repr((Causal() | Window(2)) & ~lengths) == "(Causal() | Window(2)) & ~Lengths(1,)"
    assert repr(~(Prefix(2) & lengths)) == "~(Prefix(2) & Lengths(1,))"
    tensor = torch.ones(2, 2, dtype=torch.bool)
    assert repr(tensor | Causal()) == "Causal() | mask(2, 2)"
    assert (~~lengths) is lengths


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
