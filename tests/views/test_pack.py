"""Numbers on their way to the browser: nearly the same, exactly 0 exactly where it was."""

import base64

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.views import heat_map
from regard.views.base_view import SMALL
from regard.views.weight_matrices import packed, rows

numbers = st.one_of(
    st.just(0.0), st.floats(-1, 1, width=32), st.floats(0, 1e-30), st.sampled_from([1e-45, -1e-45, 1.0])
)
matrices = st.lists(numbers, min_size=1, max_size=12).map(lambda row: np.array([row]))


def unpacked(text: str) -> np.ndarray:
    """bfloat16 read bit by bit: a sign, eight bits of exponent, seven of fraction."""
    codes = np.frombuffer(base64.b64decode(text), "<u2").astype(int)
    sign, exponent, fraction = codes >> 15, (codes >> 7) & 0xFF, codes & 0x7F
    size = np.where(
        exponent == 0, fraction / 128 * 2.0**-126, (1 + fraction / 128) * 2.0 ** (exponent - 127.0)
    )
    return np.where(sign == 1, -size, size)


@given(p=matrices)
def test_packed_numbers_are_near_and_zeros_are_zeros(p):
    found = unpacked(packed(p))
    assert ((found == 0) == (p[0] == 0)).all()
    assert (np.sign(found) == np.sign(p[0])).all()
    assert (abs(found - p[0]) <= np.maximum(abs(p[0]) / 256, 2.0**-133)).all()


@given(p=matrices)
def test_written_numbers_are_nearer_and_zeros_are_zeros(p):
    (found,) = rows(p)
    assert [value == 0 for value in found] == (p[0] == 0).tolist()
    assert np.allclose(found, p[0], rtol=5e-5, atol=0)


def test_few_are_written_and_many_are_packed():
    small, large = (heat_map(np.full((1, n), 0.5)).data()["matrices"][0] for n in (SMALL, SMALL + 1))
    assert small["weights"] == [[0.5] * SMALL] and "packed" not in small
    assert large["weights"] is None and (unpacked(large["packed"]) == 0.5).all()
