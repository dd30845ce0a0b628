"""What a translator says to a sentence and where it looks, and how both change without some of the words.

Words that are not to be looked at are erased from the source–target attentions, at every step of decoding.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regard.core.tokens import BOS, EOS
from regard.recording import intervene, record
from regard.runs import Translation
from regard.runs.words import by_word, word_of
from regard.serve.asked import CannotAsk, How, asked
from regard.serve.erasing import erase
from regard.serve.run import Run


@dataclass(frozen=True, eq=False)
class Looked:
    """An answer and the weights behind it."""

    run: Run
    words: list[str]  # of the whole sentence
    gone: list[int]  # numbers of the words that were erased or left
    places: list[int]  # numbers of the words that were read: the columns of the weights
    answer: str
    answer_words: list[str]  # the rows of the weights
    log_prob: float
    weights: list[Tensor]  # of each layer (heads, m, n), between words; empty without attention or words

    @property
    def source(self) -> list[str]:
        """The words that were read."""
        return [self.words[place] for place in self.places]

    def map_of(self, layer: int, head: int | None) -> Tensor:
        """Weights (m, n) of a layer and one of its heads, from 0; without a head their mean."""
        return self.weights[layer].mean(0) if head is None else self.weights[layer][head]


def look(
    run: Run,
    text: str,
    words: Collection[int] = (),
    how: How = "as_it_is",
    *,
    longest: int | None = None,
) -> Looked:
    """Let a run answer a text without these words (numbers from 0), or as it is; `longest` is in tokens."""
    question = asked(run.system.source_tokenizer, text, words, how, longest)
    if how == "do_not_look" and not run.cross:
        raise CannotAsk(f"{run.name} has no attention to the source: there is nothing to look away from.")
    if not question.places:
        return Looked(run, question.words, question.gone, [], "", [], 0.0, [])
    try:
        with _erasing(run, question.erased):
            said = run.system.translate([question.read])[0]
            target, rows = _target(said)
            weights = _weights(run, said, question.pieces, rows) if target and run.cross else []
    except ValueError as error:  # learned positions, for one, end somewhere
        raise CannotAsk(f"{run.name} cannot read this: {error}") from error
    return Looked(
        run, question.words, question.gone, question.places, said.text, target, said.log_prob, weights
    )


def _erasing(run: Run, pieces: list[int]) -> AbstractContextManager[None]:
    if not pieces:
        return nullcontext()
    return intervene(run.system.model, partial(erase, keys=pieces), run.cross)


def _target(said: Translation) -> tuple[list[str], list[int]]:
    """The words of an answer, and the word of each of its tokens."""
    tokenizer = said.system.target_tokenizer
    words = tokenizer.decode([*said.target_tokens, EOS]).split()
    return words, [min(word, len(words) - 1) for word in word_of(tokenizer, said.target_tokens)]


def _weights(run: Run, said: Translation, source: list[int], target: list[int]) -> list[Tensor]:
    """Of each layer (heads, m, n), between words; a recurrent model attends once for each token."""
    model = run.system.model
    device = next(model.parameters()).device
    read = torch.tensor([said.source_tokens], device=device)
    lengths = torch.tensor([len(said.source_tokens)], device=device)
    written = torch.tensor([[BOS, *said.target_tokens]], device=device)
    with torch.no_grad(), record(model, run.cross) as seen:
        model(read, lengths, written)
    found = []
    for path in run.cross:
        tokens = torch.cat([attended.weights for attended in seen[path]], -2)[0]  # ([heads,] m, n)
        heads = tokens if tokens.dim() == 3 else tokens.unsqueeze(0)
        found.append(torch.stack([by_word(head, source, target) for head in heads]))
    return found
