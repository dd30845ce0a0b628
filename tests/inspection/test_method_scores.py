"""Scores of words by every explanation, of the answer as it is and with words masked or deleted."""

import pytest
import torch

from inspection.test_inspected import classified
from inspection.tiny_runs import CLASSIFIERS, REVIEW, second_of, system_of
from regard.data.padding import padded
from regard.data.segments import by_word
from regard.explanations import METHODS, explain
from regard.inspection import InvalidRequest, inspect, word_scores
from regard.inspection.method_scores import methods


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("method", METHODS)
def test_words_are_scored_by_every_explanation(name, method):
    system = system_of(name)
    second, tokens = second_of(system), torch.tensor([system.tokenizer.encode(REVIEW)])
    options = {} if second is None else {"second": padded([system.tokenizer.encode(second)], system.device)}
    scores = explain(system.model, tokens, method=method, **options)
    wanted = by_word(scores, system.segments(REVIEW).word_of, [0])[0]
    torch.testing.assert_close(word_scores(classified(name), method), wanted, atol=1e-5, rtol=1e-4)


def test_which_methods_a_system_has_follows_from_its_case():
    assert (
        set(methods(system_of("bilstm"))) == set(METHODS) and methods(system_of("bilstm"))[0] == "attention"
    )
    assert set(methods(system_of("pairs"))) == set(METHODS)
    assert methods(system_of("heads")) == methods(system_of("rnn")) == []


def test_an_explanation_is_of_the_model_with_the_word_masked():
    found = classified("bilstm", "mask")
    for method in ("attention", "rollout", "norms", "attention_x_gradient"):
        assert word_scores(found, method)[3] == 0
    assert word_scores(found, "gradient")[3] > 0  # the states of its neighbours still carry it
    assert not torch.equal(word_scores(found, "gradient"), word_scores(classified("bilstm"), "gradient"))
    with pytest.raises(InvalidRequest, match="leave_one_out, which deletes words, has no scores"):
        word_scores(found, "leave_one_out")
    with pytest.raises(InvalidRequest, match="a model of two texts has no scores"):
        word_scores(classified("pairs", "mask"), "gradient")


@pytest.mark.parametrize("method", ["gradient", "gradient_x_input", "integrated_gradients"])
def test_masking_a_whole_sentence_still_has_gradients(method):
    sentence = list(range(5))  # all of the first
    assert classified("sentences", "mask", sentence).matrix()[0, :5].eq(0).all()
    assert word_scores(classified("sentences", "mask", sentence), method)[5:].abs().gt(0).all()
    every = list(range(len(REVIEW.split())))
    assert word_scores(classified("sentences", "mask", every), method).eq(0).all()


def test_a_method_without_scores_says_why():
    with pytest.raises(InvalidRequest, match="no score by leave_one_out: .*nothing is left without it"):
        word_scores(inspect(system_of("bilstm"), "exquisite"), "leave_one_out")
