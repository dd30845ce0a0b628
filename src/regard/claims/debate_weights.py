"""C65–C71: what is said against attention, of a model with context; the control has none.

"model" is `attentive_bilstm`, or a user's; "MLP" is `attentive_mlp`, whose states know one word each. Texts,
steps and sizes are those of `debate_models`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from regard.audits.retraining import uniform_weights
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.debate_models import BILSTM, MLP, Which, check, finding, fitted, texts, which
from regard.claims.toy_texts import looked

debated = partial(claim, group="The debate", fixed="9c6591d", control="attentive_mlp.")
of_context = partial(debated, only_if="states have read the whole text")


def of_both(figures: Callable[[Which], Figures]) -> Callable[..., Figures]:
    """The experiment that asks for figures of the model, and of the control; "" names the main one."""

    def measure(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
        both = {"model": which(check(model), seed, map, data), "MLP": which(MLP, seed, map, data)}
        return {
            f"{name}, {what}" if what else name: value
            for name, one in both.items()
            for what, value in figures(one).items()
        }

    return measure


def asking(*tests: str) -> Callable[[Callable[..., Figures]], Callable[..., Figures]]:
    """The experiment that makes its figures of what tests of the audit find, of both."""
    return lambda figures: of_both(lambda one: figures(*(finding(test, one) for test in tests)))


@of_context(
    "C65",
    says="Attention does not order words as gradients or leave-one-out do.",
    source="004:1439-1464",
    experiment="Kendall's τ of weights with gradient and with leave-one-out, 300 texts.",
    control="attentive_mlp, whose states know one word each.",
    conditions=[
        *(at_most(0.40, f"model, {other}") for other in ("gradient", "leave-one-out")),
        *(must_fail(at_least(0.55, f"MLP, {other}")) for other in ("gradient", "leave-one-out")),
        *(at_least(0.25, f"MLP, {other} − model, {other}") for other in ("gradient", "leave-one-out")),
    ],
    minutes=0.7,
    remark="It is about context: of the MLP the contrary is true.",
)
@asking("gradient_correlation", "leave_one_out_correlation")
def order(gradient: Any, left_out: Any) -> Figures:
    """τ of attention with the two others, and of these with each other."""
    return {
        "gradient": gradient.value,
        "leave-one-out": left_out.value,
        "gradient with leave-one-out": gradient.baseline,
    }


@debated(
    "C66",
    says="Should attention agree with gradients? They are unreliable too.",
    source="004:1632",
    experiment="Vectors of words moved, and the model with them: the order by gradient × input "
    "should not change.",
    control="The gradient alone does not change, by construction of the shift.",
    conditions=[at_least(0.5, "model, order changed")],
    minutes=0.4,
    remark="The order changes; the top word mostly stays.",
)
@asking("shift")
def shifted(shift: Any) -> Figures:
    """Shares of texts whose order, and whose top word, change."""
    return {
        "order changed": shift.details["order changed"],
        "top word changed": shift.value,
        "τ of the two orders": shift.details["Kendall's τ of the two orders"],
    }


@debated(
    "C67",
    says="Other weights with the same answer are easily found.",
    source="004:1465-1489",
    experiment="Share of texts with weights of JSD > ½ at TVD ≤ .05.",
    control="attentive_mlp, reported.",
    conditions=[at_least(0.8, "model")],
    minutes=0.8,
    remark="For the MLP too: another word that says the same is another good reason. `contradiction` "
    "(the audit) asks for words that say something else.",
)
@asking("adversary")
def elsewhere(found: Any) -> Figures:
    """Shares of texts, and how far the weights are."""
    return {"": found.value, "mean JSD": found.details["mean JSD"]}


@of_context(
    "C68",
    says="Shuffled weights change little.",
    source="004:1439-1489",
    experiment="Median TVD of the answers with shuffled weights.",
    conditions=[at_most(0.05, "model"), must_fail(at_least(0.10, "MLP"))],
    minutes=0.4,
)
@asking("permutation")
def shuffled(found: Any) -> Figures:
    """Median TVD."""
    return {"": found.value}


@of_context(
    "C69",
    says="Without the top weight decisions rarely flip.",
    source="004:1492-1507",
    experiment="Share of decisions that flip without the word of most weight, and without a random other.",
    conditions=[
        at_most(0.10, "model"),
        at_least(1e-9, "model − model, random word"),
        must_fail(at_least(0.10, "MLP")),
    ],
    minutes=0.4,
)
@asking("erasure")
def erased(found: Any) -> Figures:
    """Shares that flip."""
    return {"": found.value, "random word": found.baseline}


@debated(
    "C70",
    says="Many weights must go before a decision flips, fewer in the order of the gradient.",
    source="004:1511",
    experiment="Share of words removed until the decision flips, the largest first.",
    conditions=[
        at_least(0.5, "model, attention", "many must go"),
        at_least(0.05, "model, attention − model, gradient", "fewer by gradient"),
        must_fail(at_most(0.5, "MLP, attention")),
    ],
    minutes=0.6,
    remark="In the BiLSTM more must go in the order of the gradient, not fewer.",
)
@asking("removal")
def removed(found: Any) -> Figures:
    """Shares of words, by order of removal."""
    return dict(found.details)


@of_context(
    "C71",
    says="Uniform weights are as good.",
    source="004:1572-1600",
    experiment="Accuracy lost with weights 1/n at test; accuracy of a model trained with 1/n.",
    conditions=[at_most(0.02, "model, lost"), must_fail(at_least(0.20, "MLP, lost"))],
    minutes=0.7,
    remark="The MLP needs the weights it learned with, but could have learned without.",
)
@of_both
def evened(one: Which) -> Figures:
    """Accuracies."""
    test = texts(one.seed, one.data).test
    details = finding("uniform", one).details
    trained = fitted(replace(one, kind="uniform"))
    with trained.looking_with(uniform_weights(test.lengths, 1, test.tokens.shape[1])):
        learned = looked(trained, test)[0]
    own, even = details["accuracy"], details["accuracy_uniform"]
    return {"own": own, "uniform": even, "lost": own - even, "trained so": learned}
