"""The dynamic pointing decoder: guesses start and end, and guesses again from there.

    h_i = LSTM(h_{i−1}, [u_s; u_e])                        of the last guess (s, e), at first (0, 0)
    s = argmax_t HMN_start(u_t, h_i, u_s, u_e)       e = argmax_t HMN_end(u_t, h_i, u_s, u_e), of the new s

    r = tanh(W^D [h; u_s; u_e])          m¹ = max_p W¹[u_t; r] + b¹          m² = max_p W²m¹ + b²
    HMN = max_p W³[m¹; m²] + b³

with the maximum over p pieces each. Start and end have networks of their own, that share nothing. An example
whose guess did not change stops; the others go on.

Xiong, Zhong & Socher (2017), "Dynamic Coattention Networks for Question Answering", arXiv:1611.01604, §2.3.
W¹u_t is computed once, as it is the same in all iterations.
"""

import torch
from torch import Tensor, nn

from regard.models.parts.padded_lstm import taken
from regard.models.readers.reader_model import SpanLogits, log_softmax


class HighwayMaxout(nn.Module):
    """One network HMN, over hidden states of width `states`."""

    def __init__(self, states: int, width: int, pool: int):
        super().__init__()
        self.width, self.pool = width, pool
        self.r = nn.Linear(width + 2 * states, width, bias=False)
        self.first_states = nn.Linear(states, pool * width)
        self.first_guess = nn.Linear(width, pool * width, bias=False)
        self.second = nn.Linear(width, pool * width)
        self.third = nn.Linear(2 * width, pool)

    def prepare(self, states: Tensor) -> Tensor:
        """W¹u_t + b¹ of all states (b, n, states)."""
        prepared: Tensor = self.first_states(states)
        return prepared

    def forward(self, prepared: Tensor, hidden: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """Scores (b, n), given the decoder's state (b, width) and the states (b, states) of a guess."""
        r = torch.tanh(self.r(torch.cat((hidden, start, end), -1)))
        m1 = self._max(prepared + self.first_guess(r).unsqueeze(1))
        m2 = self._max(self.second(m1))
        scores: Tensor = self.third(torch.cat((m1, m2), -1)).amax(-1)
        return scores

    def _max(self, pieces: Tensor) -> Tensor:
        highest: Tensor = pieces.unflatten(-1, (self.pool, self.width)).amax(-2)
        return highest


class PointingDecoder(nn.Module):
    """Iterated guesses of start and end from hidden states (b, n, states)."""

    def __init__(self, states: int, width: int, pool: int, iterations: int):
        super().__init__()
        self.iterations = iterations
        self.cell = nn.LSTMCell(2 * states, width)
        self.start, self.end = (HighwayMaxout(states, width, pool) for _ in range(2))

    def forward(self, states: Tensor, lengths: Tensor) -> list[SpanLogits]:
        """Log-probabilities of start and end, by iteration; those of an example that stopped stay."""
        b = len(states)
        prepared = self.start.prepare(states), self.end.prepare(states)
        start = end = torch.zeros(b, dtype=torch.long, device=states.device)
        going = torch.ones(b, dtype=torch.bool, device=states.device)
        state: tuple[Tensor, Tensor] | None = None
        found: list[SpanLogits] = []
        for _ in range(self.iterations):
            at = taken(states, torch.stack((start, end), 1))  # (b, 2, states)
            state = self.cell(at.flatten(1), state)
            first = log_softmax(self.start(prepared[0], state[0], at[:, 0], at[:, 1]), lengths)
            new_start = first.argmax(-1)
            there = taken(states, new_start.unsqueeze(1)).squeeze(1)
            last = log_softmax(self.end(prepared[1], state[0], there, at[:, 1]), lengths)
            if found and not self.training:
                first = torch.where(going.unsqueeze(-1), first, found[-1].start)
                last = torch.where(going.unsqueeze(-1), last, found[-1].end)
                new_start = torch.where(going, new_start, start)
            new_end = last.argmax(-1)
            found.append(SpanLogits(first, last))
            going = going & ((new_start != start) | (new_end != end))
            start, end = new_start, new_end
            if not self.training and not bool(going.any()):
                break
        return found
