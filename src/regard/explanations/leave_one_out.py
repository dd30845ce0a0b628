"""Leave-one-out: the output with a word and without it.

    score of token j = y(x) − y(x without j)                    measure="fall"
    score of token j = ½ Σ_c |p_c(x) − p_c(x without j)|        measure="tvd", that of Jain & Wallace

Without a word means: it is deleted ("delete"); its vector is 0 ("zero"); another token is in its place (a
number: that of the mask, say). It needs no derivative, so it works for any function. (Of one lecture's
bullets on it, two, on Taylor and on coefficients, belong to the slide on gradients.)

Jain & Wallace (2019), "Attention is not Explanation", arXiv:1902.10186, §4.1; Li, Monroe & Jurafsky (2016),
"Understanding Neural Networks through Representation Erasure", arXiv:1612.08220.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.shapes import are_probabilities
from regard.explanations.methods import register
from regard.models.subject import Second, Subject, Target, eval_mode, subject

TOKENS = 1 << 15  # that are computed at once


@register(needs="outputs", signed=True)
def leave_one_out(
    model: Any, inputs: Any, lengths: Any = None, *,
    by: Literal["delete", "zero"] | int = "delete", measure: Literal["fall", "tvd"] = "fall",
    target: Target = None, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """What each token (b, n) adds to the target class; default: the predicted one."""
    asked = subject(model, inputs, lengths, second)
    if measure not in ("fall", "tvd"):
        raise ValueError(f'measure must be "fall" or "tvd"; got {measure!r}.')
    _check_way(asked, by)
    with eval_mode(model), torch.no_grad():
        classes, whole = asked.target(target), asked.outputs()
        before = asked.value(whole, classes) if measure == "fall" else probabilities(asked, whole)
        start = asked.vectors() if by == "zero" else asked.inputs
        text, place = asked.real.nonzero(as_tuple=True)  # one row for each real token
        scores = torch.zeros(asked.real.shape, dtype=whole.dtype, device=whole.device)
        for some in torch.arange(len(text)).split(max(1, TOKENS // asked.inputs.shape[1])):
            rows, gone = text[some], place[some]
            inputs, lengths = without(start[rows], asked.lengths[rows], gone, by)
            outputs = asked.outputs(inputs, lengths, rows)
            if measure == "fall":
                scores[rows, gone] = before[rows] - asked.value(outputs, classes[rows])
            else:
                scores[rows, gone] = 0.5 * (before[rows] - probabilities(asked, outputs)).abs().sum(-1)
    return scores


def without(inputs: Tensor, lengths: Tensor, gone: Tensor, by: str | int) -> tuple[Tensor, Tensor]:
    """Inputs (r, n, ...) and lengths (r,) without the place `gone` (r,) of each."""
    at = torch.arange(len(inputs), device=inputs.device)
    if by == "delete":
        kept = torch.arange(inputs.shape[1] - 1, device=inputs.device)
        kept = kept + (kept >= gone.unsqueeze(-1))  # (r, n − 1)
        return inputs[at.unsqueeze(-1), kept], lengths - 1
    inputs = inputs.clone()
    inputs[at, gone] = 0 if by == "zero" else int(by)
    return inputs, lengths


def probabilities(asked: Subject, outputs: Tensor) -> Tensor:
    """The probabilities of the classes (b, classes): what a function returns must be that."""
    if asked.embeds:
        return outputs.softmax(-1) if outputs.shape[-1] > 1 else torch.cat([outputs, -outputs], -1).sigmoid()
    if not are_probabilities(outputs):
        raise ValueError(
            'measure="tvd" needs probabilities, and the function returned something else (logits?): rows '
            f"must be at least 0 and sum to 1; the first sums to {float(outputs[0].sum()):.3g}. "
            "Return .softmax(-1)."
        )
    return outputs


def _check_way(asked: Subject, by: Any) -> None:
    if by not in ("delete", "zero") and (isinstance(by, bool) or not isinstance(by, int) or by < 0):
        raise ValueError(f'by must be "delete", "zero" or a token to put in its place; got {by!r}.')
    if by not in ("delete", "zero") and not asked.tokens:
        raise ValueError(f'by={by} puts a token, and inputs are vectors: use by="zero" or "delete".')
    short = (asked.lengths == 1).nonzero()
    if by == "delete" and len(short):
        raise ValueError(
            f'text {int(short[0])} has one token, and nothing is left without it: use by="zero" or a token.'
        )
