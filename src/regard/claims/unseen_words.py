"""C34: a model that can copy writes words it has never seen.

Sentences of 3 to 10 words are reversed; 20 words are in the vocabulary, and 30 % of the words of each
sentence are not: names made of three syllables, in training and in the test different ones. To the model they
are all UNK. A word is right if it is the likeliest of all, given the right ones before.
"""

from collections.abc import Iterator
from itertools import islice, product
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import FIRST, batch_of, read_real, train, translator
from regard.core.tokens import UNK
from regard.data import Batch, Tokenizer
from regard.data.copying import numbered, numbered_like
from regard.data.corpora import reverse
from regard.data.corpora.split import Split
from regard.tasks.translation import real

UNSEEN, LONGEST, SIZE = 0.3, 10, 64
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"width": 64},
    "luong": {"width": 64},
    "transformer": {"width": 64, "heads": 4, "inner": 128, "layers": 2},
}
SYLLABLES = [c + v for c in "hjqwxy" for v in "aeiou"]  # none of them is in the words of the toy


def sentences(seed: int, split: Split) -> Iterator[list[str]]:
    """Words of a sentence, of which some are names; those of the test end in -t, of training in -n."""
    chance = Random(f"{seed} {split}")
    for pair in reverse(seed=seed, split=split, longest=LONGEST):
        yield [
            word if chance.random() >= UNSEEN else "".join(chance.choices(SYLLABLES, k=3)) + split[-1]
            for word in pair.source.split()
        ]


def known_words() -> Tokenizer:
    """The 20 words of the toy."""
    return Tokenizer.train([pair.source for pair in islice(reverse(), 200)], "word", FIRST + 20)


def batch(tokenizer: Tokenizer, some: list[list[str]], copying: bool = True) -> Batch:
    """Sentences and their reversals; without copying all names are UNK."""
    source = numbered(tokenizer, [" ".join(words) for words in some])
    unknown = [one.unknown for one in source]
    target = numbered_like(tokenizer, [" ".join(words[::-1]) for words in some], unknown)
    sides = [list(one.ids) for one in source], [list(ids) for ids in target]
    if not copying:
        ids = ([[t if t < len(tokenizer) else UNK for t in row] for row in side] for side in sides)
        sides = next(ids), next(ids)
    return batch_of(*([torch.tensor(row) for row in side] for side in sides))


def batches(tokenizer: Tokenizer, seed: int, copying: bool) -> Iterator[Batch]:
    """Batches of similar length, without end."""
    stream = sentences(seed, "train")
    while True:
        some = sorted(islice(stream, 16 * SIZE), key=len)
        for k in Random(seed).sample(range(16), 16):
            yield batch(tokenizer, some[k * SIZE : (k + 1) * SIZE], copying)


def copy_loss(model: Any, some: Batch) -> Tensor:
    """The model's own loss, per word."""
    hidden, wanted = real(model, some)
    loss: Tensor = model.loss(hidden, wanted)
    return loss / len(wanted)


def right(tokenizer: Tokenizer, name: str, copy: str, seed: int, steps: int) -> tuple[float, float]:
    """The shares of unseen and of known words that are right; UNK is not the word that was wanted."""
    size = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
    model = translator(name, seed, **size, **MODELS[name], copy=copy)
    train(model, batches(tokenizer, seed, copy != "no"), steps, loss=copy_loss)
    some = list(islice(sentences(0, "test"), sized(500)))
    truth = batch(tokenizer, some)
    with torch.inference_mode():
        logits, _ = read_real(model.eval(), batch(tokenizer, some, model.copying is not None))
    wanted = truth["target"][truth["target"] != 0]
    found, unseen = logits.argmax(-1) == wanted, wanted >= len(tokenizer)
    return found[unseen].float().mean().item(), found[~unseen].float().mean().item()


@claim(
    "C34",
    group="Alignment",
    fixed="a6923fc",
    says="A copy mechanism handles words nobody knows.",
    source="001:244",
    experiment="Reverse 3–10 words; 30 % of them are names of which the model has never seen one, "
    "and to it all are UNK. Gate and sentinel in bahdanau, luong and transformer, 600 steps; words "
    "right, given the right ones before.",
    control="Without copying.",
    conditions=[
        *(at_least(0.9, f"{name}, {copy}: names") for name, copy in product(MODELS, ("gate", "sentinel"))),
        *(
            at_least(0.9, f"{name}, {copy}: known words")
            for name, copy in product(MODELS, ("gate", "sentinel"))
        ),
        *(must_fail(at_most(0.05, f"{name}, no copying: names")) for name in MODELS),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=12.0,
    changed="600 steps, after one look at seed 0.",
)
def copied(seed: int) -> Figures:
    """Shares of names and of known words, by model and mechanism."""
    tokenizer = known_words()
    found: Figures = {}
    for name, copy in product(MODELS, ("gate", "sentinel", "no")):
        label = "no copying" if copy == "no" else copy
        names, known = right(tokenizer, name, copy, seed, 600)
        found |= {f"{name}, {label}: names": names, f"{name}, {label}: known words": known}
    return found
