"""Hierarchical attention: over the words of each sentence, then over the sentences.

    zᵢ = Attention(q_w, h of sentence i)        g = BiGRU(z)        z = Attention(q_s, g)        ŷ = Wz + b

h are the hidden states of a BiGRU run on each sentence separately. A sentence ends at a token of `ends` (".",
"!", "?" and the like); several in a row end one sentence. The "reader" attentions are "word_attention", whose
weights (b, s, n) have a row for each sentence that is 0 outside it, and "sentence_attention", whose weights
are (b, 1, s): their product is the weight of each word.

Yang et al. (2016), "Hierarchical Attention Networks for Document Classification", NAACL, §2.2. (The paper's
uᵀtanh(Wh + b) is the additive score with a learned query.) One lecture names Miculicich et al. (2018), who
translate documents with such attention.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.classifiers.classifier_model import (
    ClassifierModel,
    Common,
    Recorded,
    WordVectors,
    initialize,
    real,
)
from regard.models.entries import register_classifier
from regard.models.parts.bidirectional import BidirectionalRNN
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import make_map
from regard.recording import intervene


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a hierarchical classifier."""

    width: int = 128  # of the hidden states of words and of sentences; half in each direction
    cell: Literal["lstm", "gru"] = "gru"
    ends: tuple[int, ...] = ()  # tokens that end a sentence; without any, a text is one sentence


@register_classifier(Config)
class Hierarchical(ClassifierModel):
    """Attention over words, attention over sentences, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__()
        if config.pairs:
            raise ValueError("hierarchical takes one text: pairs must be false.")
        self.config, width = config, config.width
        self.words_query, self.sentences_query = (nn.Parameter(torch.empty(1, width)) for _ in range(2))
        self.words = WordVectors(config.vocabulary, config.embedding, config.dropout, config.word_dropout)
        self.word_encoder = BidirectionalRNN(config.embedding, width, 1, 0.0, config.cell)
        self.sentence_encoder = BidirectionalRNN(width, width, 1, 0.0, config.cell)
        self.word_attention, self.sentence_attention = (
            Attention(
                resolve_score(config.score, width, width),
                make_map(config.map, learn_alpha=config.learn_alpha),
            )
            for _ in range(2)
        )
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(width, config.classes)
        self.attention_paths = {"reader": ["word_attention", "sentence_attention"]}
        initialize(self)

    def condition_on_text(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The index of the sentence that each word is in, (b, n)."""
        ends = torch.isin(tokens, torch.tensor(self.config.ends, device=tokens.device, dtype=tokens.dtype))
        begins = ends[:, :-1] & ~ends[:, 1:] & real(lengths, tokens.shape[1])[:, 1:]
        return torch.nn.functional.pad(begins, (1, 0)).cumsum(-1)

    def states(self, embedded: Tensor, lengths: Tensor, sentence: Tensor) -> Tensor:
        """Embedded words (b, n, d) to hidden states (b, n, width), each sentence encoded separately."""
        is_real, n = real(lengths, embedded.shape[1]), embedded.shape[1]  # (b, n)
        position = torch.arange(n, device=sentence.device)
        starts = torch.nn.functional.pad(sentence[:, 1:] != sentence[:, :-1], (1, 0))
        position = (position - (starts * position).cummax(-1).values)[is_real]  # (words,), in its sentence
        row = torch.arange(len(sentence), device=sentence.device).unsqueeze(-1) * n + sentence
        _, row = row[is_real].unique(return_inverse=True)  # (words,): its sentence, among those of all texts
        sizes = row.bincount()
        sentences = embedded.new_zeros(len(sizes), int(sizes.max()), embedded.shape[-1])
        sentences = sentences.index_put((row, position), embedded[is_real])
        states: Tensor = self.word_encoder(sentences, sizes)[row, position]  # (words, width)
        padded = states.new_zeros(*is_real.shape, states.shape[-1])
        return padded.masked_scatter(is_real.unsqueeze(-1), states)

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        sentence, is_real = _sentences(condition), real(lengths, embedded.shape[1])  # (b, n)
        h = self.dropout(self.states(embedded, lengths, sentence))  # (b, n, width)
        count = torch.where(is_real, sentence, 0).amax(-1) + 1  # (b,), sentences
        index = torch.arange(int(count.max()), device=sentence.device).view(1, -1, 1)
        mask = (sentence.unsqueeze(-2) == index) & is_real.unsqueeze(-2)  # (b, s, n)
        query = self.words_query.expand(len(h), index.shape[1], -1).to(h.dtype)
        z = self.word_attention(query, h, mask=mask).context  # (b, s, width)
        g = self.dropout(self.sentence_encoder(z, count))
        query = self.sentences_query.expand(len(h), 1, -1).to(h.dtype)
        z = self.sentence_attention(query, g, mask=Lengths(count)).context.squeeze(-2)
        logits: Tensor = self.read(self.dropout(z))
        return logits

    def over_words(self, seen: Recorded) -> Tensor:
        words, sentences = (seen[path][-1].weights for path in self.attention_paths["reader"])
        return sentences @ words  # (b, 1, s) and (b, s, n)

    @contextmanager
    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> Iterator[None]:
        sentence = _sentences(condition)
        index = torch.arange(int(sentence.max()) + 1, device=sentence.device).view(1, -1, 1)
        parts = torch.where(sentence.unsqueeze(-2) == index, weights, 0)  # (b, s, n)
        sums = parts.sum(-1, keepdim=True)
        words = torch.where(sums > 0, parts / sums, 0)
        with (
            intervene(self, lambda p: words.to(p.dtype), "word_attention"),
            intervene(self, lambda p: sums.mT.to(p.dtype), "sentence_attention"),
        ):
            yield


def _sentences(condition: Tensor | None) -> Tensor:
    """The condition, which is required: the sentence of each word."""
    if condition is None:
        raise ValueError(
            "hierarchical must know where sentences end: give it condition=model.condition(tokens, lengths)."
        )
    return condition
