"""Erasing, taking away and looking, against slow definitions of them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.tokens import BOS, EOS
from regard.data.segments import segments
from regard.serve.answer import CELLS, answer
from regard.serve.erasing import erase
from regard.serve.looked import CannotAsk, look

TEXT = "du ga bo ge"
rows = st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0]), min_size=1, max_size=5)


@given(row=rows, data=st.data())
def test_erasing_gives_what_was_erased_to_the_rest_in_proportion(row, data):
    keys = data.draw(st.sets(st.integers(0, len(row) - 1)))
    total, rest = sum(row), sum(w for j, w in enumerate(row) if j not in keys)
    wanted = [0.0 if j in keys or rest == 0 else w * total / rest for j, w in enumerate(row)]
    found = erase(torch.tensor([[row]], dtype=torch.float64), sorted(keys))
    assert found.flatten().tolist() == pytest.approx(wanted)


def by_hand(run, text, hidden):
    """Greedy decoding where the decoder may not look at the last `hidden` pieces, by a mask instead."""
    model = run.system.model
    tokens = run.system.source_tokenizer.encode(text)
    limit = int(run.system.decoding.limits.of(torch.tensor([len(tokens)])))
    with torch.inference_mode():
        memory = model.encode(torch.tensor([tokens]), torch.tensor([len(tokens)]))
        memory = replace(memory, lengths=torch.tensor([len(tokens) - hidden]), padded=True)
        state, last, found = model.start(memory), BOS, []
        while len(found) < limit - 1:  # the end counts
            out, state = model.step(torch.tensor([last]), state, memory)
            last = _best(model.logits(out)[0])
            if last == EOS:
                break
            found.append(last)
    return run.system.target_tokenizer.decode(found)


def _best(logits):
    logits = logits.clone()
    logits[[0, BOS]] = float("-inf")  # padding and beginning are never written
    return int(logits.argmax())


@pytest.mark.parametrize("text", [TEXT, "fe fu gi", "ba di do fu ga ge"])
def test_not_looking_under_softmax_is_a_mask(runs, text):
    run, words = runs["heads"], text.split()
    found = look(run, text, [len(words) - 1], "do_not_look")
    assert found.answer.split() == by_hand(run, text, len(words[-1])).split()
    assert look(run, text).answer.split() == by_hand(run, text, 0).split()
    for layer in found.weights:
        # the space before the last word is a piece of the word before it
        assert layer[:, :, -1].eq(0).all()
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


@pytest.mark.parametrize("name", ["heads", "sparse"])
def test_all_pieces_of_the_words_are_erased_and_nothing_else(runs, name):
    run = runs[name]
    whole, part = look(run, TEXT), look(run, TEXT, [1, 2], "do_not_look")
    assert whole.source == part.source == TEXT.split()
    for layer in part.weights:
        assert layer[:, :, [1, 2]].eq(0).all()
        assert (layer[:, :, [0, 3]].sum(-1) - 1).abs().max() < 1e-5 or name == "sparse"
    assert all(layer[:, :, [1, 2]].gt(0).any() for layer in whole.weights)


@pytest.mark.parametrize("name", ["heads", "sparse", "rnn"])
def test_taking_away_is_another_sentence(runs, name):
    found = look(runs[name], TEXT, [1], "take_away")
    other = look(runs[name], segments(runs[name].system.source_tokenizer, TEXT).without({1}))
    assert (found.answer, found.log_prob) == (other.answer, other.log_prob)
    assert found.words == TEXT.split() and found.source == ["du", "bo", "ge"] and found.places == [0, 2, 3]
    for one, two in zip(found.weights, other.weights, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", ["heads", "sparse"])
def test_rows_are_the_words_of_the_answer_and_looking_changes_nothing(runs, name):
    run = runs[name]
    found = look(run, TEXT)
    said = run.system.translate([TEXT])[0]
    assert (found.answer, found.log_prob) == (said.text, said.log_prob)
    assert found.answer_words == said.text.split()
    assert len(found.weights) == len(run.cross)
    for layer in found.weights:
        assert layer.shape == (run.heads, len(found.answer_words), 4)
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


def test_taking_everything_away_leaves_nothing(runs):
    found = look(runs["heads"], TEXT, [0, 1, 2, 3], "take_away")
    assert (found.answer, found.weights, found.source) == ("", [], [])
    assert answer(found, "take_away")["map"] is None


def test_not_looking_at_anything_is_possible(runs):
    found = look(runs["heads"], TEXT, [0, 1, 2, 3], "do_not_look")
    assert all(layer.eq(0).all() for layer in found.weights)


def test_what_cannot_be_asked_is_said(runs):
    with pytest.raises(CannotAsk, match="words must be from 0 to 3.*got 4"):
        look(runs["heads"], TEXT, [4], "take_away")
    with pytest.raises(CannotAsk, match="rnn has no attention"):
        look(runs["rnn"], TEXT, [0], "do_not_look")
    with pytest.raises(CannotAsk, match="11 tokens; at most 10"):
        look(runs["heads"], TEXT, longest=10)
    with pytest.raises(CannotAsk, match="layer of heads must be from 0 to 1; got 2"):
        answer(look(runs["heads"], TEXT), "as_it_is", layer=2)


def test_all_maps_come_along_where_there_is_room(runs, monkeypatch):
    looked = look(runs["heads"], TEXT)
    found = answer(looked, "as_it_is")
    assert [(m["layer"], m["head"]) for m in found["map"]["maps"]] == [
        (layer, head) for layer in (0, 1) for head in (None, 0, 1)
    ]
    assert found["whole"] and len(found["words"]) * len(found["answer_words"]) * 6 <= CELLS
    mean = torch.tensor(found["map"]["maps"][0]["weights"])
    torch.testing.assert_close(mean, looked.weights[0].sum(0) / 2, atol=1e-4, rtol=1e-4)
    monkeypatch.setattr("regard.serve.answer.CELLS", 4)
    one = answer(looked, "as_it_is", layer=0, head=1)
    assert [(m["layer"], m["head"]) for m in one["map"]["maps"]] == [(0, 1)] and not one["whole"]


def test_captions_name_layer_head_score_and_map(runs):
    maps = answer(look(runs["heads"], TEXT), "as_it_is")["map"]["maps"]
    for words in ("layer 2 of 2", "head 1 of 2", "decoder.1.cross", "score scaled_dot", "map softmax"):
        assert words in maps[4]["caption"]
    assert "mean of 2 heads" in maps[0]["caption"]
    changed = answer(look(runs["heads"], TEXT, [0], "do_not_look"), "do_not_look")["change"]
    assert (
        "decoder.0.cross, decoder.1.cross" in changed and "“du” is 0" in changed and "renormalised" in changed
    )
