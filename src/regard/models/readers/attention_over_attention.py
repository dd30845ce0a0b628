"""Attention over attention: each question word attends to the passage, and these are weighed in turn.

    M(i, j) = h_i · u_j        α(j) = softmax_i M(i, j)        β(i) = softmax_j M(i, j)
    β = mean over the passage of β(i)        s = Σ_j β_j α(j)        P(w) = Σ_{t: w_t = w} s_t

s sums to 1, as β and each α(j) do. Both directions are attentions: α those of question words over the
passage, β(i) those of words of the passage over the question.

Cui et al. (2017), "Attention-over-Attention Neural Networks for Reading Comprehension", arXiv:1607.04423, §3.
Departs from the paper: LSTMs of their own for passage and question; words have features beside their vectors;
no reranking with n-grams.
"""

import torch
from torch import Tensor

from regard.masks import Lengths
from regard.models.entries import register_reader
from regard.models.readers.attention_sum import WordReader
from regard.models.readers.reader_model import ReaderConfig, ReadTexts, attention_roles


@register_reader(ReaderConfig)
class AttentionOverAttention(WordReader):
    """Every question word attends to the passage; the passage says how much each of them counts."""

    def __init__(self, config: ReaderConfig):
        super().__init__(config)
        self.over_passage, self.over_question = self.attention(), self.attention()
        self.attention_paths = attention_roles(["over_passage"], ["over_question"])

    def weigh(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> Tensor:
        n, m = texts.lengths, texts.question_lengths
        alpha = self.over_passage(question, passage, mask=Lengths(n)).weights  # (b, m, n)
        beta = self.over_question(passage, question, mask=Lengths(m)).weights  # (b, n, m)
        real = torch.arange(passage.shape[1], device=passage.device) < n.unsqueeze(-1)  # (b, n)
        mean = torch.where(real.unsqueeze(-1), beta, 0).sum(1) / n.unsqueeze(-1)  # (b, m)
        s: Tensor = (mean.unsqueeze(1) @ alpha).squeeze(1)
        return s
