"""Integrated gradients: gradient × input, averaged along the path from a baseline to the words.

    score of token j = (x_j − x'_j) · ∫₀¹ ∂y/∂x_j at x' + a(x − x') da        x' = 0, unless a vector is given

In decoders of transformers x' is the mean vector of the vocabulary, and the first token of all keeps its
own: most weight sits on it whatever it is, and on its way through other vectors the answer jumps.

Scores sum to y(x) − y(x'), up to the error of numerical integration. Texts for which they are off by more
than 1 % (models with kinks) are computed again with twice the steps, up to sixteen times as many. With
hold_attention this does not hold. By Captum.

Sundararajan, Taly & Yan (2017), "Axiomatic Attribution for Deep Networks", arXiv:1703.01365, §3. Captum:
Kokhlikyan et al. (2020), arXiv:2009.07896.
"""

from typing import Any

import torch
from torch import Tensor

from regard.explanations.methods import register
from regard.models.subject import HasPathStart, Second, Subject, Target, eval_mode, held, subject

NUMBERS = 1 << 19  # of vectors, times steps, that are computed at once: with gradients, so that memory counts
CLOSE, DOUBLINGS = 0.01, 4


@register(needs="gradients", signed=True)
def integrated_gradients(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, baseline: Tensor | None = None, steps: int = 50, doublings: int = DOUBLINGS,
    hold_attention: bool = False, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Integrated gradients at each token (b, n), for the target class; default: the predicted one.

    The path starts from `baseline` (d,) in place of every word; default: 0, or what the model says. Where
    scores do not add up to what is explained, to a hundredth, steps are doubled, at most so often.
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        raise ImportError("integrated_gradients needs captum: pip install 'regard[explain]'") from None
    if steps < 1:
        raise ValueError(f"steps must be at least 1; got {steps}.")
    asked = subject(model, inputs, lengths, second)
    classes, (vectors, begins) = asked.target(target), _ends(asked, baseline)

    def value(vectors: Tensor, rows: Tensor, classes: Tensor) -> Tensor:
        return asked.value(asked.outputs(vectors, rows=rows), classes)

    def scores(rows: Tensor, steps: int) -> Tensor:
        found: Tensor = IntegratedGradients(value).attribute(
            vectors[rows],
            begins[rows],
            additional_forward_args=(rows, classes[rows]),
            n_steps=steps,
            internal_batch_size=max(NUMBERS // vectors[0].numel(), len(rows)),
        )
        return found.sum(-1).detach().to(vectors.dtype)

    rows = torch.arange(len(vectors), device=vectors.device)
    with eval_mode(model), torch.enable_grad():
        if hold_attention:
            with held(asked):
                return torch.where(asked.real, scores(rows, steps), 0)
        wanted = _difference(asked, classes, vectors, begins)
        found = scores(rows, steps)
        for _ in range(doublings):
            off = ((found.sum(-1) - wanted).abs() > CLOSE * wanted.abs()).nonzero().squeeze(-1)
            if not len(off):
                break
            steps *= 2
            found[off] = scores(off, steps)
    return torch.where(asked.real, found, 0)


def completeness_error(
    model: Any, inputs: Any, lengths: Any = None, *,
    scores: Tensor, target: Target = None, baseline: Tensor | None = None, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """How far scores (b, n) are from adding up: |Σ scores − (y(x) − y(x'))| / |y(x) − y(x')|, (b,)."""
    asked = subject(model, inputs, lengths, second)
    with eval_mode(model):
        wanted = _difference(asked, asked.target(target), *_ends(asked, baseline))
    return (scores.sum(-1) - wanted).abs() / wanted.abs()


def _ends(asked: Subject, baseline: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where the path ends and where it begins, (b, n, d); padding stays as it is."""
    vectors, own = asked.vectors(), baseline is None and isinstance(asked.model, HasPathStart)
    with torch.no_grad():
        begins = asked.model.path_start(vectors) if own else asked.baseline(baseline)
    return vectors, torch.where(asked.real.unsqueeze(-1), begins, vectors)


@torch.no_grad()
def _difference(asked: Subject, classes: Tensor, vectors: Tensor, begins: Tensor) -> Tensor:
    """y(x) − y(x'), (b,)."""
    ends = [asked.value(asked.outputs(one), classes) for one in (vectors, begins)]
    return ends[0] - ends[1]
