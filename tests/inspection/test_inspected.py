"""Masking, deleting and answering, against slow definitions of them."""

from dataclasses import replace
from time import perf_counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inspection.tiny_runs import CLASSIFIERS, COPIED, REVIEW, TRANSLATORS, second_of, system_of
from regard.core.tokens import BOS, EOS
from regard.inspection import InvalidRequest, inspect, self_attention
from regard.inspection.inspected import FIRST, answer_prepared, prepare
from regard.tasks.system import erase

every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
rows = st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0]), min_size=1, max_size=5)


def translated(name, words=(), how="none", text=COPIED):
    return inspect(system_of(name), text, words=words, how=how, name=name)


def classified(name, how="none", words=(3,)):
    system = system_of(name)
    return inspect(system, REVIEW, words=words, how=how, second=second_of(system), name=name)


@given(row=rows, data=st.data())
def test_erasing_gives_what_was_erased_to_the_rest_in_proportion(row, data):
    keys = data.draw(st.sets(st.integers(0, len(row) - 1)))
    total, rest = sum(row), sum(w for j, w in enumerate(row) if j not in keys)
    wanted = [0.0 if j in keys or rest == 0 else w * total / rest for j, w in enumerate(row)]
    found = erase(torch.tensor([[row]], dtype=torch.float64), sorted(keys))
    assert found.flatten().tolist() == pytest.approx(wanted)


def greedy_with_mask(system, text, hidden):
    """Greedy decoding where the decoder may not attend to the last `hidden` subwords, by a mask instead."""
    model = system.model
    tokens = system.source_tokenizer.encode(text)
    limit = int(system.decoding.limits.of(torch.tensor([len(tokens)])))
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
    return system.target_tokenizer.decode(found)


def _best(logits):
    logits = logits.clone()
    logits[[0, BOS]] = float("-inf")  # padding and beginning are never written
    return int(logits.argmax())


@pytest.mark.parametrize("text", [COPIED, "fe fu gi", "ba di do fu ga ge"])
def test_masking_under_softmax_is_a_mask(text):
    system, words = system_of("heads"), text.split()
    found = translated("heads", [len(words) - 1], "mask", text)
    assert found.said.split() == greedy_with_mask(system, text, len(words[-1])).split()
    assert translated("heads", text=text).said.split() == greedy_with_mask(system, text, 0).split()
    for layer in found.weights:
        # the space before the last word is a subword of the word before it
        assert layer[:, :, -1].eq(0).all()
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


@pytest.mark.parametrize("name", ["heads", "sparse"])
def test_all_subwords_of_the_words_are_masked_and_nothing_else(name):
    whole, part = translated(name), translated(name, [1, 2], "mask")
    assert whole.source == part.source == COPIED.split()
    for layer in part.weights:
        assert layer[:, :, [1, 2]].eq(0).all()
        assert (layer[:, :, [0, 3]].sum(-1) - 1).abs().max() < 1e-5 or name == "sparse"
    assert all(layer[:, :, [1, 2]].gt(0).any() for layer in whole.weights)


@pytest.mark.parametrize("name", ["heads", "sparse", "rnn"])
def test_a_translator_answers_a_text_with_a_word_deleted_as_any_other_text(name):
    found = translated(name, [1], "delete")
    other = translated(name, text="du bo ge")
    assert (found.said, found.log_prob) == (other.said, other.log_prob)
    assert found.words == COPIED.split() and found.source == ["du", "bo", "ge"] and found.columns == [0, 2, 3]
    for one, two in zip(found.weights, other.weights, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", ["heads", "sparse"])
def test_rows_are_the_words_of_the_answer_and_inspecting_changes_nothing(name):
    system, found = system_of(name), translated(name)
    said = system.translate([COPIED])[0]
    assert (found.said, found.log_prob, found.probabilities) == (said.text, said.log_prob, {})
    assert found.rows == said.text.split() and found.title == said.text
    assert len(found.weights) == len(system.layers)
    for layer in found.weights:
        assert layer.shape == (system.heads, len(found.rows), 4)
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


def test_deleting_everything_leaves_nothing():
    found = translated("heads", [0, 1, 2, 3], "delete")
    assert (found.said, found.weights, found.source, found.log_prob) == ("", [], [], None)


def test_masking_everything_is_possible():
    found = translated("heads", [0, 1, 2, 3], "mask")
    assert all(layer.eq(0).all() for layer in found.weights)


@every_classifier
def test_inspecting_a_classifier_changes_nothing(name):
    system = system_of(name)
    (said,) = system.classify([system.input(REVIEW, second_of(system))])
    found = classified(name)
    assert found.probabilities == said.probabilities and found.said == said.label
    assert found.title == f"predicted: {said.label} (probability {said.probabilities[said.label]:.3f})"
    (weights,) = found.weights
    assert found.source == REVIEW.split() and weights.shape == (system.heads, 1, len(found.source))
    torch.testing.assert_close(weights.sum((-2, -1)), said.weights.sum(-1))
    if name != "layers":  # there words have several subwords
        torch.testing.assert_close(weights.squeeze(-2), said.weights)
    assert system.heads == {"queries": 3, "first": 2, "pairs_queries": 2}.get(name, 1)


@pytest.mark.parametrize("words", [[3], [0, 4, 9]])
def test_masking_a_classifier_under_softmax_is_a_mask(words):
    system = system_of("bilstm")
    model, tokens = system.model, system.tokenizer.encode(REVIEW)
    with torch.no_grad():
        h = model.states(model.embed(torch.tensor([tokens])), torch.tensor([len(tokens)]))
        theta = model.attention.score(model.query.unsqueeze(0), h)[0, 0]
        theta[words] = float("-inf")
        p = model.read(theta.softmax(-1) @ h[0]).double().softmax(-1)
    found = classified("bilstm", "mask", words)
    assert list(found.probabilities.values()) == pytest.approx(p.tolist(), abs=1e-6)
    torch.testing.assert_close(found.matrix()[0], theta.softmax(-1))


@every_classifier
def test_masked_words_have_no_weight_and_the_others_keep_the_sum(name):
    whole, part = classified(name).weights[0][:, 0], classified(name, "mask").weights[0][:, 0]
    assert part[:, 3].eq(0).all() and whole[:, 3].gt(0).all()
    kept = [j for j in range(part.shape[-1]) if j != 3]
    if name != "first":  # there the first position, which is no word, gets a share, too
        torch.testing.assert_close(part[:, kept].sum(-1), whole.sum(-1))
    assert classified(name, "mask").probabilities != classified(name).probabilities


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name.startswith("pairs")])
@pytest.mark.parametrize("second", ["bert", "anna good bert bad . bert"])
def test_masking_does_not_reach_into_the_second_text(name, second):
    system, text = system_of(name), "anna good bert bad ."
    tokens, others = (torch.tensor([system.tokenizer.encode(one)]) for one in (text, second))
    lengths, other_lengths = (torch.tensor([one.shape[1]]) for one in (tokens, others))
    model = system.model
    with torch.no_grad():
        condition = model.condition(tokens, lengths, others, other_lengths)
        with system.masking([1, 3]):
            wanted = model.from_embedded(model.embed(tokens), lengths, condition).double().softmax(-1)[0]
    found = inspect(system, text, words=[1, 3], how="mask", second=second)
    assert list(found.probabilities.values()) == pytest.approx(wanted.tolist(), abs=1e-9)
    assert found.weights[0][..., [1, 3]].eq(0).all() and found.weights[0][..., [0, 2, 4]].gt(0).all()


@every_classifier
def test_a_classifier_answers_a_text_with_a_word_deleted_as_any_other_text(name):
    system, every = system_of(name), range(len(REVIEW.split()))
    found = classified(name, "delete")
    rest = " ".join(word for i, word in enumerate(REVIEW.split()) if i != 3)
    other = inspect(system, rest, second=second_of(system))
    assert found.probabilities == other.probabilities and torch.equal(found.weights[0], other.weights[0])
    assert found.columns == [i for i in every if i != 3]
    nothing = classified(name, "delete", every)
    assert nothing.probabilities == {} and nothing.answer is None and nothing.weights == []


@pytest.mark.parametrize("name", ["layers", "first"])
def test_words_attend_to_each_other_in_layers(name):
    found, words = self_attention(classified(name))
    n = len(REVIEW.split()) + (name == "first")
    assert words == ([FIRST] if name == "first" else []) + REVIEW.split()
    for layer in found:
        assert layer.shape == (2, n, n)
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, n))
    with pytest.raises(InvalidRequest, match="no self-attention"):
        self_attention(classified("bilstm"))


def test_what_cannot_be_asked_is_said():
    with pytest.raises(InvalidRequest, match="words must be from 0 to 3; got 4"):
        translated("heads", [4], "delete")
    with pytest.raises(InvalidRequest, match="rnn has no attention to the text"):
        translated("rnn", [0], "mask")
    with pytest.raises(InvalidRequest, match="11 tokens; at most 10"):
        inspect(system_of("heads"), COPIED, longest=10)
    with pytest.raises(InvalidRequest, match="takes one text; a second came"):
        inspect(system_of("heads"), COPIED, second="du")
    with pytest.raises(InvalidRequest, match="takes two texts"):
        inspect(system_of("pairs"), REVIEW, second="  ")


@pytest.mark.parametrize("how", ["none", "mask", "delete"])
def test_long_white_space_takes_no_time(how):
    """A text is refused by its characters before any work; below that bound work is linear."""
    started = perf_counter()
    with pytest.raises(InvalidRequest, match="40,004 characters; at most 16,384"):
        inspect(system_of("heads"), "a" + 40_000 * " " + "b c", words=[2], how=how, longest=512)
    with pytest.raises(InvalidRequest, match="the second text has 20,000 characters"):
        inspect(system_of("pairs"), "a", second=20_000 * "b", longest=512)
    assert perf_counter() - started < 0.1
    found = inspect(system_of("bilstm"), "a" + 16_000 * " " + "b c", words=[2], how=how, longest=512)
    assert found.words == ["a", "b", "c"] and perf_counter() - started < 2


@pytest.mark.parametrize("name", [*TRANSLATORS, *CLASSIFIERS])
def test_a_batch_is_answered_as_each_text_by_itself(name):
    system = system_of(name)
    text = COPIED if name in TRANSLATORS else REVIEW
    texts = [(text, (), "none"), ("du" if name in TRANSLATORS else "film", (), "none"), ("", (), "none")]
    texts += [(f"{text} . {text}", (1, 2), "delete"), (text, (0,), "delete")]
    texts += [(text, (1,), "mask")] if system.masked_paths else []
    asked = [prepare(system, one, second_of(system), words, how, name, None) for one, words, how in texts]
    for prepared, found in zip(asked, answer_prepared(asked), strict=True):
        (wanted,) = answer_prepared([prepared])
        assert (found.said, found.rows, found.columns) == (wanted.said, wanted.rows, wanted.columns)
        assert found.probabilities == pytest.approx(wanted.probabilities, abs=1e-6)
        assert found.log_prob == (wanted.log_prob and pytest.approx(wanted.log_prob, abs=1e-5))
        assert len(found.weights) == len(wanted.weights)
        for one, other in zip(found.weights, wanted.weights, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_what_one_text_of_a_batch_cannot_does_not_touch_the_others(monkeypatch):
    system = system_of("bilstm")
    classify = system.classify

    def strict(texts):
        if "film" in texts:
            raise ValueError("no films.")
        return classify(texts)

    monkeypatch.setattr(system, "classify", strict)
    asked = [prepare(system, text, None, (), "none", "it", None) for text in ("a dull town", "film", "river")]
    one, refused, other = answer_prepared(asked)
    assert isinstance(refused, InvalidRequest) and str(refused) == "it cannot read this: no films."
    assert one.said == classify(["a dull town"])[0].said and other.said == classify(["river"])[0].said
