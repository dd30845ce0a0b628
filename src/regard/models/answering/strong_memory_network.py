"""The memory network with strong supervision: it is told which sentences support the answer.

    o_k = argmax_i s([q, m_{o_1}, …, m_{o_{k−1}}], m_i)        answer = argmax_y s([q, m_{o_1}, …], y)
    s(x, y) = Φ(x)ᵀ Uᵀ U Φ(y)

until "no more" is chosen, which is a key like the sentences. Training goes on from the true sentences, not
from the chosen ones, and needs them in the data.

Weston, Chopra & Bordes (2015), "Memory Networks", arXiv:1410.3916, §3. Departs from the paper: cross-entropy
over the sentences instead of a margin with sampled ones; ages are vectors, not compared in pairs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention
from regard.models.answering.answer_model import AnswerModel, Common, ages, recent
from regard.models.entries import register_answer_model
from regard.models.parts.position_encoding import encode_sentences


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a memory network with strong supervision."""


@register_answer_model(Config)
class StrongMemoryNetwork(AnswerModel):
    """Hops that choose one sentence each, learned from the supporting facts."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        d, hops = config.width, config.hops
        # words as part of the question, of a sentence to be found, and of one that was found
        self.words = nn.Parameter(torch.empty(config.vocabulary, (2 + hops) * d))
        self.times = nn.Parameter(torch.empty(config.memory, (1 + hops) * d))
        self.answers = nn.Parameter(torch.empty(len(config.answers), d))
        self.enough = nn.Parameter(torch.empty(hops, d))  # the key of "no more", for each hop
        self.hops = nn.ModuleList(Attention(score="dot", map=config.map) for _ in range(hops))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)

    def forward(
        self, story: Tensor, question: Tensor, lengths: Tensor, facts: Tensor | None = None
    ) -> Tensor:
        return self.chosen(story, question, lengths, facts)[0]

    def chosen(
        self, story: Tensor, question: Tensor, lengths: Tensor, facts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits (b, answers), and log p (b, hops, n + 1) of the sentences and, last, of "no more"."""
        config, (b, n, _), d = self.config, story.shape, self.config.width
        age = ages(lengths, n, config.noise if self.training else 0.0)
        sentences = encode_sentences(self.words[:, d:], story, d)  # (b, n, 1 + hops, d)
        sentences = sentences + self.times[age.clamp(max=config.memory - 1)].view_as(sentences)
        u = encode_sentences(self.words[:, :d], question, d)  # (b, 1, d)
        mask = F.pad(recent(age, lengths, config.memory), (0, 1), value=True)  # (b, 1, n + 1)
        ended = torch.zeros(b, dtype=torch.bool, device=story.device)
        found = []
        for k, hop in enumerate(self.hops):
            keys = torch.cat([sentences[:, :, 0], self.enough[k].expand(b, 1, d)], 1)
            seen = hop(u, keys, keys, mask=mask)
            weights = seen.weights.squeeze(1)  # (b, n + 1)
            found.append(weights.clamp(min=torch.finfo(weights.dtype).tiny).log())
            choice = weights.argmax(-1)
            if facts is not None:  # −1: no more
                given = facts[:, k] if k < facts.shape[1] else torch.full_like(choice, -1)
                choice = torch.where((given >= 0) & (given < n), given, n)
            ended = ended | (choice == n)
            read = sentences[:, :, 1 + k].gather(1, choice.clamp(max=n - 1).view(b, 1, 1).expand(b, 1, d))
            u = u + torch.where(ended.view(b, 1, 1), 0.0, read)
        return u.squeeze(1) @ self.answers.T, torch.stack(found, 1)

    def loss(self, batch: Any) -> Tensor:
        """Cross-entropy of the answer and of the sentence of every hop, up to the first "no more"."""
        facts: Tensor = batch["facts"]
        lengths: Tensor = batch.lengths["story"]
        logits, found = self.chosen(batch["story"], batch["question"], lengths, facts)
        n, hops = batch["story"].shape[1], self.config.hops
        facts = F.pad(facts, (0, max(hops - facts.shape[1], 0)), value=-1)[:, :hops]
        gold = torch.where(facts >= 0, facts, n)
        counted = (gold != n).int().cumprod(-1).roll(1, -1)
        counted[:, 0] = 1  # what comes after "no more" does not matter
        of_facts = F.nll_loss(found.flatten(0, 1), gold.flatten(), reduction="none").view_as(gold)
        of_answers: Tensor = F.cross_entropy(logits, batch["answer"], reduction="sum")
        total: Tensor = of_answers + (of_facts * counted).sum()
        return total
