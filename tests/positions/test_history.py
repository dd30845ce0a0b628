"""Terms that know the steps before: features by a loop, and in a decoder those of its own weights."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import record
from regard.core.place import Place
from regard.models import TRANSLATORS
from regard.models.parts.biases import Biases
from regard.positions import Fertility, Markov
from regard.scores import Dot


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 3), st.integers(0, 99))
def test_features_are_the_neighbours_weights(m, n, reach, seed):
    torch.manual_seed(seed)
    query, keys = torch.randn(2, m, 3, dtype=torch.float64), torch.randn(2, n, 3, dtype=torch.float64)
    previous, total = torch.rand(2, m, n, dtype=torch.float64), torch.rand(2, 1, n, dtype=torch.float64)
    place = Place(torch.arange(m), torch.arange(n), None, previous, total)
    markov = Markov(reach).features(query, keys, place).expand(2, m, n, 2 * reach + 1)
    fertility = Fertility(reach).features(query, keys, place).expand(2, m, n, 2 * reach + 1)
    for b in range(2):
        for i in range(m):
            for j in range(n):
                for k in range(-reach, reach + 1):
                    inside = 0 <= j + k < n
                    assert markov[b, i, j, k + reach] == (previous[b, i, j + k] if inside else 0)
                    assert fertility[b, i, j, k + reach] == (total[b, 0, j + k] if inside else 0)
    nobody = Place(torch.arange(m), torch.arange(n))
    assert not Markov(reach).features(query, keys, nobody).any()
    assert (Dot() + Markov(reach))(query, keys, place).shape == (2, m, n)


@pytest.mark.parametrize("score", ["additive", "bilinear"])
@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_a_decoder_hands_on_its_weights_and_their_sum(name, score):
    torch.manual_seed(0)
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "width": 6}
    model = TRANSLATORS[name].make(**sizes, score=score, bias=("position", "markov:1", "fertility:2")).eval()
    source, lengths = torch.tensor([[4, 5, 6, 7], [8, 4, 0, 0]]), torch.tensor([4, 2])
    with torch.no_grad(), record(model, "attention") as seen:
        model(source, lengths, torch.tensor([[1, 4, 5, 6], [1, 7, 8, 4]]))
    total = torch.zeros(2, 1, 4)
    previous = torch.zeros(2, 1, 4)
    for step, attended in enumerate(seen["attention"]):
        place = attended.place
        assert place.queries.tolist() == [step]
        torch.testing.assert_close(place.previous, previous)
        torch.testing.assert_close(place.total, total)
        assert place.lengths.tolist() == [4, 2]
        previous = attended.weights
        total = total + previous


def test_biases_are_read_from_their_names():
    assert Biases.of(()) == Biases()
    found = Biases.of(("position", "markov:2", "fertility", "global-fertility:0.5", "trace"))
    assert found == Biases(True, 2, 1, 0.5, 1.0)
    assert Biases.of(("markov:0",)).history
    assert not Biases.of(("position", "trace")).history


@pytest.mark.parametrize(
    ("given_", "match"),
    [
        (("markoff",), "must be one of position, markov"),
        (("markov", "markov:2"), "given twice"),
        (("markov:two",), "name or name:number"),
        (("markov:1.5",), "whole number of keys"),
        (("fertility:-1",), "whole number of keys"),
        (("trace:0",), "above 0"),
        (("global-fertility:nan",), "above 0"),
    ],
)
def test_a_wrong_bias_is_named(given_, match):
    with pytest.raises(ValueError, match=match):
        Biases.of(given_)


def test_a_transformer_cannot_know_the_step_before():
    with pytest.raises(ValueError, match="all steps at once"):
        TRANSLATORS["transformer"].make(source_vocabulary=9, target_vocabulary=9, bias=("markov",))
