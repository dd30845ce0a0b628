"""Forced decoding of every model that attends: words of any white space, subwords, batches, and its heads."""

import warnings

import numpy as np
import pytest
import torch

import regard
from regard.alignment import Links
from regard.alignment.choose import Head
from regard.alignment.forced_alignment import align, forced
from regard.core.errors import RunError
from regard.data import Tokenizer
from regard.data.segments import by_word, segments
from regard.models import TRANSLATORS
from regard.tasks.translation import TRANSLATION, Tokenizers
from regard.tasks.translator import Translation, Translator
from tasks.translators import PAIRS


def system(name, kind="bpe", **settings):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the text has too few pieces
        tokenizer = Tokenizer.train([text for pair in PAIRS for text in pair], kind, 280)
    sizes = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
    model = TRANSLATORS[name].make(**sizes, width=16, layers=2, dropout=0.0, **settings)
    return Translator(
        model, Tokenizers(tokenizer, tokenizer), TRANSLATION.resolve({"data": {"corpus": "copy"}})
    )


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
@pytest.mark.parametrize("name", ["transformer", "bahdanau", "luong"])
def test_weights_are_between_the_words_of_each_pair(name, kind):
    translator = system(name, kind)
    found = dict(forced(translator, PAIRS))
    assert sorted(found) == [0, 1, 2]
    for k, by_head in found.items():
        source, target = (" ".join(text.split()) for text in PAIRS[k])
        both = [segments(translator.source_tokenizer, text) for text in (source, target)]
        (ours, theirs), words = (one.tokens for one in both), [one.word_of for one in both]
        answer = Translation(source, target, 0.0, 0.0, ours, theirs, translator)
        for layer, attended in enumerate(answer.attended.values()):
            weights = attended.weights[0].reshape(-1, len(theirs) + 1, len(ours))
            mean = by_head[Head(layer)]
            assert mean.shape == (len(target.split()) + 1, len(source.split()))
            np.testing.assert_allclose(mean.sum(-1), 1, atol=1e-5)
            np.testing.assert_allclose(mean[:-1], by_word(weights.mean(0), *words), atol=1e-5)
            np.testing.assert_allclose(
                mean[-1], by_word(weights.mean(0)[-1:], words[0], [0])[0], atol=1e-5
            )  # the end of the target
            for head in range(len(weights) if len(weights) > 1 else 0):
                alone = by_word(weights[head], *words)
                np.testing.assert_allclose(by_head[Head(layer, head)][:-1], alone, atol=1e-5)


def test_words_are_what_white_space_separates_in_every_language():
    found = dict(forced(system("luong", "character"), [("我 喜欢 猫", "I like cats")]))
    assert found[0][Head(0)].shape == (4, 3)


def test_one_head_may_be_asked_for():
    translator = system("transformer", heads=2)
    every, one = dict(forced(translator, PAIRS)), dict(forced(translator, PAIRS, Head(1, 1)))
    assert list(one[0]) == [Head(1, 1)]
    np.testing.assert_allclose(one[0][Head(1, 1)], every[0][Head(1, 1)], atol=1e-6)
    single = system("bahdanau")
    assert (dict(forced(single, PAIRS, Head(0, 0)))[0][Head(0, 0)] > 0).all()
    with pytest.raises(RunError, match="layer 3 is not there: layers 1 to 2 attend to the source"):
        list(forced(translator, PAIRS, Head(2)))
    with pytest.raises(RunError, match="layer 1, head 3 is not there: this layer has heads 1 to 2"):
        list(forced(translator, PAIRS, Head(0, 2)))
    with pytest.raises(RunError, match="no attention to its source"):
        list(forced(system("rnn"), PAIRS))


def test_a_system_aligns():
    assert regard.load.__module__ == "regard.runs.folder"
    translator = system("luong")
    found = translator.align(PAIRS, method="argmax")
    assert found.links == align(translator, PAIRS, method="argmax").links
    assert found.links[2].sure == {(0, 0), (0, 1)}
    assert found.links[3:] == [Links.of([]), Links.of([])]
    assert translator.align(PAIRS[3:]).remarks == ["there are no words to align"]
    assert len(translator.align([]).links) == 0
    both = translator.align(PAIRS, reverse=system("bahdanau"), head=Head(0))
    assert both.remarks[1].startswith("reverse: layer 1, ") and both.rule.symmetrise in both.remarks[2]
    gold = [Links.of([(1, 1)])]
    assert "chosen on 1 sentences with gold links" in translator.align(PAIRS, gold=gold).remarks[-1]
    none = [Links.of([])]
    assert "an aligner" in translator.align(PAIRS[3:] + PAIRS, gold=none).remarks[-1]  # links of no words
    with pytest.raises(ValueError, match="gold has links of 6 pairs, and there are 5"):
        translator.align(PAIRS, gold=gold * 6)
