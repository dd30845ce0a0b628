"""What each state has read, what the penalty of structured self-attention is, and half precision."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from models.test_every_classifier import LENGTHS, TOKENS, VARIANTS, make
from regard.data import Batches, Classes, Encoded, Labelled, Tokenizer
from regard.models.classifiers.self_attentive import redundancy
from regard.runs.fit import TaskProblem
from regard.tasks.classification import CLASSIFICATION, TextParts, texts_of


def readers(variant, place):
    """Which states of the first text change with the word at a place."""
    model = make(variant)
    embedded = model.embed(TOKENS[:1]).detach()
    changed = embedded.clone()
    changed[0, place] += 1
    more = [model.condition(TOKENS[:1], LENGTHS[:1])] if "hierarchical" in variant else []
    states = [model.states(words, LENGTHS[:1], *more)[0] for words in (embedded, changed)]
    return (states[0] != states[1]).any(-1).nonzero().flatten().tolist()


def test_states_have_read_what_their_model_says():
    assert readers("attentive_mlp", 3) == [3]
    assert readers("attentive_cnn", 3) == [2, 3, 4]
    assert readers("attentive_bilstm", 3) == list(range(8))
    assert readers("transformer_encoder", 3) == list(range(8))
    assert readers("self_attentive", 0) == list(range(8))
    assert readers("hierarchical", 3) == [3, 4, 5]  # 6 7 4 | 8 5 4 | 9 10


def test_several_ends_end_one_sentence():
    model = make("hierarchical")
    assert model.condition(TOKENS, LENGTHS).tolist() == [
        [0, 0, 0, 1, 1, 1, 2, 2],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1, 1],
    ]
    with pytest.raises(ValueError, match="where sentences end"):
        model.from_embedded(model.embed(TOKENS), LENGTHS)


def test_a_sentence_is_looked_over_by_its_own_row():
    model = make("hierarchical")
    with regard.record(model, model.attention_paths["reader"]) as seen:
        model(TOKENS, LENGTHS)
    words = seen["word_attention"][0].weights[0]
    assert (words > 0).long().tolist() == [
        [1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 1],
    ]


def test_structured_self_attention_is_the_formula():
    model = make("self_attentive")
    H = model.states(model.embed(TOKENS), LENGTHS)
    with regard.record(model, model.attention_paths["reader"]) as seen:
        logits = model(TOKENS, LENGTHS)
    for k, n in enumerate(LENGTHS.tolist()):
        A = torch.softmax(model.W2 @ torch.tanh(model.W1.weight @ H[k, :n].mT), -1)
        torch.testing.assert_close(model.over_words(seen)[k, :, :n], A)
        wanted = model.read(torch.relu(model.inner((A @ H[k, :n]).flatten())))
        torch.testing.assert_close(logits[k], wanted)


@given(rows=st.integers(1, 4), n=st.integers(1, 6), seed=st.integers(0, 999))
def test_the_penalty_is_one_norm_in_three_forms(rows, n, seed):
    A = torch.randn(rows, n, generator=torch.Generator().manual_seed(seed)).double().softmax(-1)
    D = A @ A.mT - torch.eye(rows)
    entries = sum(float(x) ** 2 for row in D for x in row)
    assert redundancy(A).item() == pytest.approx(entries)
    assert torch.trace(D @ D.mT).item() == pytest.approx(entries)
    assert torch.linalg.svdvals(D).square().sum().item() == pytest.approx(entries)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_diagonal_is_1_only_for_one_hot_rows(n):
    uniform, one_hot = torch.full((2, n), 1 / n), torch.eye(n)[:2]
    torch.testing.assert_close((uniform @ uniform.mT).diagonal(), torch.full((2,), 1 / n))
    torch.testing.assert_close((uniform @ uniform.mT)[0, 1], torch.tensor(1 / n))  # of two equal rows, not 1
    assert redundancy(one_hot) == 0
    assert redundancy(uniform) == pytest.approx(2 * (1 - 1 / n) ** 2 + 2 / n**2)
    between = 0.9 * one_hot + 0.1 * uniform
    assert ((between @ between.mT).diagonal() < 1).all()


def test_the_loss_has_the_penalty_of_every_text():
    wanted = torch.tensor([0, 1, 2])
    with_, without = make("self_attentive", penalty=0.5), make("self_attentive", penalty=0.0)
    without.load_state_dict(with_.state_dict())
    with regard.record(with_, with_.attention_paths["reader"]) as seen:
        with_(TOKENS, LENGTHS)
    more = with_.loss(wanted, TOKENS, LENGTHS) - without.loss(wanted, TOKENS, LENGTHS)
    torch.testing.assert_close(more, 0.5 * redundancy(with_.over_words(seen)).sum())


@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_trains(variant):
    model = make(variant).float().train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(torch.tensor([0, 1, 2]), TOKENS, LENGTHS)
    loss.backward()
    assert loss.isfinite() and model.words.E.weight.grad.isfinite().all()


def test_batches_of_pairs_are_texts_and_classes(tmp_path):
    texts = [Labelled("a b c", "y", "b c"), Labelled("b", "x", "a"), Labelled("c a", "z", "c c c")]
    tokenizer = Tokenizer.train(["a b c"], "word", 7)
    classes = Classes.of(texts)
    settings = CLASSIFICATION.resolve({"task": "classification", "data": {"corpus": "sentiment"}})
    parts = TextParts(tokenizer, classes)
    rows = CLASSIFICATION.encode(settings, parts, texts)
    encoded = Encoded.make(rows, CLASSIFICATION.fields(settings, parts), tmp_path / "e")
    (batch,) = Batches(encoded, 100).epoch(0)
    tokens, lengths, second, second_lengths = texts_of(batch)
    for row, index in enumerate(batch.indices.tolist()):
        assert tokens[row, : lengths[row]].tolist() == tokenizer.encode(texts[index].text)
        assert second[row, : second_lengths[row]].tolist() == tokenizer.encode(texts[index].second)
        assert classes.names[batch["label"][row]] == texts[index].label
    problem = TaskProblem(CLASSIFICATION, settings, Batches(encoded, 100), [batch], "cpu")
    model = make("attentive_mlp", pairs=True)
    loss, count = problem.loss(model, batch)
    assert count == 3 and loss.item() == pytest.approx(3 * problem.validate(model)["loss"])
    nothing, none = problem.loss(model, replace(batch, idle=True))
    nothing.backward()
    assert (nothing.item(), none) == (0, 0) and not model.words.E.weight.grad.any()
