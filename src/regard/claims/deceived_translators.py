"""S5: a translator can be made not to be seen to look at the words that it translates.

Copying, reversing and flipping of pairs of words: which source word a target word comes from is known. The
penalty − λ log(1 − Σ_j p_j m_j) is on the weight of that word, in every step.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §4, §5.
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention import concat_steps
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.toy_pairs import Pairs, accuracy, read_real, train, translation_loss, translator
from regard.core.tokens import PAD
from regard.data import Batch
from regard.data.corpora.toys import copy, flip, reverse
from regard.recording import record

TASKS = {"copy": copy, "reverse": reverse, "flip": flip}
STEPS, RATE, SIZE, PENALTY, LONGEST = 700, 1e-2, 32, 1.0, 5
EPSILON = 1e-9  # keeps the logarithm finite


def aligned(task: str, lengths: Tensor, m: int, n: int) -> Tensor:
    """True where target word t comes from source word j, False in the row of the end: (b, m, n)."""
    t, end = torch.arange(m), lengths.unsqueeze(-1)
    pair = t ^ 1  # 1 0 3 2 …: the other of two words; the last of an odd number stays
    where = {
        "copy": t.expand(len(lengths), -1),
        "reverse": end - 1 - t,
        "flip": torch.where(pair < end, pair, t),
    }[task]
    return torch.where(t < end, where, -1).unsqueeze(-1) == torch.arange(n)


def weight_on_source(task: str, model: Any, batch: Batch, grad: bool = False) -> tuple[Tensor, Any]:
    """Weight (b, m) on the words that target words come from, and what was read meanwhile."""
    path = model.attention_paths["cross"][-1]
    with record(model, path, grad=grad) as calls:
        read = read_real(model, batch) if not grad else translation_loss(model, batch)
    weights = concat_steps(calls[path]).weights
    there = aligned(task, batch.lengths["source"], *weights.shape[-2:])
    return (weights * there).sum(-1), read


def deceiving(task: str) -> Any:
    """The loss with the penalty."""

    def loss(model: Any, batch: Batch) -> Tensor:
        weight, own = weight_on_source(task, model, batch, grad=True)
        real = batch["target"] != PAD
        found: Tensor = own - PENALTY * (1 - weight[real] + EPSILON).log().mean()
        return found

    return loss


@claim(
    "S5",
    group="The debate",
    says="Attention can be manipulated at no cost, in translators too.",
    source="004:1524-1546",
    experiment="luong learns to copy, to reverse and to flip pairs of words, with −λ log(1 − p) on the "
    "weight p of the word that is written, λ = 1, and without: accuracy and that weight at 5 words.",
    control="Without the penalty most of the weight is on that word; rnn, which has no attention, is worse.",
    conditions=[
        condition
        for task in TASKS
        for condition in (
            at_most(0.05, f"{task}, weight, deceiving", "the weight is hidden"),
            at_least(-0.05, f"{task}, accuracy, deceiving − {task}, accuracy", "accuracy stays"),
            at_least(0.02, f"{task}, accuracy − {task}, accuracy, no attention", "attention is needed"),
            must_fail(at_least(0.5, f"{task}, weight")),
        )
    ],
    minutes=2.5,
    fixed="e8a29de",
)
def hidden_links(seed: int) -> Figures:
    """Accuracy and weight by task, as learned, with the penalty, and without attention."""
    found: Figures = {}
    for task, toy in TASKS.items():
        pairs = Pairs(toy, shortest=3, longest=LONGEST, vocabulary=10)
        tested = pairs.test(LONGEST)
        for name, kind, loss in (
            ("", "luong", translation_loss),
            (", deceiving", "luong", deceiving(task)),
            (", no attention", "rnn", translation_loss),
        ):
            model = translator(kind, seed, **pairs.sizes, width=64)
            train(model, pairs.train(seed, SIZE), STEPS, RATE, loss=loss)
            found[f"{task}, accuracy{name}"] = accuracy(model, tested)
            if kind == "luong":
                with torch.no_grad():
                    weight, _ = weight_on_source(task, model, tested)
                found[f"{task}, weight{name}"] = float(weight[:, :-1].mean())
    return found
