"""S6: explanations that help a reader of single texts do not help one of inference. A simulation, beside C83.

A premise of eight words has one adjective, and the hypothesis is one: the same (entailment), its opposite
(contradiction) or neither (neutral). Attention is over the premise; the reader is told its k words of most
weight and the hypothesis. No person is asked. Premises grow while the model learns, from one word to eight:
with eight from the beginning it learns nothing (seed 100), and nor does a BiLSTM in either way.
"""

from collections.abc import Hashable
from itertools import count
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.audits import Case
from regard.audits.measures import rankings
from regard.audits.tests.communication import FOLDS, named_by_reader
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.debate_models import MLP, SMALL
from regard.claims.quick import sized
from regard.claims.toy_pairs import FIRST, train
from regard.models.classifiers import CLASSIFIERS

OPPOSITES, OTHERS, WORDS = 4, 12, 8  # pairs of adjectives, other words; words of a premise
ADJECTIVES = range(FIRST, FIRST + 2 * OPPOSITES)  # 2i and 2i + 1 are opposites
FILLERS = range(ADJECTIVES.stop, ADJECTIVES.stop + OTHERS)
STAGES = ((1, 150), (2, 150), (WORDS, 300))  # words of a premise, steps of 64 pairs
RATE, TESTED, TOLD = 1e-2, 600, (1, 2, 3, 5)


class Inference(NamedTuple):
    """Premises (b, n), hypotheses (b, 1) and classes (b,): same, opposite, neither."""

    premises: Tensor
    hypotheses: Tensor
    wanted: Tensor


def inferences(chance: Random, count: int, words: int = WORDS) -> Inference:
    """So many pairs of texts, about a third of each class."""
    premises, hypotheses, classes = [], [], []
    for _ in range(count):
        kind, adjective = chance.randrange(3), chance.choice(ADJECTIVES)
        opposite = FIRST + ((adjective - FIRST) ^ 1)
        neither = chance.choice([one for one in ADJECTIVES if one not in (adjective, opposite)])
        premise = chance.choices(FILLERS, k=words)
        premise[chance.randrange(words)] = adjective
        premises.append(premise)
        hypotheses.append([(adjective, opposite, neither)[kind]])
        classes.append(kind)
    return Inference(torch.tensor(premises), torch.tensor(hypotheses), torch.tensor(classes))


def given(pairs: Inference) -> list[Tensor]:
    """What a classifier of pairs is called with."""
    lengths = [torch.full((len(one),), one.shape[1]) for one in pairs[:2]]
    return [pairs.premises, lengths[0], pairs.hypotheses, lengths[1]]


def fitted(seed: int) -> Any:
    """A classifier of pairs, trained on as many pairs as it sees."""
    torch.manual_seed(seed)
    model = CLASSIFIERS[MLP].make(vocabulary=FILLERS.stop, classes=3, pairs=True, **SMALL)
    chance = Random(f"train {seed}")

    def loss(model: Any, pairs: Inference) -> Tensor:
        return F.cross_entropy(model(*given(pairs)), pairs.wanted)

    for words, steps in STAGES:
        train(model, (inferences(chance, 64, words) for _ in count()), steps, RATE, loss=loss)
    return model


def games(case: Case, pairs: Inference, seed: int) -> Figures:
    """How often readers name the model's class, by whose words, how many, and what they make of them."""
    generator = torch.Generator().manual_seed(seed)
    by = rankings(case, generator)
    fold = torch.randperm(len(case), generator=generator) % FOLDS
    found: Figures = {}
    for name in ("attention", "random"):
        for k in TOLD:
            told = [
                [text[t] for t in row.topk(k).indices.tolist()]
                for text, row in zip(case.texts, by[name], strict=True)
            ]
            asked = pairs.hypotheses[:, 0].tolist()
            bags: list[list[Hashable]] = [
                [*words, ("asked", word)] for words, word in zip(told, asked, strict=True)
            ]
            joint: list[list[Hashable]] = [
                [(one, word) for one in words] for words, word in zip(told, asked, strict=True)
            ]
            for reader, features in (("by words", bags), ("by pairs", joint)):
                right = named_by_reader(features, case.decision, 3, fold)
                found[f"{reader}, {name}, k = {k}"] = float(right.mean())
    return found


@claim(
    "S6",
    group="The debate",
    says="For natural language inference attention explanations do not help (a simulation).",
    source="004:1627-1628",
    experiment="Generated inference: is an adjective of the premise the hypothesis, its opposite or "
    "neither? Naive Bayes is told k words of the premise and the hypothesis, and must name the class: by the "
    "words, or by pairs of a word of the premise and the hypothesis.",
    control="As many words at random; the model itself knows the classes.",
    conditions=[
        at_most(0.1, "by words, attention, k = 1 − by words, random, k = 1", "no help to a reader of words"),
        at_most(0.1, "by words, attention, k = 3 − by words, random, k = 3", "no help to a reader of words"),
        at_least(0.2, "by pairs, attention, k = 1 − by pairs, random, k = 1", "help to one who compares"),
        must_fail(at_least(0.95, "accuracy of the model")),
    ],
    minutes=0.8,
    fixed="e8a29de",
)
def inference_game(seed: int) -> Figures:
    """Accuracy of the model, and of readers who are told what it looked at."""
    pairs = inferences(Random(f"test {seed}"), sized(TESTED, 24))
    texts = pairs.premises.tolist(), pairs.hypotheses.tolist()
    case = Case.from_model(fitted(seed), *texts, labels=pairs.wanted)
    marked = (pairs.premises < ADJECTIVES.stop).nonzero()[:, 1].tolist()
    weights = [float(row[at]) for row, at in zip(case.shown, marked, strict=True)]
    return {
        "accuracy of the model": float((case.decision == pairs.wanted).double().mean()),
        "weight on the adjective": sum(weights) / len(weights),
        **games(case, pairs, seed),
    }
