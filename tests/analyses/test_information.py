"""Information in states: known where labels are a function of the state, of the type, or of nothing."""

import math

import pytest
import torch

from regard.analyses import information
from regard.analyses.information import conditional_entropy, type_vectors
from regard.analyses.probing import ProbingData


def made(of_type, of_context, n=1000):
    """Words of 8 types; a label (0 to 3) of two bits, each bit by type or by context, or a coin's."""
    torch.manual_seed(0)
    types, context, coins = torch.randint(8, (n,)), torch.randint(2, (n,)), torch.randint(2, (2, n))
    first = types % 2 if of_type else coins[0]
    second = context if of_context else coins[1]
    embedded = torch.nn.functional.one_hot(types, 8).float()
    deep = torch.cat([embedded, context.unsqueeze(-1).float()], -1)
    flat = torch.cat([embedded, torch.zeros(n, 1)], -1)
    return ProbingData(torch.stack([flat, deep]), first + 2 * second, ("a", "b", "c", "d"), types.tolist())


@pytest.mark.parametrize(
    ("of_type", "of_context", "gains", "mutual"),
    [(True, True, (0, 1), (1, 2)), (True, False, (0, 0), (1, 1)), (False, False, (0, 0), (0, 0))],
)
def test_bits_are_counted(of_type, of_context, gains, mutual):
    found = list(information(made(of_type, of_context), hidden=0))
    assert [one.layer for one in found] == [0, 1]
    assert [one.entropy for one in found] == pytest.approx([2, 2], abs=0.01)
    assert [one.gain for one in found] == pytest.approx(gains, abs=0.3)
    assert [one.mutual for one in found] == pytest.approx(
        mutual, abs=0.3
    )  # a linear probe needs long to be sure


def test_a_type_has_the_mean_of_its_states():
    states = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]])
    assert type_vectors(states, ["a", "a", "b"]).tolist() == [[2, 1], [2, 1], [5, 5]]


def test_too_few_labels_are_refused():
    with pytest.raises(ValueError, match="at least 20 labels"):
        conditional_entropy(torch.randn(10, 2), torch.arange(10) % 2, 2)
    assert math.isfinite(conditional_entropy(torch.randn(30, 2), torch.arange(30) % 2, 2))
