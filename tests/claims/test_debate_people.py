"""C82: weights are less like what people mark the longer the text; C83: explanations help a reader.

Both are simulations: no person is asked. The words of feeling are what people would mark, and a bag-of-words
reader is the layperson.

C82  One `attentive_bilstm` (as in `claims.debate`) for texts of 10, 20, 40 and 80 words, 1,000 of each to
     learn from. Said to hold if the slope of the AUC of weights against gold, over all 500 others, is below 0
     with p < .05. Control: `attentive_mlp`, reported. (It did not come out: FALLS.)
C83  Of the models of `claims.debate` the reader gets three words of most weight: it tells the class in .2
     more of the texts than with three random words. Gradient and other numbers of words: reported.
"""

from functools import cache, partial
from itertools import islice

import pytest
import torch
from scipy.stats import linregress

from claims.debate import BILSTM, MLP, SMALL, case_of, finding
from claims.experiment import held, over_seeds, report
from claims.texts import Texts, fit
from regard.audits import AUDITS
from regard.data.corpora.sentiment import sentiment

pytestmark = pytest.mark.slow
LENGTHS = (10, 20, 40, 80)
FALLS = False  # whether the AUC falls with the length of texts


def mixed(seed, split):
    """Texts of every length in turn."""
    streams = [sentiment(seed, split, length=length) for length in LENGTHS]
    while True:
        for stream in streams:
            yield from islice(stream, 1)


@cache
def lengths_of(seed):
    return Texts(partial(mixed, seed))


def by_length(seed):
    found, data = {}, lengths_of(seed)
    for name in (BILSTM, MLP):
        made = case_of(fit(name, data, seed, 300, 1e-2, **SMALL), seed, data.test)
        areas = torch.tensor(AUDITS["plausibility"](made).details["AUC"])
        line = linregress(made.lengths.tolist(), areas.tolist())
        found |= {
            f"{name} AUC": [areas[made.lengths == length].mean().item() for length in LENGTHS],
            f"{name} slope": line.slope,
            f"{name} p": line.pvalue,
        }
    return found


def test_c82_longer_texts_are_looked_at_less_as_people_do():
    found = over_seeds(by_length)
    report("C82 (simulated)", found)
    falls = held(-found[f"{BILSTM} slope"], 1e-9) and held(-found[f"{BILSTM} p"], -0.05)
    assert falls == FALLS
    assert (found[f"{BILSTM} AUC"].mean(0) >= 0.99).all()  # there is nowhere to fall from


def told(seed):
    found = {}
    for name in (BILSTM, MLP):
        one = finding("communication", name, seed)
        found |= {f"{name} attention": one.value, f"{name} random": one.baseline}
        found |= {f"{name} {by}, by number": one.details[by] for by in ("attention", "gradient", "random")}
    return found


def test_c83_a_reader_tells_the_class_from_the_words_of_most_weight():
    found = over_seeds(told)
    report("C83 (simulated)", found)
    for name in (BILSTM, MLP):
        assert held(found[f"{name} attention"] - found[f"{name} random"], 0.2)
