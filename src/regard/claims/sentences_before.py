"""S4: attention to the words of the sentences before, and to these sentences, tells what a pronoun is.

Texts of `corpora.pronouns`: "it" is "er", "sie" or "es" by the subject of the sentence before.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

import torch

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import sized
from regard.claims.toy_pairs import Pairs, batch_of, inputs, train, translator
from regard.core.tokens import EOS
from regard.data import Batch
from regard.data.context_lines import last_lines
from regard.data.corpora.phrase import Pair
from regard.data.corpora.pronouns import pronouns
from regard.models.parts.document_context import weights_before
from regard.recording import record

SMALL = {"width": 32, "inner": 64, "heads": 4, "layers": 1}
STEPS, TESTED, SIZE, RATE = 250, 500, 32, 1e-2


class Documents(Pairs):
    """The texts in ids, with `context` sentences before; "shuffled" takes these from other texts."""

    def __init__(self, context: int, shuffled: bool = False):
        super().__init__(pronouns)
        self.context, self.shuffled = context, shuffled

    def batch(self, pairs: Iterator[Pair] | list[Pair]) -> Batch:  # type: ignore[override]
        rows = list(pairs)
        sources = [last_lines(pair.source, self.context).split("\n") for pair in rows]
        if self.shuffled:
            others = Random(0).sample(range(len(rows)), len(rows))
            sources = [[*sources[other][:-1], own[-1]] for own, other in zip(sources, others, strict=True)]
        return batch_of(
            [torch.tensor(self._ids(lines)) for lines in sources],
            [torch.tensor([self.ids[1][word] for word in pair.target.split()]) for pair in rows],
        )

    def _ids(self, lines: list[str]) -> list[int]:
        found = [[self.ids[0][word] for word in line.split()] for line in lines]
        return [token for line in found for token in [*line, EOS]][:-1]


@torch.inference_mode()
def named(model: torch.nn.Module, batch: Batch) -> tuple[float, float]:
    """The share of pronouns, and of all other words, that are the likeliest, given the right ones before."""
    right = model.logits(model(*inputs(batch))).argmax(-1) == batch["target"]  # type: ignore[operator]
    words = right[:, 1:][batch["target"][:, 1:] != 0]
    return float(right[:, 0].double().mean()), float(words.double().mean())


@torch.inference_mode()
def on_subject(model: torch.nn.Module, batch: Batch) -> tuple[float, float]:
    """Weight of "it" on the subject of the sentence before, and of sentence attention on that sentence."""
    paths = ["context.over_words", "context.over_sentences"]
    with record(model, paths) as seen:
        model(*inputs(batch))
    words, sentences = (seen[path][-1].weights for path in paths)
    ends = (batch["source"] == EOS).nonzero()[:, 1].view(-1, 2)  # of the two sentences before
    rows = torch.arange(len(ends))
    both = weights_before(words, sentences)[rows, ends[:, 1] + 1, ends[:, 0] + 2]  # "the" comes first
    nearest = sentences[rows, ends[:, 1] + 1].mean(1)[:, 0, 0]
    return float(both.mean()), float(nearest.mean())


@claim(
    "S4",
    group="Beside the list",
    says="Attention can be hierarchical, over the words of sentences and over sentences.",
    source="004:441-449",
    experiment="A Transformer translates texts in which the sentence before decides between er, sie and es; "
    "it reads two sentences before by word and sentence attention with a gate (Miculicich et al. 2018), or "
    "none: share of pronouns that are right.",
    control="Sentences before from other texts, in training and test.",
    conditions=[
        at_least(0.95, "pronouns, two sentences before"),
        at_most(0.40, "pronouns, no sentence before"),
        at_least(0.98, "other words, two sentences before"),
        at_least(0.98, "other words, no sentence before"),
        must_fail(at_most(0.40, "pronouns, of other texts")),
    ],
    minutes=2.0,
    fixed="e8a29de",
)
def before(seed: int) -> Figures:
    """Pronouns and other words, by what is read; where "it" looks."""
    found: Figures = {}
    kinds = {
        "two sentences before": Documents(2),
        "no sentence before": Documents(0),
        "of other texts": Documents(2, shuffled=True),
    }
    for name, texts in kinds.items():
        model = translator("transformer", seed, **texts.sizes, **SMALL, context=texts.context or None)
        train(model, texts.train(seed, SIZE), STEPS, RATE)
        tested = texts.batch(list(islice(texts.stream(0, "test"), sized(TESTED))))
        found[f"pronouns, {name}"], found[f"other words, {name}"] = named(model, tested)
        if name == "two sentences before":
            found['weight of "it" on the subject before'], found["weight on the sentence before"] = (
                on_subject(model, tested)
            )
    return found
