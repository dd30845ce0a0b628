"""C93: the accuracy of a probe hardly tells real labels from labels drawn at random; the codelength does.

200 word types with a state each, met 6,000 times, each time with a little noise, frequent types more often.
Real labels are linear in the state of the type; those of the control task are drawn for each type. The probe
has a wide hidden layer.
"""

from functools import partial

import torch
from torch import Tensor

from regard.analyses import control_task, online, variational
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import few, sized

TYPES, N, D, K, NOISE = 200, 6000, 32, 8, 0.1


def words(seed: int, n: int = N) -> tuple[Tensor, Tensor, Tensor]:
    """States (n, D), real labels and the labels of a control task, (n,) each."""
    chance = torch.Generator().manual_seed(seed)
    vectors, map = torch.randn(TYPES, D, generator=chance), torch.randn(D, K, generator=chance)
    often = 1 / torch.arange(3.0, TYPES + 3)  # Zipf's law, but for the very first
    types = torch.multinomial(often, n, replacement=True, generator=chance)
    states = vectors[types] + NOISE * torch.randn(n, D, generator=chance)
    real = (vectors @ map).argmax(-1)[types]
    return states, real, control_task(types.tolist(), real, seed)


@claim(
    "C93",
    group="Classifiers and explanations",
    fixed="5264917",
    says="The accuracy of a probe misleads, the codelength does not.",
    source="004:1707-1713",
    experiment="States of 200 word types; labels linear in them, and a control task: accuracy of a "
    "wide probe, online and variational codelength.",
    control="The two codes agree on which is longer.",
    conditions=[
        at_most(0.1, "accuracy apart, online", "accuracies are alike"),
        at_least(2.0, "control by real code, online", "the control's code is twice as long"),
        must_fail(at_least(1.0, "control by real code, online")),
        must_fail(at_least(1.0, "control by real code, variational")),
    ],
    minutes=0.2,
    remark="As claimed in kind: accuracies are the same and the codes are not.",
)
def codes(seed: int) -> Figures:
    """Accuracies and codelengths, real labels and control."""
    states, real, control = words(seed, sized(N, 48))
    found: Figures = {}
    for name, code in (("online", online), ("variational", partial(variational, steps=few(1500)))):
        ours, theirs = (
            code(states, labels, K, hidden=sized(256, 16), seed=seed) for labels in (real, control)
        )
        found |= {
            f"accuracy apart, {name}": ours.accuracy - theirs.accuracy,
            f"control by real code, {name}": theirs.bits / ours.bits,
            f"compression of real labels, {name}": ours.compression,
        }
    return found
