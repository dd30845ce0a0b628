"""Beam search: the k most probable prefixes are extended at every step.

    score(y) = log p(y) / ((5 + |y|)/6)^α + β Σⱼ log min(Σᵢ pᵢⱼ, 1)

with |y| counting EOS, α the length penalty and β the coverage penalty for source words with little attention
weight pᵢⱼ (Wu et al. 2016, arXiv:1609.08144, §7, eq. 14). Of all continuations of the k prefixes the k most
probable are kept; finished ones leave the beam. A sentence is done when no prefix in its beam can still score
higher than its k best finished hypotheses: log p only decreases, and the largest divisor is that of the
longest target. A beam of 1 is greedy search; a beam wide enough for all targets finds the best one. A wider
beam can still find a worse target than a narrower one.
"""

from typing import Any

import torch
from torch import Tensor

from regard.core.recorders import attention_paths
from regard.core.tokens import BOS, EOS
from regard.decoding.hypothesis import USUAL, Decodable, Hypothesis, Limits, deciding
from regard.decoding.sampling import FIRST
from regard.kernels.decoding.topk_logsumexp import topk_logsumexp


def penalty(length: Any, alpha: float) -> Any:
    """The length penalty: log p of a target of this length, EOS included, is divided by it."""
    return ((5 + length) / 6) ** alpha


def beam(
    model: Decodable, source: Tensor, lengths: Tensor, limits: Limits = USUAL, *,
    width: int = 5, alpha: float = 1.0, coverage: float = 0.0, best: int = 1,
) -> list[list[Hypothesis]]:  # fmt: skip
    """The `best` hypotheses of each source (b, n) with lengths (b,), best first."""
    if width < 1 or not 1 <= best <= width:
        raise ValueError(
            f"width must be at least 1 and best from 1 to width; got width={width}, best={best}."
        )
    if not (0 <= alpha < 100 and coverage >= 0):
        raise ValueError(f"alpha (below 100) and coverage must be at least 0; got {alpha} and {coverage}.")
    with deciding(model):
        return _Search(model, source, lengths, limits, width, alpha, coverage, best).run()


class _Search:
    """The beams of a batch: `k` rows for each unfinished sentence."""

    def __init__(
        self, model: Decodable, source: Tensor, lengths: Tensor, limits: Limits,
        width: int, alpha: float, coverage: float, best: int,
    ):  # fmt: skip
        self.model, self.k, self.alpha, self.best = model, width, alpha, best
        device, b = source.device, len(lengths)
        self.sentences = torch.arange(b, device=device)  # indices of unfinished sentences
        self.limit = limits.of(lengths)
        self.longest = int(self.limit.max()) if b else 0
        rows = self.sentences.repeat_interleave(width)
        self.memory = model.encode(source, lengths)  # one row per sentence, shared by its hypotheses
        self.state = model.start(self.memory).select(rows)
        self.tokens = torch.full((b * width,), BOS, device=device)
        self.total = torch.full((b, width), -torch.inf, dtype=torch.float64, device=device)  # log p
        self.total[:, 0] = 0  # at first all rows of a sentence are equal: use one
        self.written = torch.empty(b, width, 0, dtype=torch.long, device=device)
        self.ended: list[list[Hypothesis]] = [[] for _ in range(b)]
        self.coverage = Coverage(model, coverage, source.shape[1], lengths, rows) if coverage else None

    def run(self) -> list[list[Hypothesis]]:
        for length in range(1, self.longest + 1):
            if not len(self.sentences):
                break
            self._continue(length)
            self._prune(length)
        return self.ended

    def _continue(self, length: int) -> None:
        """Extend every row by one token: keep the k best of each sentence, and remove those that ended."""
        k, count = self.k, len(self.sentences)
        if self.coverage is None:
            hidden, self.state = self.model.step(self.tokens, self.state, self.memory)
        else:
            hidden, self.state = self.coverage.watch(self.tokens, self.state, self.memory)
        logits = self.model.logits(hidden)  # (count · k, v)
        values, tokens, whole = topk_logsumexp(logits, k, FIRST)  # no row can give more to the k best
        some = values.shape[-1]
        at_limit = (self.limit == length).repeat_interleave(k).unsqueeze(-1)
        if bool(at_limit.any()):  # the next token must be EOS
            end = torch.full_like(values, -torch.inf)
            end[:, :1] = logits[:, EOS : EOS + 1]
            values, tokens = torch.where(at_limit, end, values), tokens.masked_fill(at_limit, EOS)
        totals = self.total.unsqueeze(-1) + (values - whole).double().view(count, k, some)
        total, chosen = totals.view(count, -1).topk(k, -1)  # (count, k)
        row = chosen // some
        token = tokens.view(count, -1).gather(-1, chosen)
        self.written = torch.cat(
            [self.written.gather(1, row.unsqueeze(-1).expand(-1, -1, length - 1)), token.unsqueeze(-1)], -1
        )
        rows = (row + k * torch.arange(count, device=row.device).unsqueeze(-1)).view(-1)
        self.state = self.state.select(rows)
        if self.coverage is not None:
            self.coverage.select(rows)
        ends = (token == EOS) & (total > -torch.inf)
        for i, j in ends.nonzero().tolist():
            self._end(i, j, total[i, j].item(), length)
        self.total = total.masked_fill(token == EOS, -torch.inf)
        self.tokens = token.view(-1)

    def _end(self, i: int, j: int, log_prob: float, length: int) -> None:
        score = log_prob / penalty(length, self.alpha)
        if self.coverage is not None:
            score += self.coverage.of(i * self.k + j)
        found = Hypothesis(self.written[i, j, :-1].tolist(), log_prob, score)
        ended = self.ended[int(self.sentences[i])]
        ended.append(found)
        ended.sort(key=lambda h: -h.score)
        del ended[self.k :]

    def _prune(self, length: int) -> None:
        """Remove sentences that are done."""
        hope = self.total.amax(-1) / penalty(self.limit.double(), self.alpha)  # (count,)
        ended = [self.ended[s] for s in self.sentences.tolist()]
        worst = [found[-1].score if len(found) == self.k else -torch.inf for found in ended]
        enough = torch.tensor(worst, dtype=torch.float64, device=hope.device)
        stay = (hope > enough) & (self.limit > length)
        for s in self.sentences[~stay].tolist():
            del self.ended[s][self.best :]
        if bool(stay.all()):
            return
        keep = stay.nonzero().squeeze(-1)
        rows = (keep.unsqueeze(-1) * self.k + torch.arange(self.k, device=keep.device)).view(-1)
        self.sentences, self.limit, self.total = self.sentences[keep], self.limit[keep], self.total[keep]
        self.written, self.tokens = self.written[keep], self.tokens[rows]
        if len(keep):
            self.state, self.memory = self.state.select(rows), self.memory.select(keep)
            if self.coverage is not None:
                self.coverage.select(rows)


class Coverage:
    """The total weight of each source token so far, in the last cross-attention, averaged over heads."""

    def __init__(self, model: Any, beta: float, n: int, lengths: Tensor, rows: Tensor):
        paths = attention_paths(model).get("cross")
        if not paths:
            raise ValueError("coverage needs a model that attends to its source; this one does not.")
        self.model, self.beta, self.path = model, beta, paths[-1]
        self.real = torch.arange(n, device=rows.device) < lengths[rows].unsqueeze(-1)  # (rows, n)
        self.total = torch.zeros(self.real.shape, dtype=torch.float64, device=rows.device)

    def watch(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Any, Any]:
        """A step of the model, whose weights are added to the totals."""
        from regard.recording import record

        with record(self.model, self.path) as seen:
            hidden, state = self.model.step(tokens, state, memory)
        weights = seen[self.path][-1].weights.double()  # (b, [heads,] k, n)
        weights = weights if weights.dim() == 3 else weights.mean(1)
        self.total = self.total + weights.reshape(len(tokens), -1)
        return hidden, state

    def select(self, rows: Tensor) -> None:
        """Keep these rows."""
        self.total, self.real = self.total[rows], self.real[rows]

    def of(self, row: int) -> float:
        """The penalty of a row, at most 0; totals are at least 1e-10."""
        covered = self.total[row][self.real[row]].clamp(1e-10, 1.0)
        return self.beta * covered.log().sum().item()
