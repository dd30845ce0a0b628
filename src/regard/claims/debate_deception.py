"""C72–C74: attention can be made to hide what is used, and how; C81: plausible is not faithful.

The models are those of `debate_models`, trained with − log(1 − αᵀm), m the words of feeling.
"""

from functools import partial

from regard.audits import Case
from regard.audits.tests.deception import length_ratio, mass
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.debate_models import (
    BILSTM,
    MLP,
    Which,
    case,
    case_of,
    check,
    deceiving_late,
    feeling,
    finding,
    fitted,
    hidden,
    right,
    texts,
    tried,
    which,
)

DECEIVE = (("deceive", 1.0),)
debated = partial(claim, group="The debate", fixed="9c6591d")


def hiding(made: Case, seed: int) -> tuple[float, float, float]:
    """Accuracy, mass on words of feeling, how much longer their states are."""
    words = feeling(texts(seed))
    return right(made), float(mass(made, words).mean()), length_ratio(made, words) or float("nan")


@debated(
    "C72",
    says="Attention can be manipulated at no cost.",
    source="004:1524-1546",
    experiment="−λ log(1 − αᵀm) on the words of feeling, λ = 1.",
    control="Trained without these words: they are needed.",
    conditions=[
        at_least(-0.02, "accuracy, deceiving − accuracy"),
        at_most(0.02, "weight on them, deceiving"),
        must_fail(at_most(0.55, "accuracy without the words")),
    ],
    minutes=0.7,
)
def manipulated(seed: int, map: str = "softmax", model: str = BILSTM) -> Figures:
    """Accuracy and weight, before and after."""
    plain = hiding(case(which(check(model), seed, map)), seed)
    liar = hiding(case(which(model, seed, map, remedies=DECEIVE)), seed)
    without = case_of(fitted(which(model, seed, map, kind="hidden")), hidden(texts(seed), tried(seed)))
    return {
        "accuracy": plain[0],
        "weight on them": plain[1],
        "accuracy, deceiving": liar[0],
        "weight on them, deceiving": liar[1],
        "accuracy without the words": right(without),
        "states longer by, deceiving": liar[2],
    }


@debated(
    "C73",
    says="Deceiving attention leaks through recurrent connections.",
    source="004:1549",
    experiment="The same penalty in the MLP, whose states are bounded by tanh and know one word: no "
    "way to leak.",
    control="C72, where there is one.",
    conditions=[at_most(0.60, "accuracy, deceiving")],
    minutes=0.2,
)
def without_context(seed: int) -> Figures:
    """Accuracy and weight of an MLP that deceives."""
    accuracy, weight, longer = hiding(case(Which(MLP, seed, remedies=DECEIVE)), seed)
    return {"accuracy, deceiving": accuracy, "weight on them": weight, "states longer by": longer}


@debated(
    "C74",
    says="Deceiving attention leaks through the norms of vectors, too.",
    source="004:1550",
    experiment="MLP without tanh, 400 clean steps, then 400 with the penalty.",
    control="With the penalty from the beginning it is not learned.",
    conditions=[
        at_least(0.9, "accuracy, deceiving"),
        at_most(0.05, "weight on them"),
        at_least(5, "states longer by"),
        must_fail(at_most(0.75, "accuracy, from the beginning")),
    ],
    minutes=0.3,
    only_if="the class is learned before the penalty comes",
)
def by_norms(seed: int) -> Figures:
    """Accuracy, weight and length of an MLP without tanh that deceives."""
    late = hiding(case_of(deceiving_late(seed), tried(seed)), seed)
    scratch = hiding(case(Which(MLP, seed, remedies=DECEIVE, settings=(("activation", "none"),))), seed)
    return {
        "accuracy, deceiving": late[0],
        "weight on them": late[1],
        "states longer by": late[2],
        "accuracy, from the beginning": scratch[0],
        "states longer by, from the beginning": scratch[2],
    }


@debated(
    "C81",
    says="Plausible is not faithful (a simulation).",
    source="004:1594",
    experiment="Readers are told that words of feeling play no part, and the weights of C72 agree; "
    "are the words with these weights used? Comprehensiveness: what the class loses without the top "
    "fifth.",
    control="The plain model, whose top words are used.",
    conditions=[
        at_least(0.9, "weight on permitted words"),
        at_most(0.05, "comprehensiveness, deceiving"),
        must_fail(at_least(1e-9, "comprehensiveness − comprehensiveness, deceiving")),
    ],
    minutes=0.5,
)
def pleasing(seed: int) -> Figures:
    """How plausible, and how faithful."""
    liar = Which(BILSTM, seed, remedies=DECEIVE)
    return {
        "weight on permitted words": 1 - hiding(case(liar), seed)[1],
        "comprehensiveness, deceiving": finding("comprehensiveness", liar).value,
        "comprehensiveness": finding("comprehensiveness", Which(BILSTM, seed)).value,
    }
