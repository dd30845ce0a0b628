"""DiffMask: gates, learned from many texts, that keep as few words as the model needs for its prediction.

    vⱼ = gate(hⱼ) ∈ [0, 1]        x̂ⱼ = vⱼ xⱼ + (1 − vⱼ) x'      min E[Σⱼ 1(vⱼ > 0)]/n  so that  KL(y ‖ ŷ) ≤ m

h are the hidden states after some layer, 0 being the word vectors, of the unchanged model; ŷ is the
prediction for the words x̂. So the gates of a layer show which words could be dropped, as far as the hidden
states of that layer tell: the higher the layer, the more. The score of a word is P(vⱼ > 0).

A gate is a small network of one hidden state, the same for all texts: it cannot use the prediction for this
text, as a search for the fewest words of a single text would. So it must be learned first, from texts like
those to be explained:

    gates = learn_gates(model, tokens, lengths, layer=1)
    scores = diffmask(model, tokens, lengths, gates=gates)

Without gates, `diffmask` learns some for each text, from it alone. That is such a search: it sees the
prediction, and may keep words that happen to lead to it. Dropped words are 0 then, unless a vector is given:
the mean of one text would say what the text says.

v is Hard Concrete (`models.parts.hard_concrete`); λ, the weight of KL, rises while KL is above the margin m
and falls while it is below. Of the states of the gates along the way, those are kept that keep the fewest
words within the margin, over all the texts; the last ones, if none is within it.

De Cao, Schlichtkrull, Aziz & Titov (2020), "How do Decisions Emerge across Layers in Neural Models?
Interpretation with Differentiable Masking", arXiv:2004.14992.
Departs from the paper: the gates of a layer see that layer alone, not those below; a dropped word is replaced
by the mean word vector, not by a learned vector, which could come to encode a class.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.recorders import attention_paths
from regard.explanations.methods import register
from regard.models.parts.hard_concrete import open_probability, sample_gates
from regard.models.subject import Second, Subject, Target, eval_mode, subject

OPEN = 2.0  # the scores of gates before they have learned
START, RISE = 3.0, 0.02  # initial log λ, and its largest change in a step
TEXTS = 64  # in a step
EVERY = 25  # steps between two looks at what the gates keep of all texts


class Gates(nn.Module):
    """Gates for the hidden states of one layer of a model."""

    baseline: Tensor  # (d,), x'

    def __init__(self, model: Any, layer: int, width: int, baseline: Tensor):
        super().__init__()
        self.model = [model]  # not a submodule: its weights stay as they are
        self.layer = layer
        first, last = nn.Linear(width, width), nn.Linear(width, 1)
        nn.init.constant_(last.bias, OPEN)
        self.gate = nn.Sequential(first, nn.Tanh(), last).to(baseline)
        self.register_buffer("baseline", baseline)

    def forward(self, inputs: Any, lengths: Any = None, *, second: Second | None = None) -> Tensor:
        """P(vⱼ > 0), the score of each token (b, n); 0 for padding."""
        asked = subject(self.model[0], inputs, lengths, second)
        with torch.no_grad():
            return torch.where(asked.real, open_probability(self.theta(states(asked, self.layer))), 0)

    def theta(self, h: Tensor) -> Tensor:
        """The scores (b, n) of hidden states (b, n, width)."""
        theta: Tensor = self.gate(h).squeeze(-1)
        return theta

    def masked(self, x: Tensor, gates: Tensor) -> Tensor:
        """Word vectors (b, n, d), mixed with the baseline by gates (b, n)."""
        v = gates.unsqueeze(-1)
        return v * x + (1 - v) * self.baseline


@register(needs="gradients")
def diffmask(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, gates: Gates | None = None, baseline: Tensor | None = None, layer: int = 0,
    margin: float = 0.1, steps: int = 300, rate: float = 0.05, seed: int = 0, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Probability (b, n) that a gate keeps the token, for the target against all else; default: all classes.

    `gates` are those of `learn_gates`. Without them some are learned for each text, from it alone.
    """
    if gates is not None:
        return gates.forward(inputs, lengths, second=second)
    asked = subject(model, inputs, lengths, second)
    classes = None if target is None else asked.target(target)
    baseline = asked.baseline(baseline)
    found: list[Tensor] = []
    for i, n in enumerate(asked.lengths.tolist()):
        given = asked.inputs[i : i + 1, :n], asked.lengths[i : i + 1]
        other = None if second is None else (second[0][i : i + 1], second[1][i : i + 1])
        one = None if classes is None else classes[i : i + 1]
        learned = learn_gates(
            model, *given, target=one, baseline=baseline, layer=layer, margin=margin, steps=steps, rate=rate,
            seed=seed, second=other,
        )  # fmt: skip
        found.append(F.pad(learned(*given, second=other)[0], (0, asked.inputs.shape[1] - n)))
    return torch.stack(found)


def learn_gates(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, baseline: Tensor | None = None, layer: int = 0, margin: float = 0.1,
    steps: int = 300, rate: float = 1e-2, seed: int = 0, second: Second | None = None,
) -> Gates:  # fmt: skip
    """Gates of a layer, learned from texts (b, n), that lose at most `margin` nats of KL in the mean.

    KL is that of all classes, or with a target that of this class against all others. Dropped words are
    replaced by `baseline` (d,); default: the mean word vector.
    """
    if not (margin > 0 and math.isfinite(margin)):
        raise ValueError(f"margin must be more than 0 and finite; got {margin}.")
    if steps < 1:
        raise ValueError(f"steps must be at least 1; got {steps}.")
    asked = subject(model, inputs, lengths, second)
    if not asked.embeds:
        raise ValueError(
            "diffmask needs a model with embed and from_embedded; for a function use leave_one_out."
        )
    classes = None if target is None else asked.target(target)

    def said(outputs: Tensor, rows: Tensor) -> Tensor:
        """Log-probabilities of these texts."""
        if classes is None:
            return outputs.log_softmax(-1)
        odds = asked.value(outputs, classes[rows])
        return F.logsigmoid(torch.stack([odds, -odds], -1))

    every, there = torch.arange(len(asked.inputs), device=asked.inputs.device), asked.real
    with eval_mode(model), torch.no_grad():
        x, h, wanted = asked.vectors(), states(asked, layer), said(asked.outputs(), every)
    begin = x[there].mean(0) if baseline is None else asked.baseline(baseline)

    @torch.no_grad()
    def whole() -> tuple[int, float]:
        """How many words of all texts are kept, those open more often than not, and the KL that costs."""
        kept = (open_probability(gates.theta(h)) > 0.5) & there
        found = asked.outputs(gates.masked(x, kept.to(x.dtype)), asked.lengths, every)
        return int(kept.sum()), float(divergence(wanted, said(found, every)))

    price, chance = START, torch.Generator().manual_seed(seed)
    with torch.enable_grad(), eval_mode(model), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        gates = Gates(model, layer, h.shape[-1], begin)
        optimiser = torch.optim.Adam(gates.parameters(), rate)
        fewest, best = math.inf, gates.state_dict()
        for step in range(1, steps + 1):
            some = torch.randperm(len(x), generator=chance)[:TEXTS].to(x.device)
            theta = gates.theta(h[some])
            noise = torch.rand(theta.shape, generator=chance, dtype=theta.dtype).to(x.device)
            masked = gates.masked(x[some], sample_gates(theta, noise))
            found = said(asked.outputs(masked, asked.lengths[some], some), some)
            lost = divergence(wanted[some], found)
            kept = open_probability(theta)[there[some]].mean()
            own = list(gates.parameters())
            for p, gradient in zip(own, torch.autograd.grad(kept + math.exp(price) * lost, own), strict=True):
                p.grad = gradient  # the model's own parameters get none
            optimiser.step()
            price += RISE * max(-1.0, min(1.0, lost.item() / margin - 1))
            if step % EVERY == 0 or step == steps:
                count, cost = whole()
                if (cost <= margin and count < fewest) or (math.isinf(fewest) and step == steps):
                    fewest, best = count, copy.deepcopy(gates.state_dict())
        gates.load_state_dict(best)
    return gates


def states(asked: Subject, layer: int) -> Tensor:
    """The hidden states (b, n, width) after a layer, 0 being the word vectors, of the unchanged model."""
    named = attention_paths(asked.model).get("self", [])  # each is a child of its layer
    layers = [path.rsplit(".", 1)[0] for path in named]
    if not 0 <= layer <= len(layers):
        raise ValueError(
            f"layer must be from 0, the words, to {len(layers)}, the layers of this model; got {layer}."
        )
    if layer == 0:
        return asked.vectors()
    found: list[Tensor] = []
    hook = asked.model.get_submodule(layers[layer - 1]).register_forward_hook(
        lambda module, inputs, output: found.append(output)
    )
    try:
        with eval_mode(asked.model), torch.no_grad():
            asked.outputs()
    finally:
        hook.remove()
    return found[-1][:, -asked.inputs.shape[1] :].detach()  # without positions before the words


def divergence(wanted: Tensor, found: Tensor) -> Tensor:
    """KL of log-probabilities (b, classes), the mean over texts."""
    return F.kl_div(found, wanted, reduction="batchmean", log_target=True)
