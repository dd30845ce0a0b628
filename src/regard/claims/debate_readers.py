"""C82: weights are less like what people mark the longer the text; C83: explanations help a reader.

Both are simulations: no person is asked. The words of feeling are what people would mark, and a bag-of-words
reader is the layperson.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice

import torch
from scipy.stats import linregress

from regard.audits import AUDITS
from regard.claims.claim import Figures, at_least, at_most, claim
from regard.claims.debate_models import BILSTM, MLP, SMALL, Which, case_of, finding
from regard.claims.quick import remembered
from regard.claims.toy_texts import Texts, fit
from regard.data.corpora.sentiment import sentiment
from regard.data.corpora.split import Split
from regard.data.labelled import Labelled

LENGTHS = (10, 20, 40, 80)
debated = partial(claim, group="The debate", fixed="9c6591d")


def mixed(seed: int, split: Split) -> Iterator[Labelled]:
    """Texts of every length in turn."""
    streams = [sentiment(seed, split, length=length) for length in LENGTHS]
    while True:
        for stream in streams:
            yield from islice(stream, 1)


@remembered
def texts_of_lengths(seed: int) -> Texts:
    """1,000 texts of each length to learn from, 125 others."""
    return Texts(partial(mixed, seed))


@debated(
    "C82",
    says="Longer texts are looked at less as people do (a simulation).",
    source="004:1626",
    experiment="AUC of weights against gold words in texts of 10, 20, 40 and 80 words.",
    control="attentive_mlp, reported.",
    conditions=[at_most(-1e-9, "BiLSTM, slope"), at_most(0.05, "BiLSTM, p")],
    minutes=0.3,
    remark="The BiLSTM is at the ceiling, the MLP rises: in these texts there is nowhere to fall from.",
)
def by_length(seed: int) -> Figures:
    """AUC by length, and the slope of a line through all texts."""
    data = texts_of_lengths(seed)
    found: Figures = {}
    for name, model in (("BiLSTM", BILSTM), ("MLP", MLP)):
        made = case_of(fit(model, data, seed, 300, 1e-2, **SMALL), data.test)
        areas = torch.tensor(AUDITS["plausibility"](made).details["AUC"])
        line = linregress(made.lengths.tolist(), areas.tolist())
        for length in LENGTHS:
            found[f"{name}, {length} words"] = areas[made.lengths == length].mean().item()
        found |= {f"{name}, slope": line.slope, f"{name}, p": line.pvalue}
    return found


@debated(
    "C83",
    says="Explanations help a reader (a simulation).",
    source="004:1627",
    experiment="Naive Bayes is told k words of a text, 3 of them where nothing else is said, and "
    "must name the class.",
    control="As many words at random.",
    conditions=[
        at_least(0.2, "BiLSTM, attention − BiLSTM, random"),
        at_least(0.2, "MLP, attention − MLP, random"),
    ],
    minutes=0.6,
)
def told(seed: int) -> Figures:
    """The share of classes named, by whose words, and by how many."""
    found: Figures = {}
    for name, model in (("BiLSTM", BILSTM), ("MLP", MLP)):
        one = finding("communication", Which(model, seed))
        found |= {f"{name}, attention": one.value, f"{name}, random": one.baseline}
        for by in ("attention", "gradient", "random"):
            for k, share in zip(one.details["words"], one.details[by], strict=True):
                found[f"{name}, {by}, k = {k}"] = share
    return found
