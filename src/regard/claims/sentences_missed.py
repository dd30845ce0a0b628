"""S1–S3: sentences of the lectures beside the list of claims.

S1  An annotation is said to focus on the words around its own: how much of the gradient of h_i lies there?
S2  "What if we limit or increase the contextualization?" is asked at the end of the debate. The models are
    those of `debate_models`, with `attentive_cnn` between the one that sees a word and the one that sees all.
S3  Attention is said to have few parameters, and to be put into models that exist.
"""

from functools import partial
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.debate_models import BILSTM, MLP, SMALL, Which, case, right, value_of
from regard.claims.quick import sized
from regard.claims.toy_pairs import Pairs, train, translator
from regard.data.corpora import dictionary
from regard.models.classifiers import CLASSIFIERS
from regard.swap import swap

LENGTH, WINDOWS = 12, (1, 3, 7, 15)
entry = partial(claim, group="Beside the list", fixed="ae32f72")


def gradient_mass(model: Any, source: Tensor) -> Tensor:
    """‖∂h_i/∂x_j‖ by i and j, mean over sentences: (n, n)."""
    seen: list[Tensor] = []
    embedding = next(m for m in model.encoder.modules() if isinstance(m, nn.Embedding))
    hook = embedding.register_forward_hook(lambda module, inputs, x: seen.append(x))
    memory = model.encode(source, torch.full((len(source),), source.shape[1]))
    hook.remove()
    h = next(iter(vars(memory).values()))  # (b, n, d)
    rows = []
    for i in range(h.shape[1]):
        chance = torch.randn(h[:, i].shape, generator=torch.Generator().manual_seed(i))
        (grad,) = torch.autograd.grad((h[:, i] * chance).sum(), seen[0], retain_graph=True)
        rows.append(grad.norm(dim=-1).mean(0))
    return torch.stack(rows)


@entry(
    "S1",
    says="An annotation has a strong focus on the words around its own.",
    source="000:121-124",
    experiment="bahdanau learns dictionary, 300 steps; sentences of 12 words: share of the gradient of h_i "
    "that lies at the words i − 1, i and i + 1, and how often word i has most of it.",
    control="A quarter, if it were spread evenly.",
    conditions=[
        at_least(0.5, "share within one word"),
        at_least(0.8, "its own word has most"),
        must_fail(at_most(0.3, "share if spread evenly")),
    ],
    minutes=0.2,
)
def around(seed: int) -> Figures:
    """Shares of the gradient."""
    pairs = Pairs(dictionary, longest=LENGTH)
    model = translator("bahdanau", seed, **pairs.sizes, width=64)
    train(model, pairs.train(seed), 300)
    mass = gradient_mass(model, pairs.test(LENGTH, sized(50, 4))["source"])
    i = torch.arange(LENGTH)
    near = (i[:, None] - i).abs() <= 1
    return {
        "share within one word": float(((mass * near).sum(-1) / mass.sum(-1)).mean()),
        "its own word has most": float((mass.argmax(-1) == i).double().mean()),
        "share if spread evenly": float(near.double().mean()),
    }


@entry(
    "S2",
    says="What if we limit or increase the contextualization?",
    source="004:1638",
    experiment="The texts of the debate; attentive_mlp, attentive_cnn with windows of 1, 3, 7 and 15 words, "
    "attentive_bilstm: τ of weights with the gradient, flips without the top weight, shuffled weights.",
    control="All name the class.",
    conditions=[
        at_most(-0.8, "Spearman of τ with the window", "τ falls with every step of context"),
        at_least(0.25, "MLP, τ − BiLSTM, τ", "a little context does less than all of it"),
        at_least(0.1, "window of 3, τ − BiLSTM, τ", "a little context does less than all of it"),
        must_fail(at_least(0.95, "least accuracy")),
    ],
    minutes=0.3,
    remark="With a window of three words decisions already hardly flip without the top weight: there it "
    "turns. Latent variables, the next question: docs/remedies.md has the audit's grades of a rationalizer.",
)
def contexts(seed: int) -> Figures:
    """τ, flips and shuffled weights by how much a state has read."""
    models = {"MLP": Which(MLP, seed)}
    for window in WINDOWS:
        settings = (("windows", (window,)),)
        models[f"window of {window}"] = Which("attentive_cnn", seed, settings=settings)
    models["BiLSTM"] = Which(BILSTM, seed)
    found: Figures = {}
    for name, one in models.items():
        found |= {
            f"{name}, τ": value_of("gradient_correlation", one),
            f"{name}, flips": value_of("erasure", one),
            f"{name}, shuffled": value_of("permutation", one),
            f"{name}, accuracy": right(case(one)),
        }
    falls = spearmanr(range(len(models)), [found[f"{name}, τ"] for name in models]).statistic
    least = min(found[f"{name}, accuracy"] for name in models)
    return found | {"Spearman of τ with the window": float(falls), "least accuracy": least}


@entry(
    "S3",
    says="Attention has none or few parameters, and is a drop-in.",
    source="004:62-64",
    experiment="attentive_bilstm with the dot, bilinear and additive score: parameters of the attention by "
    "all; nn.MultiheadAttention with another map in the place of softmax: what else changes.",
    control="With softmax in the place of softmax the outputs are the same, with sparsemax not.",
    conditions=[
        at_most(0, "parameters of a dot score", "few parameters"),
        at_most(0.2, "additive score by all parameters", "few parameters"),
        at_most(0, "parameters more after swapping the map", "a drop-in"),
        at_most(1e-6, "outputs change, softmax for softmax", "a drop-in"),
        must_fail(at_least(1e-3, "outputs change, sparsemax for softmax")),
    ],
    exact=True,
)
def drop_in(seed: int) -> Figures:
    """Counts of parameters, and outputs before and after a swap."""
    found: Figures = {}
    for score in ("dot", "bilinear", "additive"):
        torch.manual_seed(seed)
        model: Any = CLASSIFIERS[BILSTM].make(vocabulary=200, classes=2, score=score, **SMALL)
        own = sum(p.numel() for p in model.get_submodule(model.attention_paths["reader"][0]).parameters())
        found[f"{score} score by all parameters"] = own / sum(p.numel() for p in model.parameters())
        if score == "dot":
            found["parameters of a dot score"] = float(own)
    x = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(seed))
    heads = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    before, count = heads(x, x, x)[0].detach(), sum(p.numel() for p in heads.parameters())
    holder = nn.Sequential(heads)
    for map in ("softmax", "sparsemax"):
        swapped = swap(nn.Sequential(heads) if map == "softmax" else holder, map=map)
        with torch.no_grad():
            after = swapped[0](x, x, x)[0]
        found[f"outputs change, {map} for softmax"] = float((after - before).abs().max())
        found["parameters more after swapping the map"] = float(
            sum(p.numel() for p in swapped.parameters()) - count
        )
    return found
