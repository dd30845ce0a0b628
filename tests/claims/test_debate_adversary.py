"""C75: a trained adversary pays more where attention matters; C76: whose weights help one of single words.

The models are those of `claims.debate`; adversaries have the loss of Wiegreffe & Pinter (2019), with λ = 0,
.001, .01, .1 and 1.

C75  The area under the curve of TVD over JSD is smaller for `attentive_bilstm` than for `attentive_mlp`. The
     JSD between two seeds of each is reported: what is less is no other attention.
C76  A small MLP with the weights of others in the place of its own, 500 steps on 200 texts (with seed 100 and
     2,000 texts it was right with any weights but the adversary's). Said to hold if its accuracy
     with its own weights is at least that with the BiLSTM's, which is more than with weights 1/n and .02 more
     than with those of the adversary (λ = .1). (Its own were worth less than the BiLSTM's: OWN_ARE_BEST.)
"""

import pytest
import torch

from claims.debate import BILSTM, MLP, case, case_of, fitted, looks_elsewhere, new, texts
from claims.experiment import held, over_seeds, report, train
from claims.texts import loss
from regard.audits.measures import jsd, tvd
from regard.audits.retraining import small_mlp
from regard.audits.tests.frozen import decide_with, train_with
from regard.audits.tests.trained_adversary import STRENGTHS, area
from regard.tasks.case import pad_rows

pytestmark = pytest.mark.slow
COUNT = 200  # texts that the MLP learns from
OWN_ARE_BEST = False  # whether the MLP's own weights are worth as much to it as the BiLSTM's


def uniform(texts):
    """1/n for each word of each text."""
    return [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in texts]


def compared(one, other):
    """JSD of weights and TVD of answers, means over texts."""
    return (
        float(jsd(pad_rows(one.shown), pad_rows(other.shown)).mean()),
        float(tvd(one.probabilities, other.probabilities).mean()),
    )


def curves(seed):
    found = {}
    for name in (BILSTM, MLP):
        own, data = case(name, seed), texts(seed)
        points = [
            compared(case_of(looks_elsewhere(name, seed, strength), seed), own) for strength in STRENGTHS
        ]
        far, paid = torch.tensor(points, dtype=torch.float64).T
        again = fresh(name, seed)
        train(again, data.batches(seed + 1), 300, 1e-2, loss=loss)
        found |= {
            f"{name} area": area(far, paid),
            f"{name} JSD": far.tolist(),
            f"{name} TVD": paid.tolist(),
            f"{name} JSD of seeds": compared(case_of(again, seed), own)[0],
        }
    return found


def fresh(name, seed):
    """The model of a seed with other first weights."""
    model = new(name, seed)
    torch.manual_seed(seed + 1)
    return type(model)(model.config)


def test_c75_a_trained_adversary_pays_more_where_attention_matters():
    found = over_seeds(curves)
    report("C75", found)
    assert held(found[f"{MLP} area"] - found[f"{BILSTM} area"], 1e-9)


def given_weights(seed):
    data = texts(seed)
    learned, tried = data.train.some(slice(COUNT)), data.test.some(slice(300))
    rows = [[row[:n].tolist() for row, n in zip(p.tokens, p.lengths, strict=True)] for p in (learned, tried)]
    mlp = small_mlp(rows[0], learned.wanted, 2, data.sizes["vocabulary"])
    own = case_of(mlp.fit(seed=seed), seed)
    found = {"own": float((own.decision == tried.wanted).double().mean())}
    for name, model in {
        "BiLSTM": fitted(BILSTM, seed),
        "adversary": looks_elsewhere(BILSTM, seed, 0.1),
        "uniform": None,
    }.items():
        shown = [
            [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in some]
            if model is None
            else case_of(model, seed, part).shown
            for some, part in zip(rows, (learned, tried), strict=True)
        ]
        decision = decide_with(train_with(mlp, shown[0], seed), rows[1], shown[1])
        found[name] = float((decision == tried.wanted).double().mean())
    return found


def test_c76_weights_of_a_bilstm_help_a_model_of_single_words():
    found = over_seeds(given_weights)
    report("C76", found)
    assert held(found["own"] - found["BiLSTM"], 0) == OWN_ARE_BEST
    assert held(found["BiLSTM"] - found["own"], 0)
    assert held(found["BiLSTM"] - found["uniform"], 1e-9)
    assert held(found["BiLSTM"] - found["adversary"], 0.02)
