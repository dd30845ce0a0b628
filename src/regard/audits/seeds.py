"""Seeds: does the same model, begun elsewhere, look at the same words?

    value = mean over texts and other seeds of JSD(α, α')        yardstick = JSD(α, α shuffled)

and how many decisions agree. Where decisions agree and weights do not, either both attentions are right or
neither tells why. Wiegreffe & Pinter (2019), arXiv:1908.04626, §3.3, take it as the floor of what is "other".
"""

import torch

from regard.audits.case import Batch, Case, padded
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap, jsd, tvd
from regard.audits.ours import of_model
from regard.audits.permutation import shuffled
from regard.audits.table import register
from regard.audits.training import of_case


@register(None, trains=True, better="lower")
def seeds(case: Case, *, seed: int = 0, others: int = 2, steps: int | None = None) -> Finding:
    """Train again from other beginnings."""
    train, own = of_case(case), padded(case.shown)
    generator = torch.Generator().manual_seed(seed)
    far, agree, moved = [], [], []
    for number in range(1, others + 1):
        other = of_model(train.fit(seed=seed + number, steps=steps), case.texts)
        far.append(jsd(own, padded(other.shown)))
        agree.append((other.decision == case.decision).double())
        moved.append(tvd(other.said, case.said))

    def by_chance(batch: Batch) -> torch.Tensor:
        return jsd(batch.shown.gather(-1, shuffled(batch.there, generator)), batch.shown)

    found = torch.stack(far).mean(0)
    return Finding(
        float(found.mean()),
        float(case.each(by_chance).mean()),
        bootstrap(found, seed=seed),
        len(case),
        "JSD of weights between seeds; yardstick: of weights with themselves, shuffled",
        details={
            "decisions that agree": float(torch.stack(agree).mean()),
            "TVD": float(torch.stack(moved).mean()),
            "seeds": others + 1,
        },
    )


seeds.trainings = 2  # type: ignore[attr-defined]
