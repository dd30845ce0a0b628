"""Attention-sum reader: the question attends to the passage, and the weights of a word are added up.

    s = softmax over the passage of h_t · u        P(w) = Σ_{t: w_t = w} s_t

with h the BiLSTM of the passage and u the last states of the BiLSTM of the question. The answer is a word.

Kadlec et al. (2016), "Text Understanding with the Attention Sum Reader Network", arXiv:1603.01547, §3.
Departs from the paper: LSTMs; words have features beside their vectors.
"""

import torch
from torch import Tensor

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.entries import register_reader
from regard.models.parts.named_components import make_map
from regard.models.parts.padded_lstm import PaddedLSTM
from regard.models.readers.reader_model import (
    ReaderConfig,
    ReaderModel,
    ReadTexts,
    SpanLogits,
    attention_roles,
    right_words,
)

TINY = 1e-12  # a probability of 0 has a logarithm with it


class WordReader(ReaderModel):
    """The base of readers whose answer is a word of the passage; a subclass defines `weigh`."""

    def __init__(self, config: ReaderConfig):
        super().__init__(config)
        self.passage_encoder = PaddedLSTM(self.inputs, config.width, both=True)
        self.question_encoder = PaddedLSTM(self.inputs, config.width, both=True)

    def longest_answer(self, asked: int) -> int:
        """One token: the word."""
        return 1

    def attention(self) -> Attention:
        """An attention of the configured score and map."""
        config = self.config
        return Attention(
            resolve_score(config.score, config.width, config.width),
            make_map(config.map, learn_alpha=config.learn_alpha),
        )

    def weigh(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> Tensor:
        """s (b, n) from states of passage (b, n, width) and question (b, m, width)."""
        raise NotImplementedError

    def weights(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> Tensor:
        """s (b, n) from embedded words."""
        h = self.dropout(self.passage_encoder(self.dropout(passage), texts.lengths))
        u = self.dropout(self.question_encoder(self.dropout(question), texts.question_lengths))
        return self.weigh(h, u, texts)

    def from_embedded(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> list[SpanLogits]:
        """One iteration: log P(w_t) at every position t, as start and as end."""
        s = self.weights(passage, question, texts)
        same = texts.passage.unsqueeze(-1) == texts.passage.unsqueeze(-2)  # (b, n, n)
        real = torch.arange(s.shape[-1], device=s.device) < texts.lengths.unsqueeze(-1)
        words = torch.where(same & real.unsqueeze(1), s.unsqueeze(1), 0).sum(-1)  # P(w_t)
        scores = words.clamp(min=TINY).log().masked_fill(~real, -torch.inf)
        return [SpanLogits(scores, scores)]

    def loss(self, texts: ReadTexts, answers: Tensor, counts: Tensor) -> Tensor:
        """The sum of −log P(w) of the right word w; of several, the likeliest."""
        texts = self.renamed(texts)
        words = self(texts)[-1].start  # log P(w_t), the same wherever w stands
        right = right_words(texts.passage, answers, counts)
        loss: Tensor = -words.masked_fill(~right, -torch.inf).amax(-1).clamp(min=-100).sum()
        return loss


@register_reader(ReaderConfig)
class AttentionSum(WordReader):
    """The question as one vector attends to the passage; weights of the same word are added up."""

    def __init__(self, config: ReaderConfig):
        super().__init__(config)
        self.over_passage = self.attention()
        self.attention_paths = attention_roles(["over_passage"], [])

    def weigh(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> Tensor:
        half = self.config.width // 2
        last = (texts.question_lengths - 1).view(-1, 1, 1).expand(-1, 1, half)
        summary = torch.cat((question[..., :half].gather(1, last), question[:, :1, half:]), -1)
        weights: Tensor = self.over_passage(summary, passage, mask=Lengths(texts.lengths)).weights
        return weights.squeeze(1)
