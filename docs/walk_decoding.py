"""Je suis étudiant: a Transformer of one layer, width 8, two heads of width 4, translates it."""

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from walk_shown import blocks, table

import regard
from regard.core.tokens import BOS, EOS
from regard.models.transformer import Config, Transformer

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
FRENCH = [*SPECIAL, "Je", "suis", "étudiant", "Il", "est", "professeur"]
ENGLISH = [*SPECIAL, "I", "am", "a", "student", "He", "is", "teacher"]
PAIRS = {
    "Je suis étudiant": "I am a student",
    "Je suis professeur": "I am a teacher",
    "Il est étudiant": "He is a student",
    "Il est professeur": "He is a teacher",
}
READ = next(iter(PAIRS)).split()
HEADS = ["head 1", "head 2"]
STEPS = 60  # of training; by then it knows its four sentences


def je_suis_etudiant() -> dict[str, str]:
    """What the page shows, by name; every step is checked against the model's own."""
    model, found = trained(), {}
    source = torch.tensor([[FRENCH.index(word) for word in READ]])
    with torch.no_grad():
        memory, encoded = model.encode(source, torch.tensor([3])), encode(model, source[0], found)
        same(encoded, memory.encoded[0])
        state, said = model.start(memory), [BOS]
        while said[-1] != EOS and len(said) < 8:
            hidden, looked = step(model, encoded, said, found)
            with regard.record(model, "decoder.0.cross") as seen:
                expected, state = model.step(torch.tensor(said[-1:]), state, memory)
            same(hidden, expected)
            same(looked, seen["decoder.0.cross"][0].weights[0])
            said.append(int(model.logits(hidden).argmax()))
    found["said"] = " ".join(ENGLISH[token] for token in said[1:])
    shapes = [(name, p if p.dim() == 2 else p[None]) for name, p in model.named_parameters()]
    found["parameters"] = blocks(*(table(name, p) for name, p in shapes))
    return found


def trained() -> Transformer:
    """A model that has learned the four sentences."""
    sizes: dict[str, Any] = {"width": 8, "inner": 16, "heads": 2, "layers": 1, "dropout": 0.0, "norm": "post"}
    model = Transformer(Config(len(FRENCH), len(ENGLISH), **sizes)).double()
    source = torch.tensor([[FRENCH.index(word) for word in text.split()] for text in PAIRS])
    target = torch.tensor(
        [[BOS, *(ENGLISH.index(word) for word in text.split()), EOS] for text in PAIRS.values()]
    )
    spread(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(STEPS):
        hidden = model(source, torch.full((4,), 3), target[:, :-1])  # teacher forcing: (4, 5, 8)
        loss = F.cross_entropy(model.logits(hidden).flatten(0, 1), target[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def spread(model: Transformer) -> None:
    """First weights of one size, made of whole numbers: these are the same on every machine."""
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for matrix in (p for p in model.parameters() if p.dim() == 2):
            whole = torch.randint(-1000, 1001, matrix.shape, generator=chance).double()
            matrix.copy_(whole / 1000 * sqrt(6 / sum(matrix.shape)))


def encode(model: Any, source: Tensor, found: dict[str, str]) -> Tensor:
    """The source (3,) through the encoder's one layer: (3, 8)."""
    layer, place = model.encoder[0], regard.positions.sinusoidal.sinusoid(torch.arange(3), 8)
    embedded = model.source.E(source) * sqrt(8)
    x = embedded + place
    s, p, z = heads(layer.attention, x, x)
    after = layer.around[0].norm(x + layer.attention.W_o(z))
    inner = F.relu(layer.feed_forward.W1(after))
    encoded = layer.around[1].norm(after + layer.feed_forward.W2(inner))
    found["source"] = blocks(
        table("√8 · E[word]", embedded, READ), table("position", place, READ), table("X = their sum", x, READ)
    )
    found["encoder"] = blocks(
        *(
            table(f"{HEADS[i]}: {name}", m[i], READ, READ)
            for i in range(2)
            for name, m in (("S = QKᵀ/√4", s), ("P = softmax(S)", p))
        ),
        table("Z = [Z₁ Z₂]", z, READ),
        table("Y = LN(X + Z W_O + b_O)", after, READ),
        table("max(0, Y W₁ + b₁)", inner, READ),
        table("R = LN(Y + max(0, Y W₁ + b₁) W₂ + b₂)", encoded, READ),
    )
    return encoded


def step(model: Any, encoded: Tensor, said: list[int], found: dict[str, str]) -> tuple[Tensor, Tensor]:
    """After what has been said: the next hidden vector (1, 8), and the weights on the source (2, 1, 3)."""
    t, layer, words = len(said), model.decoder[0], [ENGLISH[token] for token in said]
    place = regard.positions.sinusoidal.sinusoid(torch.arange(t), 8)
    x = model.target.E(torch.tensor(said)) * sqrt(8) + place  # (t, 8); with one layer, keys are made of it
    _, own, z = heads(layer.attention, x[-1:], x)
    after = layer.around[0].norm(x[-1:] + layer.attention.W_o(z))
    s, p, z = heads(layer.cross, after, encoded)
    looked = layer.around[1].norm(after + layer.cross.W_o(z))
    hidden = layer.around[2].norm(looked + layer.feed_forward(looked))
    logits = model.logits(hidden)
    now = [words[-1]]
    found[f"step-{t}"] = blocks(
        table("X = √8 · E[word] + position", x[-1:], now),
        table("P on what was said, by head", own[:, 0], HEADS, words),
        table("Y = LN(X + Z W_O + b_O)", after, now),
        table("S on the source, by head", s[:, 0], HEADS, READ),
        table("P on the source, by head", p[:, 0], HEADS, READ),
        table("C = LN(Y + Z W_O + b_O)", looked, now),
        table("H = LN(C + FFN(C))", hidden, now),
        table("logits = H Eᵀ", logits, [""], ENGLISH),
        table("probabilities = softmax(logits)", logits.softmax(-1), [""], ENGLISH),
    )
    return hidden, p


def heads(attention: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and weights (2, m, n) of queries x (m, 8) on keys y (n, 8), and the joined contexts (m, 8)."""
    q, k, v = (
        layer(of).unflatten(-1, (2, 4)).transpose(0, 1)
        for layer, of in ((attention.W_q, x), (attention.W_k, y), (attention.W_v, y))
    )
    s = q @ k.mT / sqrt(4)
    p = s.softmax(-1)
    return s, p, (p @ v).transpose(0, 1).flatten(1)


def same(found: Tensor, expected: Tensor) -> None:
    """What was computed here is what the model computes."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
