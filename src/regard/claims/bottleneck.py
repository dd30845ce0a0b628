"""C1, one fixed vector is a bottleneck that attention removes, and C2, what that is worth beyond training.

`rnn` and `bahdanau` reverse sentences of 3 to 20 words, out of 20 different ones; the model without attention
is made wider, so that it has no fewer parameters. Accuracy is per token, given the right ones before:
mistakes do not add up.
"""

from functools import partial

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import remembered
from regard.claims.toy_pairs import Pairs, accuracy, all_right, slope, train, translator
from regard.data.corpora import reverse

LENGTHS, BEYOND = [5, 10, 15, 20], [30, 40]
WIDTHS = {"bahdanau": 64, "rnn": 74}  # 165,848 and 171,260 parameters
entry = partial(claim, group="Bottleneck and distance", fixed="c8690d8", seeds=(5, 6, 7, 8, 9))


@remembered
def reversed_by(seed: int) -> Figures:
    """Accuracy by length, and the share of whole sentences of 20."""
    pairs, found = Pairs(reverse), {}
    for name, width in WIDTHS.items():
        model = translator(name, seed, **pairs.sizes, width=width)
        train(model, pairs.train(seed), 1500)
        for n in LENGTHS + BEYOND:
            found[f"{name}, {n} words"] = accuracy(model, pairs.test(n))
        found[f"{name}, whole sentences of 20"] = all_right(model, pairs.test(20))
        by_length = [found[f"{name}, {n} words"] for n in LENGTHS]
        found[f"{name}, slope"] = slope([float(n) for n in LENGTHS], by_length)
    return found


@entry(
    "C1",
    says="One fixed vector is a bottleneck; attention removes it.",
    source="000:87-92; 001:107-160; 001:218; 003:152",
    experiment="Reverse 3–20 words of 20: rnn (width 74) and bahdanau (width 64), 1,500 steps of 64.",
    control="At 5 words there is no gap.",
    conditions=[
        at_least(0.2, "bahdanau, 20 words − rnn, 20 words"),
        must_fail(at_most(0.05, "bahdanau, 5 words − rnn, 5 words")),
        at_least(-0.005, "bahdanau, slope"),
        at_most(-0.005, "rnn, slope"),
    ],
    minutes=6.0,
)
def bottleneck(seed: int) -> Figures:
    """Accuracy by length, in training."""
    return {
        name: value
        for name, value in reversed_by(seed).items()
        if not name.endswith(("30 words", "40 words"))
    }


@entry(
    "C2",
    says="Attention helps above all with sentences longer than in training.",
    source="000:90",
    experiment="The models of C1 at 30 and 40 words.",
    control="Both lose.",
    conditions=[
        at_least(0.1, "bahdanau, 30 words − rnn, 30 words"),
        must_fail(at_least(0.05, "rnn, 20 words − rnn, 30 words")),
        must_fail(at_least(0.05, "bahdanau, 20 words − bahdanau, 40 words")),
    ],
    minutes=6.0,
    remark="Attention loses too: by itself it does not give lengths never seen.",
)
def longer(seed: int) -> Figures:
    """Accuracy beyond the lengths of training."""
    return {
        name: value
        for name, value in reversed_by(seed).items()
        if name.endswith(("20 words", "30 words", "40 words"))
    }
