"""The key-value memory network: found by its key, read by its value.

    p_ki = softmax(q_kᵀ A Φ(key_i))        o_k = Σ_i p_ki B Φ(value_i)        q_{k+1} = R_k (q_k + o_k)
    answer = argmax_y q_{K+1}ᵀ B Φ(y)

A slot is a sentence: its key is the whole of it, its value the whole in another embedding, or, with
values="last", its last word, as the object of a fact (subject and relation, object).

Miller et al. (2016), "Key-Value Memory Networks for Directly Reading Documents", arXiv:1606.03126, §3.
Departs from the paper: keys carry the age of their sentence and the order of its words, as stories need.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.core.tokens import PAD
from regard.models.answering.answer_model import AnswerModel, Common, ages, recent
from regard.models.entries import register_answer_model
from regard.models.parts.position_encoding import encode_sentences


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a key-value memory network."""

    values: Literal["sentence", "last"] = "sentence"


@register_answer_model(Config)
class KeyValueMemory(AnswerModel):
    """Sentences found by keys and read by values, the question changed by a matrix after each hop."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        d = config.width
        self.keys = nn.Parameter(torch.empty(config.vocabulary, d))  # A, also of the question
        self.values = nn.Parameter(torch.empty(config.vocabulary, d))  # B
        self.times = nn.Parameter(torch.empty(config.memory, 2 * d))
        self.turns = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(config.hops))
        self.hops = nn.ModuleList(Attention(score="dot", map=config.map) for _ in range(config.hops))
        self.register_buffer("said", torch.tensor(config.answers, dtype=torch.int64), persistent=False)
        for parameter in (self.keys, self.values, self.times):
            nn.init.normal_(parameter, std=0.1)
        for turn in self.turns:
            assert isinstance(turn, nn.Linear)
            nn.init.eye_(turn.weight)

    said: Tensor

    def forward(
        self, story: Tensor, question: Tensor, lengths: Tensor, facts: Tensor | None = None
    ) -> Tensor:
        config, d = self.config, self.config.width
        age = ages(lengths, story.shape[1], config.noise if self.training else 0.0)
        mask = recent(age, lengths, config.memory)
        of_keys, of_values = self.times[age.clamp(max=config.memory - 1)].split(d, -1)
        keys = encode_sentences(self.keys, story, d).squeeze(-2) + of_keys  # (b, n, d)
        if config.values == "last":
            last = ((story != PAD).sum(-1, keepdim=True) - 1).clamp(min=0)
            values = self.values[story.gather(-1, last).squeeze(-1)]
        else:
            values = encode_sentences(self.values, story, d).squeeze(-2)
        values = values + of_values
        q = encode_sentences(self.keys, question, d)  # (b, 1, d)
        for hop, turn in zip(self.hops, self.turns, strict=True):
            q = turn(q + hop(q, keys, values, mask=mask).context)
        return q.squeeze(1) @ self.values[self.said].T
