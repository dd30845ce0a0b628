"""C34: a model that can copy writes words it has never seen.

Sentences of 3 to 10 words are reversed (G2); 20 words are in the vocabulary, and 30 % of the words of each
sentence are not: names made of three syllables, in training and in the test different ones. To the model they
are all UNK. A word is right if it is the likeliest of all, given the right ones before.
"""

from itertools import islice
from random import Random

import pytest
import torch

from claims.experiment import FIRST, batch_of, held, over_seeds, read_real, report, train
from regard.core.tokens import UNK
from regard.data.copying import numbered, numbered_like
from regard.data.corpora import reverse
from regard.data.tokenizer import Tokenizer
from regard.models import TRANSLATORS
from regard.tasks.translation import real

UNSEEN = 0.3
LONGEST = 10
MODELS_THAT_COPY = {
    "bahdanau": {"width": 64},
    "luong": {"width": 64},
    "transformer": {"width": 64, "heads": 4, "inner": 128, "layers": 2},
}
SYLLABLES = [c + v for c in "hjqwxy" for v in "aeiou"]  # none of them is in the words of the toy


def sentences(seed, split):
    """Words of a sentence, of which some are names; those of the test end in -n, of training in -s."""
    chance = Random(f"{seed} {split}")
    for pair in reverse(seed=seed, split=split, longest=LONGEST):
        yield [
            word if chance.random() >= UNSEEN else "".join(chance.choices(SYLLABLES, k=3)) + split[-1]
            for word in pair.source.split()
        ]


@pytest.fixture(scope="module")
def tokenizer():
    known = [pair.source for pair in islice(reverse(), 200)]
    found = Tokenizer.train(known, "word", FIRST + 20)
    assert len(found) == FIRST + 20
    return found


def batch(tokenizer, some, copying=True):
    """Sentences and their reversals; without copying all names are UNK."""
    source = numbered(tokenizer, [" ".join(words) for words in some])
    unknown = [one.unknown for one in source]
    target = numbered_like(tokenizer, [" ".join(words[::-1]) for words in some], unknown)
    sides = [one.ids for one in source], target
    if not copying:
        sides = [[[t if t < len(tokenizer) else UNK for t in ids] for ids in side] for side in sides]
    return batch_of(*([torch.tensor(ids) for ids in side] for side in sides))


def batches(tokenizer, seed, copying):
    stream = sentences(seed, "train")
    while True:
        some = sorted(islice(stream, 16 * 64), key=len)
        for k in Random(seed).sample(range(16), 16):
            yield batch(tokenizer, some[k * 64 : (k + 1) * 64], copying)


def fitted(tokenizer, name, copy, seed, steps, rate=3e-3):
    torch.manual_seed(seed)
    size = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
    model = TRANSLATORS[name].make(**size, **MODELS_THAT_COPY[name], dropout=0.0, copy=copy)

    def loss(model, some):
        hidden, wanted = real(model, some)
        return model.loss(hidden, wanted) / len(wanted)

    train(model, batches(tokenizer, seed, copy != "no"), steps, rate, loss=loss)
    return model


@torch.inference_mode()
def right(tokenizer, model):
    """The shares of unseen and of known words that are right; UNK is not the word that was wanted."""
    some = list(islice(sentences(0, "test"), 500))
    truth = batch(tokenizer, some)
    logits, _ = read_real(model.eval(), batch(tokenizer, some, model.copying is not None))
    wanted = truth["target"][truth["target"] != 0]
    found, unseen = logits.argmax(-1) == wanted, wanted >= len(tokenizer)
    return {"unseen": found[unseen].float().mean().item(), "known": found[~unseen].float().mean().item()}


def test_names_of_the_test_are_not_in_training(tokenizer):
    train_names, test_names = (
        {w for words in islice(sentences(0, split), 2000) for w in words if tokenizer.encode(w) == [UNK]}
        for split in ("train", "test")
    )
    assert len(train_names) > 2000
    assert len(test_names) > 2000
    assert not train_names & test_names


def test_c34_one_seed(tokenizer):
    found = right(tokenizer, fitted(tokenizer, "bahdanau", "gate", 0, 200))
    assert found["unseen"] >= 0.9
    assert right(tokenizer, fitted(tokenizer, "bahdanau", "no", 0, 10))["unseen"] <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("copy", ["gate", "sentinel", "no"])
@pytest.mark.parametrize("name", MODELS_THAT_COPY)
def test_c34_unseen_words_are_copied(tokenizer, name, copy):
    found = over_seeds(lambda seed: right(tokenizer, fitted(tokenizer, name, copy, seed, 600)))
    report(f"C34 {name}, {copy}", found)
    assert held(found["unseen"], 0.9) if copy != "no" else held(-found["unseen"], -0.05)
    assert held(found["known"], 0.9)
