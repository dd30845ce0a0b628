"""What runs do while they read: one text among others as one alone, translators and classifiers."""

import math

import pytest
import torch

from regard.analyses import head_roles, probe, probing_data, states_of, tokenize, weights_of
from regard.analyses.conllu import Sentence
from regard.core.errors import RunError, UnknownNameError
from regard.data import Classes, Tokenizer
from regard.data.text import DataError
from regard.models import TRANSLATORS
from regard.models.classifiers import CLASSIFIERS
from regard.tasks.classification import CLASSIFICATION, TextParts
from regard.tasks.classifier import Classifier
from regard.tasks.translation import TRANSLATION, Tokenizers
from regard.tasks.translator import Translator

TEXTS = ["a bb abab", "b", "", "abba ab bab a"]
TOKENIZER = Tokenizer.train(["a bb abab b abba ab bab"], "bpe", 266)
SIZES = {"width": 8, "heads": 2, "inner": 8, "layers": 2}


def translator(name="transformer", **settings):
    torch.manual_seed(0)
    n = len(TOKENIZER)
    model = TRANSLATORS[name].make(source_vocabulary=n, target_vocabulary=n, **settings)
    settings = TRANSLATION.resolve({"data": {"corpus": "copy"}})
    return Translator(model, Tokenizers(TOKENIZER, TOKENIZER), settings)


def classifier(**settings):
    torch.manual_seed(0)
    sizes = {"embedding": 8, "heads": 2, "inner": 8, "layers": 2}
    model = CLASSIFIERS["transformer_encoder"].make(
        vocabulary=len(TOKENIZER), classes=2, **(sizes | settings)
    )
    pairs = settings.get("pairs", False)
    settings = CLASSIFICATION.resolve({"data": {"corpus": "sentiment"}})
    return Classifier(model, TextParts(TOKENIZER, Classes(("no", "yes"), pairs)), settings)


SYSTEMS = {
    "translator": lambda: translator(**SIZES),
    "post-norm": lambda: translator(**SIZES, norm="post"),
    "classifier": classifier,
    "first": lambda: classifier(read="first"),
}
every_system = pytest.mark.parametrize("name", SYSTEMS)


@every_system
def test_weights_and_states_are_those_of_a_text_alone(name):
    system = SYSTEMS[name]()
    texts = tokenize(system.tokenizer, TEXTS)
    weights, states = dict(weights_of(system, texts)), dict(states_of(system, texts))
    assert set(weights) == set(states) == {0, 1, 3}  # of nothing, nothing
    for k, found in weights.items():
        n = len(texts[k].tokens)
        assert found.shape == (2, 2, n, n) and states[k].shape == (3, n, 8)
        ((_, alone),) = weights_of(system, [texts[k]])
        torch.testing.assert_close(found, alone, rtol=0, atol=1e-6)
        ((_, alone),) = states_of(system, [texts[k]])
        torch.testing.assert_close(states[k], alone, rtol=0, atol=1e-5)
        if name != "first":  # where the vector before the words has some of the weight
            torch.testing.assert_close(found.sum(-1), torch.ones(2, 2, n))


def test_the_states_are_what_the_layers_read_and_write():
    system = SYSTEMS["translator"]()
    (one,) = tokenize(TOKENIZER, ["abba ab"])
    ((_, states),) = states_of(system, [one])
    with torch.no_grad():
        x = system.model.source(torch.tensor([one.tokens]))
        torch.testing.assert_close(states[0], x[0])
        for k, layer in enumerate(system.model.encoder):
            x = layer(x, None)
            torch.testing.assert_close(states[k + 1], x[0])


def test_heads_of_a_run():
    system = SYSTEMS["translator"]()
    told = []
    found = head_roles(system, tokenize(TOKENIZER, TEXTS), None, told.append)
    assert [(head.layer, head.head) for head in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert told == [1, 2, 3]
    for head in found:
        assert set(head.scores) == {"positional", "rare words", "subwords"}
        assert all(0 <= score.score <= 1 for scores in head.scores.values() for score in scores)
    with pytest.raises(ValueError, match="no text to read"):
        head_roles(system, tokenize(TOKENIZER, [""]))


def sentence(*words):
    n = len(words)
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    tags = tuple("AB"[word.startswith("b")] for word in words)
    return Sentence(
        words, " ".join(words), tuple(spans), tags, ("_",) * n, ("dep",) * n, (-1,) + (0,) * (n - 1)
    )


@pytest.mark.slow
def test_layers_of_a_run_are_probed_each_against_a_control_task():
    system = SYSTEMS["translator"]()
    sentences = [sentence("a", "bb", "abab"), sentence("b"), sentence("abba", "ab", "bab", "a")] * 12
    words = probing_data(system, sentences, "upos")
    assert words.states.shape == (3, 96, 8) and words.names == ("A", "B")
    assert len(words.words) == 96 and words.words[:4] == ["a", "bb", "abab", "b"]
    told = []
    found = list(probe(words, hidden=0, listen=lambda layer, share: told.append((layer, share))))
    assert [one.layer for one in found] == [0, 1, 2] and told == sorted(told) and told[-1] == (2, 1.0)
    for one in found:
        assert one.real.uniform == 96.0 and one.control.labels == 96
        assert one.selectivity == pytest.approx(one.real.accuracy - one.control.accuracy)
    assert found[0].real.bits < 0.8 * 96  # the first letter is in the vector of the first token
    assert words.by_frequency < 110
    (last,) = list(probe(words, hidden=0, code="variational"))[-1:]
    assert math.isfinite(last.real.bits) and last.real.model_bits > 0


def test_what_cannot_be_read_is_one_sentence():
    with pytest.raises(RunError, match="has no layers of self-attention"):
        next(weights_of(translator("bahdanau"), tokenize(TOKENIZER, TEXTS)))
    with pytest.raises(RunError, match="reads pairs"):
        next(states_of(classifier(pairs=True), tokenize(TOKENIZER, TEXTS)))
    system = SYSTEMS["translator"]()
    with pytest.raises(UnknownNameError, match='no task "pos"'):
        probing_data(system, [sentence("a", "b")], "pos")
    with pytest.raises(DataError, match="xpos has nothing to learn"):
        probing_data(system, [sentence("a", "b")], "xpos")
    with pytest.raises(DataError, match="deprel has nothing to learn"):
        probing_data(system, [sentence("a", "b")], "deprel")
    with pytest.raises(UnknownNameError, match='no code "mdl"'):
        next(probe(probing_data(system, [sentence("a", "b")], "upos"), code="mdl"))
