"""Shift: does an explanation change if the inputs are shifted and the model compensates?

    x' = x + s        f'(x') = f(x' − s)        so f' predicts the same, and its gradient is the same

    value = share of texts whose top word by |gradient · input| is another one in f'
    baseline = the same by the length of the gradient alone: 0

It is a warning about the baseline of `gradient_correlation`, not about attention: the origin of the word
vectors is arbitrary, and gradient × input depends on it. s is one direction, drawn at random, as long as the
word vectors are on average.

Kindermans et al. (2017), "The (Un)reliability of saliency methods", arXiv:1711.00867.
"""

import torch

from regard.audits.measures import kendall
from regard.audits.register import Finding, register
from regard.tasks.case import Case, NotApplicable


@register(None, better="lower", needs="slopes")
def shift(case: Case, *, seed: int = 0) -> Finding:
    """Shift the word vectors, and let the model compensate."""
    assert case.slopes is not None
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for batch in case.batches:
        vectors, slope = (x.detach().double().cpu() for x in case.slopes(case.texts_of(batch), batch.rows))
        parts.append((batch, vectors, slope))
    norms = torch.cat([vectors.norm(dim=-1)[batch.real] for batch, vectors, _ in parts])
    s = torch.randn(parts[0][1].shape[-1], generator=generator, dtype=torch.float64)
    s = s / s.norm() * norms.mean()
    changed, ranks = [], []
    for batch, vectors, slope in parts:
        if not bool(slope.isfinite().all()):
            raise NotApplicable("the gradient is NaN or infinite")
        before, after = (
            (slope * x).sum(-1).abs().masked_fill(~batch.real, -1) for x in (vectors, vectors + s)
        )
        longer = batch.lengths > 1
        changed.append((before.argmax(-1) != after.argmax(-1))[longer].double())
        ranks.append(kendall(before, after, batch.lengths)[longer])
    found, tau = torch.cat(changed), torch.cat(ranks)
    if not len(found):
        raise NotApplicable("no text has two tokens or more")
    says = "share of texts whose top word by gradient × input changes if vectors and model are shifted; "
    says += "baseline: by the gradient alone"
    details = {"order changed": (tau < 1).double().mean(), "Kendall's τ of the two orders": tau.nanmean()}
    return Finding.of(found, 0.0, says, seed, details)
