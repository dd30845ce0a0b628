"""Key dependence: do the weights follow what stands in the text at all?

    value = total variation between the weights and those with random keys, the mean over attentions
    baseline = 0: weights that no key changes

Weights of a synthesizer are made without the keys. They may be what the model uses, and still say nothing
about the words: they are the same whatever stands there. Attentions of which this is so are named.

Tay et al. (2021), "Synthesizer", arXiv:2005.00743.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch

NOTHING = 1e-9


@register(None, needs="keys")
def key_dependence(case: Case, *, seed: int = 0) -> Finding:
    """How far the weights change when the keys do."""
    assert case.keys is not None
    change, names = case.keys, list[str]()

    def moved(batch: CaseBatch) -> Tensor:
        found = change(case.texts_of(batch), batch.rows)
        names[:] = found
        return torch.stack(list(found.values()), -1)  # (b, attentions)

    found = case.each(moved)[case.longer]
    by_path = dict(zip(names, found.mean(0).tolist(), strict=True))
    details = {"by attention": by_path, "ignored": [path for path, far in by_path.items() if far <= NOTHING]}
    says = "total variation of the weights when keys are random; baseline: weights without keys"
    return Finding.of(found.mean(-1), 0.0, says, seed, details)
