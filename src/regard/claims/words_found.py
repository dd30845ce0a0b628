"""C24: attention finds the word that matters; C25: several rows find several; C33: sentences, then words.

C26, that the diagonal of AAᵀ is not 1, is a formula.
"""

from functools import partial
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, claim, compared, must_fail
from regard.claims.quick import remembered
from regard.claims.toy_texts import Encoded, Texts, fit, looked, or_neither
from regard.data.corpora.hotels import hotels
from regard.data.corpora.sentiment import sentiment
from regard.models.classifiers.self_attentive import redundancy
from regard.recording import record

SMALL: dict[str, Any] = {"embedding": 32, "width": 32, "dropout": 0.1, "word_dropout": 0.05}
ASPECTS: tuple[Literal["location", "cleanliness", "service"], ...] = ("location", "cleanliness", "service")
SENTENCES, EACH = 10, 5  # of a document, and words of each
entry = partial(claim, group="Classifiers and explanations", fixed="5264917")


@remembered
def one_word(seed: int, kind: str) -> Texts:
    """Texts with one word of feeling, of two classes; or of three; or with classes drawn at random."""
    corpus = partial(sentiment, most=1)
    data = Texts(partial(or_neither, corpus, seed) if kind == "three" else partial(corpus, seed))
    if kind == "at random":
        chance = torch.Generator().manual_seed(seed)
        data.train = data.train._replace(wanted=torch.randint(2, data.train.wanted.shape, generator=chance))
    return data


@entry(
    "C24",
    says="Attention finds the most relevant word, and it gets 1.0.",
    source="000:62-79",
    experiment="One word of feeling among 24, or none (a third class); attentive_mlp and "
    "attentive_bilstm, softmax and entmax15, 300 steps. Beside it two classes alone, where the words "
    "of one are enough.",
    control="Classes drawn at random, where no word matters.",
    conditions=[
        condition
        for name in ("BiLSTM", "MLP")
        for condition in (
            at_least(0.95, f"{name}, three classes, entmax15: weight"),
            at_least(0.7, f"{name}, three classes, softmax: weight"),
            at_least(0.98, f"{name}, three classes, entmax15: accuracy"),
            at_least(0.98, f"{name}, three classes, softmax: accuracy"),
            must_fail(at_most(0.5, f"{name}, classes at random, entmax15: weight")),
        )
    ],
    minutes=0.3,
    changed="The third class was added after seed 100, where a BiLSTM with softmax had little "
    "more than half of its weight on the word.",
    remark="With two classes it is enough to know the words of one, and it depends on the seed.",
)
def the_word(seed: int) -> Figures:
    """Weight on the word of feeling and accuracy, by model, texts and map."""
    found: Figures = {}
    models = {"BiLSTM": "attentive_bilstm", "MLP": "attentive_mlp"}
    kinds = [*product(("three", "two"), ("entmax15", "softmax")), ("at random", "entmax15")]
    for (name, model), (kind, map) in product(models.items(), kinds):
        data = one_word(seed, kind)
        accuracy, weights = looked(fit(model, data, seed, 300, 1e-2, map=map, **SMALL), data.test)
        on_gold = (weights * data.test.gold.unsqueeze(1)).sum((-2, -1))[data.test.gold.any(-1)]
        texts = "classes at random" if kind == "at random" else f"{kind} classes"
        found |= {
            f"{name}, {texts}, {map}: weight": on_gold.mean().item(),
            f"{name}, {texts}, {map}: accuracy": accuracy,
        }
    return found


@entry(
    "C25",
    says="Several rows attend to different aspects; the penalty makes them less alike.",
    source="002:106-130; 003:202",
    experiment="hotels, three aspects; self_attentive, four rows, λ = 0 and 1, 300 steps.",
    control="λ = 0.",
    conditions=[
        at_most(0.5, compared("λ = 1 / λ = 0", "product of two rows"), "rows become unlike"),
        at_least(1e-9, compared("λ = 1 − λ = 0", "aspects covered"), "more aspects are covered"),
        at_least(-0.01, compared("λ = 1 − λ = 0", "accuracy"), "rows become unlike"),
    ],
    minutes=1.5,
    remark="Rows become unlike and sharp, each on one word of its own; fewer aspects are looked at, "
    "and no answer suffers: a state of the BiLSTM has read the whole text, so that a row may look "
    "anywhere.",
)
def rows(seed: int) -> Figures:
    """How alike rows are and which aspects some row looks at most."""
    data = Texts(partial(hotels, seed))
    found: Figures = {}
    spoken = torch.stack(
        [Texts(partial(hotels, seed, aspect=aspect)).test.gold for aspect in ASPECTS]
    )  # (3, b, n)
    for penalty in (0.0, 1.0):
        own = {"rows": 4, "compared": 32, "inner": 32, "penalty": penalty}
        accuracy, weights = looked(fit("self_attentive", data, seed, 300, 5e-3, **own, **SMALL), data.test)
        products = weights @ weights.mT  # (b, 4, 4)
        top = torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1).amax(1) > 0  # (b, n)
        diagonal = products.diagonal(dim1=-2, dim2=-1)
        off = (products.sum((-2, -1)) - diagonal.sum(-1)) / 12
        found |= {
            f"λ = {penalty:g}, accuracy": accuracy,
            f"λ = {penalty:g}, product of two rows": off.mean().item(),
            f"λ = {penalty:g}, diagonal of AAᵀ": diagonal.mean().item(),
            f"λ = {penalty:g}, aspects covered": (spoken & top).any(-1).float().mean().item(),
        }
    return found


@entry(
    "C26",
    fixed="e1da394",
    says="The diagonal of AAᵀ is 1, “obviously”.",
    source="002:126",
    experiment="Σⱼ aᵢⱼ² of uniform rows over 10 words and of rows on one word; the penalty of both.",
    control="Rows on one word, where it is 1.",
    conditions=[
        at_least(0.999, "uniform rows, diagonal"),
        must_fail(at_least(0.999, "rows on one word, diagonal")),
        must_fail(at_most(1e-6, "rows on one word, penalty")),
    ],
    exact=True,
    remark="False as printed: it is 1/n for uniform rows, and 1 for rows on one word alone. So the "
    "penalty also makes rows sharp.",
)
def diagonal(seed: int, n: int = 10) -> Figures:
    """The diagonal of AAᵀ, and the product of two equal rows."""
    uniform, one_hot = torch.full((2, n), 1 / n), torch.eye(n)[:2]
    return {
        "uniform rows, diagonal": float((uniform @ uniform.mT)[0, 0]),
        "two equal uniform rows, product": float((uniform @ uniform.mT)[0, 1]),
        "rows on one word, diagonal": float((one_hot @ one_hot.mT)[0, 0]),
        "rows on one word, penalty": float(redundancy(one_hot)),
        "uniform rows, penalty": float(redundancy(uniform)),
    }


def places(model: Any, texts: Encoded) -> Figures:
    """Shares of texts whose top sentence, and top word in it, are right; flat weights are summed over it."""
    texts = texts.some(texts.gold.any(-1))
    paths = model.attention_paths["reader"]
    with torch.inference_mode(), record(model.eval(), paths) as seen:
        model(texts.tokens, texts.lengths)
    each = EACH + 1  # words of a sentence, and its dot
    rows, gold = torch.arange(len(texts.gold)), texts.gold.int().argmax(-1)
    sentences: Tensor
    if len(paths) == 2:
        words, sentences = (seen[path][-1].weights for path in paths)  # (b, s, n), (b, 1, s)
        words = words[rows, gold // each]  # (b, n), 0 outside of the sentence
    else:
        words = seen[paths[0]][-1].weights.squeeze(1)  # (b, n)
        sentences = words.unflatten(-1, (SENTENCES, each)).sum(-1)
    return {
        "sentence": (sentences.flatten(1).argmax(-1) == gold // each).float().mean().item(),
        "word": (words.argmax(-1) == gold).float().mean().item(),
    }


@entry(
    "C33",
    says="Hierarchical attention finds the sentence, and the word in it.",
    source="004:441-449",
    experiment="Documents of ten sentences, one word of feeling in one of them, or none (a third class); "
    "hierarchical, 200 steps. Beside it flat attention.",
    control="Two classes only, where it is enough to know the words of one.",
    conditions=[
        at_least(0.9, "hierarchical: sentence", "the sentence"),
        at_least(0.9, "hierarchical: accuracy", "the sentence"),
        at_least(0.9, "hierarchical: word", "the word"),
        must_fail(at_most(0.9, "two classes: word")),
    ],
    minutes=0.3,
    changed="The third class was added after seed 100.",
    remark="Flat attention does as well.",
)
def documents(seed: int) -> Figures:
    """Accuracy, sentence and word found."""
    found = {}
    corpus = partial(sentiment, length=SENTENCES * EACH, most=1, sentences=SENTENCES)
    three, two = Texts(partial(or_neither, corpus, seed)), Texts(partial(corpus, seed))
    for kind, name, data in (
        ("hierarchical", "hierarchical", three),
        ("flat", "attentive_bilstm", three),
        ("two classes", "hierarchical", two),
    ):
        own: dict[str, Any] = {"ends": (data.ids["."],)} if name == "hierarchical" else {}
        model = fit(name, data, seed, 200, 1e-2, **own, **SMALL)
        found[f"{kind}: accuracy"] = looked(model, data.test)[0]
        found |= {f"{kind}: {what}": share for what, share in places(model, data.test).items()}
    return found
