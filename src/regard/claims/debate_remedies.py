"""C77: states with context are alike, and what comes of driving them apart; C78: tying and masked words.

Strengths were chosen with seed 100: diversity λ = .3 (with 1 accuracy falls by .02), tie λ = 1, masked words
η = 1. In these texts no word tells of another, so that there is nothing to guess a masked word by.
"""

from functools import partial

from regard.claims.claim import Figures, at_least, at_most, claim, compared, must_fail
from regard.claims.debate_models import BILSTM, MLP, Which, case, right, value_of

TESTS = {
    "conicity": "conicity",
    "gradient_correlation": "τ with gradient",
    "leave_one_out_correlation": "τ with leave-one-out",
    "erasure": "flips without the top weight",
    "adversary": "texts with other weights",
}
debated = partial(claim, group="The debate", fixed="9c6591d")


def asked(name: str, one: Which) -> Figures:
    """Accuracy and what TESTS find, under the name of the model."""
    found = {f"{name}, accuracy": right(case(one))}
    for test, what in TESTS.items():
        found[f"{name}, {what}"] = value_of(test, one)
    return found


@debated(
    "C77",
    says="States with context are alike; with more diverse ones attention is more faithful.",
    source="004:1645-1653",
    experiment="Conicity of BiLSTM and MLP; diversity loss λ = .3, orthogonal LSTM.",
    control="The MLP, whose states know one word each.",
    conditions=[
        at_least(0.1, compared("BiLSTM − MLP", "conicity"), "states with context are more alike"),
        at_most(0.5, compared("diverse / BiLSTM", "conicity"), "conicity falls"),
        at_least(-0.01, compared("diverse − BiLSTM", "accuracy"), "conicity falls"),
        at_least(0.1, compared("diverse − BiLSTM", "τ with gradient"), "τ rises"),
        at_least(2, compared("diverse / BiLSTM", "flips without the top weight"), "flips rise"),
    ],
    minutes=0.4,
    remark="Far more decisions hang on the largest weight; the order of words by gradient is no nearer.",
)
def diverse(seed: int) -> Figures:
    """Four models, each asked the same."""
    return {
        **asked("MLP", Which(MLP, seed)),
        **asked("BiLSTM", Which(BILSTM, seed)),
        **asked("diverse", Which(BILSTM, seed, remedies=(("diversity", 0.3),))),
        **asked("orthogonal", Which(BILSTM, seed, settings=(("orthogonal", True),))),
    }


@debated(
    "C78",
    says="Tying states to their words, and masked words, restore faithfulness.",
    source="004:1657-1672",
    experiment="Tie λ = 1, masked words η = 1: texts with other weights of the same answer, τ with "
    "leave-one-out.",
    control="The sign of one lecture, states driven away from their words: no better.",
    conditions=[
        at_least(
            0.15,
            compared("BiLSTM − tied", "texts with other weights"),
            "tied: fewer other weights",
        ),
        at_least(0.1, compared("tied − BiLSTM", "τ with leave-one-out"), "tied: τ rises"),
        at_least(0.15, compared("BiLSTM − masked", "texts with other weights"), "masked: fewer"),
        at_least(0.1, compared("masked − BiLSTM", "τ with leave-one-out"), "masked: τ rises"),
        must_fail(at_most(0.1, "apart, better by")),
    ],
    minutes=0.4,
    remark="Masked words change nothing where no word tells of another.",
)
def tied(seed: int) -> Figures:
    """Four models, each asked the same."""
    found = {
        **asked("BiLSTM", Which(BILSTM, seed)),
        **asked("tied", Which(BILSTM, seed, remedies=(("tie", 1.0),))),
        **asked("masked", Which(BILSTM, seed, remedies=(("mlm", 1.0),))),
        **asked("apart", Which(BILSTM, seed, kind="apart")),
    }
    gain = found["apart, τ with leave-one-out"] - found["BiLSTM, τ with leave-one-out"]
    return found | {"apart, better by": gain if gain == gain else 0.0}
