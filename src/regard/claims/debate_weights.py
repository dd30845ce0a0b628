"""C65–C71: what is said against attention, of a model with context; the control has none.

"model" is `attentive_bilstm`, or a user's; "MLP" is `attentive_mlp`, whose states know one word each. Texts,
steps and sizes are those of `debate_models`.
"""

from functools import partial

from regard.audits.retraining import uniform_weights
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.debate_models import BILSTM, MLP, Which, check, finding, fitted, texts, which
from regard.claims.toy_texts import looked

debated = partial(claim, group="The debate", fixed="9c6591d", only_if="states have read the whole text")


def two(seed: int, map: str, model: str, data: str | None) -> dict[str, Which]:
    """The model that is asked about, and the control."""
    return {"model": which(check(model), seed, map, data), "MLP": which(MLP, seed, map, data)}


@debated(
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
def order(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """τ of attention with the two others, and of these with each other."""
    found: Figures = {}
    for name, one in two(seed, map, model, data).items():
        gradient = finding("gradient_correlation", one)
        found |= {
            f"{name}, gradient": gradient.value,
            f"{name}, leave-one-out": finding("leave_one_out_correlation", one).value,
            f"{name}, gradient with leave-one-out": gradient.baseline,
        }
    return found


@claim(
    "C66",
    group="The debate",
    fixed="9c6591d",
    says="Should attention agree with gradients? They are unreliable too.",
    source="004:1632",
    experiment="Vectors of words moved, and the model with them: the order by gradient × input "
    "should not change.",
    control="The gradient alone does not change, by construction of the shift.",
    conditions=[at_least(0.5, "model, order changed")],
    minutes=0.4,
    remark="The order changes; the top word mostly stays.",
)
def shifted(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Shares of texts whose order, and whose top word, change."""
    found: Figures = {}
    for name, one in two(seed, map, model, data).items():
        shift = finding("shift", one)
        found |= {
            f"{name}, order changed": shift.details["order changed"],
            f"{name}, top word changed": shift.value,
        }
        found[f"{name}, τ of the two orders"] = shift.details["Kendall's τ of the two orders"]
    return found


@claim(
    "C67",
    group="The debate",
    fixed="9c6591d",
    says="Other weights with the same answer are easily found.",
    source="004:1465-1489",
    experiment="Share of texts with weights of JSD > ½ at TVD ≤ .05.",
    control="attentive_mlp, reported.",
    conditions=[at_least(0.8, "model")],
    minutes=0.8,
    remark="For the MLP too: another word that says the same is another good reason. `contradiction` "
    "(the audit) asks for words that say something else.",
)
def elsewhere(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Shares of texts, and how far the weights are."""
    found = {name: finding("adversary", one) for name, one in two(seed, map, model, data).items()}
    shares = {name: one.value for name, one in found.items()}
    return shares | {f"{name}, mean JSD": one.details["mean JSD"] for name, one in found.items()}


@debated(
    "C68",
    says="Shuffled weights change little.",
    source="004:1439-1489",
    experiment="Median TVD of the answers with shuffled weights.",
    control="attentive_mlp.",
    conditions=[at_most(0.05, "model"), must_fail(at_least(0.10, "MLP"))],
    minutes=0.4,
)
def shuffled(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Median TVD."""
    return {name: finding("permutation", one).value for name, one in two(seed, map, model, data).items()}


@debated(
    "C69",
    says="Without the top weight decisions rarely flip.",
    source="004:1492-1507",
    experiment="Share of decisions that flip without the word of most weight, and without a random other.",
    control="attentive_mlp.",
    conditions=[
        at_most(0.10, "model"),
        at_least(1e-9, "model − model, random word"),
        must_fail(at_least(0.10, "MLP")),
    ],
    minutes=0.4,
)
def erased(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Shares that flip."""
    found = {name: finding("erasure", one) for name, one in two(seed, map, model, data).items()}
    shares = {name: one.value for name, one in found.items()}
    return shares | {f"{name}, random word": one.baseline for name, one in found.items()}


@claim(
    "C70",
    group="The debate",
    fixed="9c6591d",
    says="Many weights must go before a decision flips, fewer in the order of the gradient.",
    source="004:1511",
    experiment="Share of words removed until the decision flips, the largest first.",
    control="attentive_mlp.",
    conditions=[
        at_least(0.5, "model, attention", "many must go"),
        at_least(0.05, "model, attention − model, gradient", "fewer by gradient"),
        must_fail(at_most(0.5, "MLP, attention")),
    ],
    minutes=0.6,
    remark="In the BiLSTM more must go in the order of the gradient, not fewer.",
)
def removed(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Shares of words, by order of removal."""
    return {
        f"{name}, {order}": share
        for name, one in two(seed, map, model, data).items()
        for order, share in finding("removal", one).details.items()
    }


@debated(
    "C71",
    says="Uniform weights are as good.",
    source="004:1572-1600",
    experiment="Accuracy lost with weights 1/n at test; accuracy of a model trained with 1/n.",
    control="attentive_mlp.",
    conditions=[at_most(0.02, "model, lost"), must_fail(at_least(0.20, "MLP, lost"))],
    minutes=0.7,
    remark="The MLP needs the weights it learned with, but could have learned without.",
)
def evened(seed: int, map: str = "softmax", model: str = BILSTM, data: str | None = None) -> Figures:
    """Accuracies."""
    test = texts(seed, data).test
    found: Figures = {}
    for name, one in two(seed, map, model, data).items():
        details = finding("uniform", one).details
        trained = fitted(which(one.name, seed, map, data, kind="uniform"))
        with trained.looking_with(uniform_weights(test.lengths, 1, test.tokens.shape[1])):
            learned = looked(trained, test)[0]
        own, even = details["accuracy"], details["accuracy_uniform"]
        found |= {f"{name}, own": own, f"{name}, uniform": even, f"{name}, lost": own - even}
        found[f"{name}, trained so"] = learned
    return found
