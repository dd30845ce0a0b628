"""Structured maps: the run of C99 is exact. The claim itself is in regard.claims."""

import pytest
import torch

from regard.claims.fused_weights import weights_of
from regard.maps import sparsemax


def test_c99_the_run_is_exact():
    """One weight for both words, to the last bit that matters, though their scores differ."""
    theta = torch.tensor([-0.2, 0.1, 0.0, 3.0, 3.6, 0.3], dtype=torch.float64)
    assert weights_of("fusedmax", theta).tolist() == pytest.approx([0, 0, 0, 0.5, 0.5, 0])
    assert sparsemax(theta)[4] > sparsemax(theta)[3]  # control
