"""RNNsearch by its formulas, and the fixed vector it does without."""

import pytest
import torch
from torch import nn

import regard
from regard.models import TRANSLATORS
from regard.models.parts.deep_output import DeepOutput
from regard.models.parts.named_components import PrecomputedAdditive, PrecomputedProjection, make_score
from regard.scores import Additive, ScaledDot

SOURCE, LENGTHS = torch.tensor([[4, 5, 6, 7, 8, 9], [9, 8, 4, 5, 0, 0]]), torch.tensor([6, 4])
TARGET = torch.tensor([[1, 5, 6, 7], [1, 10, 4, 7]])


def make(name, **settings):
    torch.manual_seed(0)
    return (
        TRANSLATORS[name]
        .make(source_vocabulary=11, target_vocabulary=11, width=8, **settings)
        .double()
        .eval()
    )


def test_one_step_by_its_formulas():
    model = make("bahdanau")
    annotations = torch.stack([torch.zeros(6, 16).double(), torch.zeros(6, 16).double()])
    for i, n in enumerate(LENGTHS.tolist()):  # each sentence alone, without padding
        annotations[i, :n] = model.encoder.gru(model.encoder.embed(SOURCE[i : i + 1, :n]))[0][0]
    s = torch.tanh(model.begin(annotations[:, 0, 8:]))  # s₀ from ←h₁
    score, y = model.attention.score, model.embed(TARGET[:, 0])
    hidden = torch.tanh(score.W2(s).unsqueeze(1) + score.W1(annotations))
    theta = score.v(hidden).squeeze(-1).masked_fill(torch.arange(6) >= LENGTHS.unsqueeze(1), -torch.inf)
    c = (theta.softmax(-1).unsqueeze(1) @ annotations).squeeze(1)
    after, _ = model.decoder(torch.cat([y, c], -1).unsqueeze(1), s.unsqueeze(0))
    t = model.deep.W(torch.cat([after.squeeze(1), y, c], -1))
    expected = torch.maximum(t[:, ::2], t[:, 1::2])
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET)[:, 0], expected, rtol=0, atol=1e-12)


def test_the_query_is_the_state_before_the_word():
    """Another first word cannot change where the decoder looks before it has taken that word in."""
    model = make("bahdanau")
    with regard.record(model, "attention") as seen:
        model(SOURCE, LENGTHS, TARGET)
        model(SOURCE, LENGTHS, torch.cat([torch.full((2, 1), 7), TARGET[:, 1:]], 1))
    one, other = seen["attention"][:4], seen["attention"][4:]
    assert torch.equal(one[0].weights, other[0].weights)
    assert not torch.equal(one[1].weights, other[1].weights)


def test_all_that_rnn_knows_of_a_sentence_is_one_vector():
    model = make("rnn")
    memory = model.encode(SOURCE, LENGTHS)
    assert memory.c.shape == (2, 8) and [name for name in vars(memory)] == ["c"]
    assert model.attention_paths == {} and not any(isinstance(m, regard.Attention) for m in model.modules())


def test_the_key_side_of_a_score_done_ahead_is_the_same_score():
    torch.manual_seed(0)
    query, annotations = torch.randn(2, 3, 4), torch.randn(2, 5, 6)
    additive = make_score("additive", 4, 6)
    assert isinstance(additive, PrecomputedAdditive)
    whole = Additive(4, 6)
    whole.load_state_dict(additive.state_dict())
    torch.testing.assert_close(additive(query, additive.keys(annotations)), whole(query, annotations))
    scaled = make_score("scaled_dot", 4, 6)
    assert isinstance(scaled, PrecomputedProjection)
    torch.testing.assert_close(
        scaled(query, scaled.keys(annotations)), ScaledDot()(query, annotations @ scaled.W.weight.T)
    )
    assert isinstance(make_score("scaled_dot", 4, 4), ScaledDot)


def test_maxout_takes_the_greater_of_each_pair():
    deep = DeepOutput(3, 2, 0.0)
    with torch.no_grad():
        deep.W.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1]]))
        nn.init.zeros_(deep.W.bias)
    assert deep(torch.tensor([2.0, 5.0]), torch.tensor([-3.0])).tolist() == [5.0, 3.0]


@pytest.mark.parametrize("name", ["bahdanau", "rnn"])
def test_begins_as_in_the_paper_when_asked(name):
    torch.manual_seed(0)
    model = TRANSLATORS[name].make(source_vocabulary=50, target_vocabulary=50, width=64, initial="paper")
    for path, p in model.named_parameters():
        if "weight_hh" in path:
            for gate in p.split(64):
                torch.testing.assert_close(gate @ gate.T, torch.eye(64), rtol=0, atol=1e-5)
        elif path.endswith(("score.W1.weight", "score.W2.weight")):
            assert p.std().item() == pytest.approx(0.001, rel=0.1)
        elif path.endswith("score.v.weight") or "bias" in path:
            assert not p.any()
        else:
            assert p.std().item() == pytest.approx(0.01, rel=0.1)
