"""What all readers share: a passage and a question in, log-probabilities of where the answer is out.

    x_t = [E[w_t]; features_t]        of the words of either text

Features are what counting can tell: whether a word, or its stem, occurs in the other text, is capitalised, a
number, a punctuation mark (`regard.data.word_features`).

A reader gives log p(start), log p(end) over the positions of the passage, once for each iteration. Right
answers can be several: what is minimised is the negative log-probability of any of them,

    loss = −Σ_iterations log Σ_{(s, e) right} p(start = s) + log Σ_{(s, e) right} p(end = e)

over their number. A reader that also says of each word whether it is in the answer is helped by the binary
cross-entropy of that, a mean over the words, times `INSIDE`: every word is then something to learn from, not
two of a passage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.tokens import UNK
from regard.models.parts.variational_dropout import VariationalDropout

INSIDE = 5.0  # how much the words inside an answer count beside its bounds


class ReadTexts(NamedTuple):
    """A batch of passages and questions."""

    passage: Tensor  # (b, n) tokens
    lengths: Tensor  # (b,)
    question: Tensor  # (b, m)
    question_lengths: Tensor  # (b,)
    features: Tensor  # (b, n, k) of the words of the passage, 0 or 1
    question_features: Tensor  # (b, m, k)


class SpanLogits(NamedTuple):
    """Where an answer begins and ends: log-probabilities (b, n) each, −inf at padding."""

    start: Tensor
    end: Tensor
    inside: Tensor | None = (
        None  # of each word, whether it is in the answer: log-odds (b, n), where there are any
    )


@dataclass(frozen=True)
class ReaderConfig:
    """What the configurations of readers share."""

    vocabulary: int
    features: int = 0  # of a word
    entities: tuple[int, ...] = ()  # tokens of anonymous names
    embedding: int = 100
    width: int = 100  # of hidden states
    dropout: float = 0.25
    word_dropout: float = 0.05  # words that are unknown for once, in training
    score: str = "dot"
    map: str = "softmax"
    learn_alpha: bool = False
    frozen: bool = False  # word vectors stay as they were given


class ReaderModel(nn.Module):
    """The base class of readers; a subclass defines `read`."""

    attention_paths: dict[str, list[str]]  # "passage": over the passage, by question words; "question"

    def __init__(self, config: ReaderConfig):
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.embedding)
        nn.init.normal_(self.words.weight, std=0.5)
        self.words.weight.requires_grad_(not config.frozen)
        self.inputs = config.embedding + config.features  # the width of x
        self.dropout = VariationalDropout(config.dropout)
        number = torch.full((config.vocabulary,), -1)
        number[list(config.entities)] = torch.arange(len(config.entities))
        self.register_buffer("number", number, persistent=False)  # of each token among the entities, or −1
        self.number: Tensor

    def longest_answer(self, asked: int) -> int:
        """Tokens of an answer at most, where so many are asked for."""
        return asked

    def embed(self, tokens: Tensor, features: Tensor) -> Tensor:
        """Tokens (b, n) and their features (b, n, k) to x (b, n, inputs)."""
        if self.training and self.config.word_dropout:
            gone = torch.rand(tokens.shape, device=tokens.device) < self.config.word_dropout
            tokens = torch.where(gone, UNK, tokens)
        return torch.cat((self.words(tokens), features.to(self.words.weight.dtype)), -1)

    def forward(self, texts: ReadTexts) -> list[SpanLogits]:
        """Where the answers are, by each iteration."""
        return self.from_embedded(
            self.embed(texts.passage, texts.features),
            self.embed(texts.question, texts.question_features),
            texts,
        )

    def from_embedded(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> list[SpanLogits]:
        """The same from words that are embedded already: (b, n, inputs) and (b, m, inputs)."""
        raise NotImplementedError

    def renamed(self, texts: ReadTexts) -> ReadTexts:
        """The same texts, in each example of a training batch anonymous names permuted anew."""
        if not self.config.entities or not self.training:
            return texts
        entities = torch.tensor(self.config.entities, device=texts.passage.device)
        order = torch.rand(len(texts.passage), len(entities), device=entities.device).argsort(-1)  # (b, k)

        def other(tokens: Tensor) -> Tensor:
            number = self.number[tokens]
            return torch.where(number < 0, tokens, entities[order.gather(1, number.clamp(min=0))])

        return texts._replace(passage=other(texts.passage), question=other(texts.question))

    def loss(self, texts: ReadTexts, answers: Tensor, counts: Tensor) -> Tensor:
        """The sum of losses; answers (b, k, 2) are first and last tokens, `counts` (b,) of them right."""
        texts = self.renamed(texts)
        right = [mark(answers[..., side], counts, texts.passage.shape[1]) for side in (0, 1)]
        total = texts.features.new_zeros((), dtype=torch.float32)
        steps = self(texts)
        for step in steps:
            for scores, marked in zip((step.start, step.end), right, strict=True):
                total = total - scores.masked_fill(~marked, -torch.inf).logsumexp(-1).sum()
        total = total / len(steps)
        if steps[-1].inside is not None:
            total = total + INSIDE * inside_loss(steps[-1].inside, texts.lengths, answers, counts)
        return total


def mark(positions: Tensor, counts: Tensor, n: int) -> Tensor:
    """Which of n positions are among the first `counts` (b,) of positions (b, k): (b, n)."""
    real = torch.arange(positions.shape[1], device=positions.device) < counts.unsqueeze(-1)  # (b, k)
    found = torch.zeros(len(positions), n + 1, dtype=torch.bool, device=positions.device)
    return found.scatter(1, torch.where(real, positions, n), True)[:, :n]


def inside_loss(logits: Tensor, lengths: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
    """The sum over examples of the mean binary cross-entropy of log-odds (b, n) of being in an answer."""
    at = torch.arange(logits.shape[-1], device=logits.device)
    real = torch.arange(answers.shape[1], device=answers.device) < counts.unsqueeze(-1)  # (b, k)
    within = (at >= answers[..., :1]) & (at <= answers[..., 1:]) & real.unsqueeze(-1)  # (b, k, n)
    loss = F.binary_cross_entropy_with_logits(logits, within.any(1).to(logits.dtype), reduction="none")
    return (torch.where(at < lengths.unsqueeze(-1), loss, 0).sum(-1) / lengths).sum()


def log_softmax(scores: Tensor, lengths: Tensor) -> Tensor:
    """Scores (b, n) to log-probabilities over the first `lengths` (b,) positions, −inf at the others."""
    hidden = torch.arange(scores.shape[-1], device=scores.device) >= lengths.unsqueeze(-1)
    exact = scores if scores.dtype == torch.double else scores.float()
    return exact.masked_fill(hidden, -torch.inf).log_softmax(-1)


def right_words(passage: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
    """Which words of the passage (b, n) are one of the answers of a single token: (b, n)."""
    one = (answers[..., 0] == answers[..., 1]) & (
        torch.arange(answers.shape[1], device=answers.device) < counts.unsqueeze(-1)
    )
    words = torch.where(one, passage.gather(1, answers[..., 0]), -1)  # (b, k)
    return (passage.unsqueeze(-1) == words.unsqueeze(1)).any(-1)


def attention_roles(passage: Sequence[str], question: Sequence[str]) -> dict[str, list[str]]:
    """The roles of the attentions of a reader."""
    roles = {"passage": list(passage), "question": list(question)}
    return {role: paths for role, paths in roles.items() if paths}
