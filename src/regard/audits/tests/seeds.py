"""Seeds: does the same model, trained from another seed, attend to the same words?

    value = mean over texts and other seeds of JSD(α, α')        baseline = JSD(α, α shuffled)

and how many decisions agree. Where decisions agree and weights do not, the weights do not say what decided.
Wiegreffe & Pinter (2019), arXiv:1908.04626, §3.3, take it as the least JSD that counts as different.
"""

import torch
from torch import Tensor

from regard.audits.measures import jsd, shuffled, tvd
from regard.audits.register import Finding, register
from regard.audits.retraining import retrain, trainable_of
from regard.tasks.case import Case, CaseBatch, pad_rows


@register(None, trains=True, trainings=2, better="lower")
def seeds(case: Case, *, seed: int = 0, others: int = 2, steps: int | None = None) -> Finding:
    """Train again from other seeds."""
    train, own = trainable_of(case), pad_rows(case.shown)
    generator = torch.Generator().manual_seed(seed)
    far, agree, moved = [], [], []
    for number in range(1, others + 1):
        other = Case.from_model(retrain(train, seed=seed + number, steps=steps), case.texts)
        far.append(jsd(own, pad_rows(other.shown)))
        agree.append(other.decision == case.decision)
        moved.append(tvd(other.probabilities, case.probabilities))

    def by_chance(batch: CaseBatch) -> Tensor:
        return jsd(batch.shown.gather(-1, shuffled(batch.real, generator)), batch.shown)

    says = "JSD of weights between seeds; baseline: of weights with themselves, shuffled"
    details = {
        "decisions that agree": torch.stack(agree).double().mean(),
        "TVD": torch.stack(moved).mean(),
        "seeds": others + 1,
    }
    return Finding.of(torch.stack(far).mean(0), case.each(by_chance), says, seed, details)
