"""The end-to-end memory network: attention over the sentences of a story, several times.

    u_1 = B(question)        p_k = softmax(u_kᵀ m_i)        o_k = Σ_i p_ki c_i        u_{k+1} = u_k + o_k
    m_i = A_k(sentence i) + T^A_k(age i)        c_i = C_k(sentence i) + T^C_k(age i)        answer = W u_{K+1}

Adjacent tying: A_{k+1} = C_k, B = A_1, Wᵀ = C_K. Layer-wise: one A and one C, and u_{k+1} = H u_k + o_k.
Sentences are sums of their words' vectors weighted by position. Linear start: the first steps of training are
without the softmax, p = θ, which gradients pass more easily; without it some tasks are never learned.

The memory has a fixed number of places. Those that a story leaves empty are vectors of 0: their scores are 0,
they take part in the softmax and bring nothing, so that a question can find that no sentence matches. Without
them yes/no questions are learned badly. Under softmax, e empty places are one sink of score log e.

Sukhbaatar, Szlam, Weston & Fergus (2015), "End-To-End Memory Networks", arXiv:1503.08895, §2–4.
Departs from the paper: it does not speak of empty places; logits are of the answers seen in training, not of
all words; a cosine instead of rates that are halved; the linear start lasts for a share of the steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, takes_sink
from regard.models.answering.answer_model import AnswerModel, Common, ages, recent
from regard.models.entries import register_answer_model
from regard.models.parts.position_encoding import encode_sentences


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a memory network."""

    tying: Literal["adjacent", "layer_wise"] = "adjacent"
    ordered: bool = True  # position encoding; without it sentences are bags of words
    dropout: float = 0.0  # of the state after each hop
    linear_start: float = 0.0  # steps of training without softmax, from the first on
    empty: bool = True  # places of the memory without a sentence take part in the softmax


@register_answer_model(Config)
class MemoryNetwork(AnswerModel):
    """Hops over the sentences of a story, with position and temporal encoding and linear start."""

    # A rate of 0.01 and a norm of 40 for the sum over a batch of 32, as these are of the mean.
    suits: ClassVar[Mapping[str, Any]] = {
        "steps": 36_000, "examples": 32, "optimiser": "sgd", "rate": 0.32, "decay": 3e-5, "clip": 1.25,
        "validate": 1000, "save": 1000, "average": 5,
    }  # fmt: skip
    seen: Tensor
    said: Tensor

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        adjacent, d = config.tying == "adjacent", config.width
        tables = config.hops + 1 if adjacent else 2
        self.words = nn.Parameter(torch.empty(config.vocabulary, tables * d))
        self.times = nn.Parameter(torch.empty(config.memory, tables * d))
        self.answers = None if adjacent else nn.Parameter(torch.empty(len(config.answers), d))
        self.carry = None if adjacent else nn.Linear(d, d, bias=False)
        self.hops = nn.ModuleList(Attention(score="dot", map=config.map) for _ in range(config.hops))
        self.linear = Attention(score="dot", map=identity)  # has no parameters
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # steps of training
        self.register_buffer("said", torch.tensor(config.answers, dtype=torch.int64), persistent=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)
        if self.carry is not None:
            nn.init.eye_(self.carry.weight)

    def forward(
        self, story: Tensor, question: Tensor, lengths: Tensor, facts: Tensor | None = None
    ) -> Tensor:
        config, d = self.config, self.config.width
        linear = self.training and int(self.seen) < config.linear_start
        if self.training:
            self.seen += 1
        age = ages(lengths, story.shape[1], config.noise if self.training else 0.0)
        mask = recent(age, lengths, config.memory)
        memories = encode_sentences(self.words, story, d, config.ordered)  # (b, n, tables, d)
        memories = memories + F.embedding(age.clamp(max=config.memory - 1), self.times).view_as(memories)
        each = memories.unbind(2)  # of every table, (b, n, d)
        sink = self.empty_places(lengths)
        u = encode_sentences(self.words[:, :d], question, d, config.ordered)  # (b, 1, d)
        for k, hop in enumerate(self.hops):
            at = k if config.tying == "adjacent" else 0
            if linear:
                o = self.linear(u, each[at], each[at + 1], mask=mask).context
            else:
                o = hop(u, each[at], each[at + 1], mask=mask, sink=sink).context
            u = self.dropout((u if self.carry is None else self.carry(u)) + o)
        answers = self.words[:, -d:][self.said] if self.answers is None else self.answers
        return u.squeeze(1) @ answers.T

    def empty_places(self, lengths: Tensor) -> Tensor | None:
        """The score of all empty places together, (b, 1); None where the map has no use for them."""
        first = self.hops[0]
        assert isinstance(first, Attention)
        if not (self.config.empty and takes_sink(first.map)):
            return None
        empty: Tensor = (self.config.memory - lengths).clamp(min=1).to(self.words.dtype)
        return empty.log().unsqueeze(-1)


def identity(scores: Tensor) -> Tensor:
    """Scores (..., n) as weights; 0 where nobody may look."""
    return scores.masked_fill(scores == float("-inf"), 0.0)
