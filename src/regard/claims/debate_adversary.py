"""C75: a trained adversary pays more where attention matters; C76: whose weights help a model of one word.

Adversaries have the loss of Wiegreffe & Pinter (2019), arXiv:1908.04626, with λ = 0, .001, .01, .1 and 1.
"""

from functools import partial

import torch

from regard.audits import Case
from regard.audits.measures import jsd, tvd
from regard.audits.retraining import retrain, small_mlp
from regard.audits.tests.frozen import decide_with, train_with
from regard.audits.tests.trained_adversary import STRENGTHS, area
from regard.claims.claim import Figures, at_least, claim
from regard.claims.debate_models import (
    BILSTM,
    MLP,
    STEPS,
    Which,
    adversary_of,
    case,
    case_of,
    check,
    fitted,
    new,
    texts,
    tried,
    which,
)
from regard.claims.quick import few, sized
from regard.claims.toy_pairs import train
from regard.claims.toy_texts import class_loss
from regard.tasks.case import pad_rows

COUNT = 200  # texts that the MLP of C76 learns from
debated = partial(claim, group="The debate", fixed="9c6591d")


def compared(one: Case, other: Case) -> tuple[float, float]:
    """JSD of weights and TVD of answers, means over texts."""
    far = jsd(pad_rows(one.shown), pad_rows(other.shown)).mean()
    return float(far), float(tvd(one.probabilities, other.probabilities).mean())


def another(one: Which) -> Case:
    """The model with other first weights and batches."""
    model = new(one)
    torch.manual_seed(one.seed + 1)
    model = type(model)(model.config)
    train(model, texts(one.seed, one.data).batches(one.seed + 1), STEPS, 1e-2, loss=class_loss)
    return case_of(model, tried(one.seed, one.data))


@debated(
    "C75",
    says="A trained adversary pays more where attention matters.",
    source="004:1572-1589",
    experiment="TVD(ŷ, ŷ_b) − λ KL(α ‖ α_b), five λ; area under the curve of TVD over JSD.",
    control="The JSD of two seeds is reported: what is less is no other attention.",
    conditions=[at_least(1e-9, "MLP, area − model, area")],
    minutes=3.0,
)
def curves(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Areas, curves, and how far two seeds are apart."""
    found = {}
    for name, one in (("model", which(check(model), seed, map, data)), ("MLP", which(MLP, seed, map, data))):
        own = case(one)
        points = [compared(case_of(adversary_of(one, s), tried(seed, data)), own) for s in STRENGTHS]
        far, paid = torch.tensor(points, dtype=torch.float64).T
        found[f"{name}, area"] = float(area(far, paid))
        for strength, (jsd_of, tvd_of) in zip(STRENGTHS, points, strict=True):
            found |= {f"{name}, JSD at λ = {strength:g}": jsd_of, f"{name}, TVD at λ = {strength:g}": tvd_of}
        found[f"{name}, JSD of two seeds"] = compared(another(one), own)[0]
    return found


@debated(
    "C76",
    says="Weights that are right help a model without context: its own most, an adversary's least.",
    source="004:1600",
    experiment="An MLP trained on 200 texts for 500 steps with the weights of others in the place of "
    "its own.",
    control="Weights of an adversary (λ = .1).",
    conditions=[
        at_least(1e-9, "BiLSTM − uniform", "the BiLSTM's weights help"),
        at_least(0.02, "BiLSTM − adversary", "the adversary's harm"),
        at_least(0.0, "own − BiLSTM", "its own are best"),
    ],
    minutes=0.8,
    changed="200 texts to learn from: with 2,000 and seed 100 it was right with any weights but the "
    "adversary's.",
    remark="The BiLSTM's weights are worth more to the MLP than its own.",
)
def given_weights(seed: int) -> Figures:
    """Accuracy of an MLP with weights of its own, of a BiLSTM, of an adversary, and 1/n."""
    data = texts(seed)
    learned, asked = data.train.some(slice(sized(COUNT, 48))), tried(seed)
    rows = [[row[:n].tolist() for row, n in zip(p.tokens, p.lengths, strict=True)] for p in (learned, asked)]
    mlp = small_mlp(rows[0], learned.wanted, 2, data.sizes["vocabulary"], steps=few(500))
    own = case_of(retrain(mlp, seed=seed), asked)
    found = {"own": float((own.decision == asked.wanted).double().mean())}
    bilstm = Which(BILSTM, seed)
    for name in ("BiLSTM", "adversary", "uniform"):
        if name == "uniform":
            shown = [
                [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in some]
                for some in rows
            ]
        else:
            model = fitted(bilstm) if name == "BiLSTM" else adversary_of(bilstm, 0.1)
            shown = [list(case_of(model, part).shown) for part in (learned, asked)]
        decision = decide_with(train_with(mlp, shown[0], seed), rows[1], shown[1])
        found[name] = float((decision == asked.wanted).double().mean())
    return found
