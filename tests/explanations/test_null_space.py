"""What weights can change without the output knowing (C84, C85), norms, and states that know their words."""

import pytest
import torch

import regard
from explanations.toys import TwoLayers, random_weights, texts
from regard.explanations import effective_attention, freedom, identified, linear_map, norms, other_weights
from regard.explanations.effective_attention import effective
from regard.explanations.norms import contributions
from regard.explanations.null_space import column_projector


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def transformed(n, d_v=16, d=32):
    """T = E W_V W_O of n random words: (n, d), of rank min(n, d_v)."""
    return normal(n, d) @ normal(d, d_v, seed=1) @ normal(d_v, d, seed=2)


@pytest.mark.parametrize(("n", "dimensions"), [(8, 0), (16, 0), (17, 0), (24, 7), (64, 47)])
def test_with_more_tokens_than_a_head_is_wide_weights_are_not_unique(n, dimensions):
    """C84: n − d_v − 1 dimensions. With fewer tokens there are none: the control."""
    T, A = transformed(n), random_weights(n, n)
    assert int(freedom(T)) == dimensions
    B = other_weights(A, T, seed=0)
    assert B.min() >= 0
    torch.testing.assert_close(B.sum(-1), torch.ones(n, dtype=torch.float64))
    assert (A @ T - B @ T).abs().max() < 1e-10
    distance = (A - B).abs().sum(-1)
    assert (distance == 0).all() if dimensions == 0 else distance.min() > 0 and distance.mean() > 0.01


def test_freedom_does_not_depend_on_the_scale_of_values():
    for scale in (1e-6, 1.0, 1e6):
        assert int(freedom(scale * transformed(24))) == 7
    assert freedom(torch.zeros(3, 5, 4)).tolist() == [4, 4, 4]  # only the sum is fixed


def test_effective_attention_does_the_same_and_drifts_away():
    """C85: A^⊥T = AT, and the correlation with A falls with n; at n ≤ d_v it is A."""
    correlations = []
    for n in (8, 16, 32, 64, 128):
        T, A = transformed(n), random_weights(n, n)
        E = effective(A, T)
        torch.testing.assert_close(E @ T, A @ T, rtol=0, atol=1e-10)
        correlations.append(float(torch.corrcoef(torch.stack([A.flatten(), E.flatten()]))[0, 1]))
    assert correlations[:2] == pytest.approx([1, 1])
    assert correlations[1:] == sorted(correlations[1:], reverse=True) and correlations[-1] < 0.5


def test_the_projector_is_one():
    T = transformed(24)
    P = column_projector(T)
    torch.testing.assert_close(P @ P, P)
    torch.testing.assert_close(P, P.mT)
    torch.testing.assert_close(P, T @ torch.linalg.pinv(T, rtol=1e-10), rtol=0, atol=1e-8)


def test_effective_attention_of_a_model_makes_its_contexts():
    """Two heads of width 4 over 6 tokens: by the pseudoinverse of each head's values."""
    model, (tokens, lengths) = TwoLayers(), texts()
    with regard.record(model) as seen:
        model(tokens, lengths)
    last = seen["second"][0]
    scores = effective_attention(model, tokens, lengths, position=0)
    for text, n in enumerate(lengths):
        values, weights = last.values[text, :, :n], last.weights[text, :, 0, :n]  # (h, n, 4), (h, n)
        slow = [w @ v @ torch.linalg.pinv(v) for w, v in zip(weights, values, strict=True)]
        torch.testing.assert_close(scores[text, :n], sum(slow) / 2)


def test_norms_are_the_lengths_of_what_places_add():
    model, (tokens, lengths) = TwoLayers(), texts()
    with regard.record(model) as seen:
        model(tokens, lengths)
    for layer, path in enumerate(("first", "second")):
        one, W = seen[path][0], getattr(model, path).W_o.weight.detach()
        found = norms(model, tokens, lengths, layer=layer, position=-1)
        for text, n in enumerate(lengths.tolist()):
            for j in range(6):
                parts = [one.weights[text, h, n - 1, j] * one.values[text, h, j] for h in range(2)]
                assert float(found[text, j]) == pytest.approx(float((W @ torch.cat(parts)).norm()), abs=1e-12)


def test_much_weight_on_a_short_vector_adds_little():
    """C92 in small: the token of most weight is the one that adds least."""
    weights = torch.tensor([[[[0.8, 0.1, 0.1]]]])
    vectors = torch.tensor([[[[0.01, 0.0], [3.0, 4.0], [0.0, 2.0]]]])
    assert contributions(weights, vectors)[0, 0].tolist() == pytest.approx([0.008, 0.5, 0.2])


def test_states_that_are_their_words_are_identified():
    x, lengths = normal(2, 6, 5), torch.tensor([6, 3])
    there = (torch.arange(6) < lengths.unsqueeze(-1)).double()
    assert torch.equal(identified(3 * x, x, lengths), there)
    assert identified(x.roll(1, 1), x).sum() == 0
    same = x.clone()
    same[0, 1] = same[0, 0]  # the same word twice: either is right
    assert identified(same, same)[0, :2].tolist() == [1, 1]


def test_a_linear_map_from_other_texts_finds_words_again():
    W = normal(7, 5, seed=3)
    x, y = normal(30, 6, 5), normal(30, 6, 5, seed=1)
    back = torch.linalg.pinv(W)  # (5, 7)
    g = linear_map(x @ back, x)
    assert identified(y @ back, y, g=g).mean() == 1
    with pytest.raises(ValueError, match=r"for different widths give g=linear_map"):
        identified(y @ back, y)
    lost = torch.zeros_like(y)
    assert identified(lost + normal(30, 6, 5, seed=9), y).mean() < 0.5  # chance is 1/6
