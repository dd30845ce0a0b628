"""C89 and C90: heads specialise, and the others can be pruned.

Twelve words, drawn by Zipf's law from 40; at every place the encoder of a Transformer (2 layers of 8 heads)
is to say the word before, the word after, and the rarest word of the sentence. So there is work for neighbour
heads and for rare-word heads, and for far fewer than sixteen.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.analyses import HeadRoles, Positional, RareWords, TokenizedText, count_roles, prune
from regard.claims.claim import Figures, at_least, at_most, claim
from regard.claims.quick import few, remembered, sized
from regard.claims.toy_pairs import FIRST, train, translator
from regard.recording import record

VOCABULARY, N, WIDTH, HEADS = 40, 12, 64, 8
OFTEN = 1 / torch.arange(1.0, VOCABULARY + 1)  # word 0 is the most frequent
entry = partial(claim, group="Classifiers and explanations", fixed="74b53ef")


class Tagger(nn.Module):
    """The encoder of a Transformer, and three words read at every place."""

    def __init__(self, seed: int):
        super().__init__()
        n = FIRST + VOCABULARY
        sizes = {"source_vocabulary": n, "target_vocabulary": n, "width": WIDTH, "inner": 128}
        self.inner = translator("transformer", seed, heads=HEADS, layers=2, **sizes)
        self.read = nn.Linear(WIDTH, 3 * VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (b, n, 3, vocabulary)."""
        lengths = torch.full((len(tokens),), tokens.shape[1])
        logits: Tensor = self.read(self.inner.encode(tokens, lengths).encoded)
        return logits.reshape(*tokens.shape, 3, VOCABULARY)


class Tagging:
    """What `prune` wants of a task: batches of tokens (b, n), a loss, and how well it went."""

    def __init__(self, seed: int):
        self.seed = seed

    def batches(self, epoch: int, skip: int = 0, size: int = 64) -> Iterator[Tensor]:
        """Sentences without end."""
        chance = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        while True:
            words = torch.multinomial(OFTEN, size * N, replacement=True, generator=chance).view(size, N)
            yield words + FIRST

    def wanted(self, tokens: Tensor) -> Tensor:
        """Words (b, n, 3); −1 where there is none before or after."""
        words = tokens - FIRST
        before, after = F.pad(words[:, :-1], (1, 0), value=-1), F.pad(words[:, 1:], (0, 1), value=-1)
        return torch.stack([before, after, words.amax(-1, keepdim=True).expand_as(words)], -1)

    def loss(self, model: Any, tokens: Tensor) -> tuple[Tensor, int]:
        """The sum of losses, and of how many words."""
        wanted = self.wanted(tokens).flatten()
        loss = F.cross_entropy(model(tokens).flatten(0, 2), wanted, ignore_index=-1, reduction="sum")
        return loss, int((wanted >= 0).sum())

    def validate(self, model: Any) -> dict[str, float]:
        """Loss and accuracy on 500 other sentences."""
        tokens = next(self.batches(-1, size=sized(500)))
        loss, count = self.loss(model, tokens)
        right = (model(tokens).argmax(-1) == self.wanted(tokens)).sum()
        return {"loss": loss.item() / count, "accuracy": right.item() / count}


def weights(model: Tagger, tokens: Tensor) -> Tensor:
    """Weights (b, layers, heads, n, n)."""
    with torch.no_grad(), record(model, "inner.encoder.*.attention") as seen:
        model(tokens)
    return torch.stack([calls[-1].weights for calls in seen.values()], 1)


def roles(model: Tagger, tokens: Tensor) -> list[HeadRoles]:
    """What each head does."""
    counts = Counter({FIRST + k: int(1000 * share) for k, share in enumerate(OFTEN.tolist())})
    each = torch.eye(N, dtype=torch.bool)
    watched = (
        (one, TokenizedText(row.tolist(), each))
        for one, row in zip(weights(model, tokens), tokens, strict=True)
    )
    return count_roles(watched, {"positional": Positional(), "rare words": RareWords(counts, 0)})


def above_permuted(model: Tagger, tokens: Tensor, head: HeadRoles, draws: int = 200) -> float:
    """The share of a head's looks at the rarest word, less the most that permuted places give."""
    most = weights(model, tokens)[:, head.layer, head.head].argmax(-1)  # (b, n)
    rarest = tokens == tokens.amax(-1, keepdim=True)
    share = rarest.gather(1, most).float().mean().item()
    chance = torch.Generator().manual_seed(0)
    orders = (torch.rand(tokens.shape, generator=chance).argsort(-1) for _ in range(sized(draws, 5)))
    return share - max(rarest.gather(1, order).gather(1, most).float().mean().item() for order in orders)


def score_of(head: HeadRoles, role: str) -> float:
    """The best score of a head in a role."""
    best = head.best(role)
    return best.score if best is not None else 0.0


@remembered
def pruned(seed: int) -> Figures:
    """What heads do before pruning, and which are kept."""
    model, task = Tagger(seed), Tagging(seed)
    train(model, task.batches(0), 1500, loss=lambda model, tokens: torch.div(*task.loss(model, tokens)))
    tokens = next(task.batches(-2, size=sized(200, 16)))
    before = {(head.layer, head.head): head for head in roles(model, tokens)}
    rare = max(before.values(), key=lambda head: score_of(head, "rare words"))
    found = prune(model, task, 0.01, paths="inner.encoder.*.attention", steps=few(600), rate=3e-4, seed=seed)
    kept = [
        before[layer, head]
        for layer, gates in enumerate(found.gates.values())
        for head, gate in enumerate(gates)
        if gate > 0
    ]
    special = [head for head in before.values() if head.roles]
    others = len(before) - len(special)
    return {
        "accuracy": found.before["accuracy"],
        "neighbour, best head": max(score_of(head, "positional") for head in before.values()),
        "rarest word, best head": score_of(rare, "rare words"),
        "rarest word, above permutations": above_permuted(model, tokens, rare),
        "heads with a role": float(len(special)),
        "heads kept": float(found.kept),
        "kept, of those with a role": sum(head in kept for head in special) / max(len(special), 1),
        "kept, of the others": sum(head not in special for head in kept) / max(others, 1),
        "points lost": 100 * (found.before["accuracy"] - found.after["accuracy"]),
    }


@entry(
    "C89",
    says="Heads specialise, and those that do are kept when heads are pruned.",
    source="004:1732-1754",
    experiment="Name the word before, the word after and the rarest one; 2 layers of 8 heads, 1,500 "
    "steps, then L0 gates at a price of .01.",
    control="Places permuted within sentences.",
    conditions=[
        at_least(0.9, "neighbour, best head"),
        at_least(0, "rarest word, above permutations"),
        at_least(0, "kept, of those with a role − kept, of the others"),
    ],
    minutes=1.2,
    only_if="the task asks for such heads",
)
def roles_kept(seed: int) -> Figures:
    """Roles of heads, and shares kept."""
    return {name: value for name, value in pruned(seed).items() if name not in ("heads kept", "points lost")}


@entry(
    "C90",
    says="Half of the heads can be pruned for a point of accuracy.",
    source="004:1732-1754",
    experiment="The gates of C89: of sixteen heads at most eight kept, accuracy one point lower at most.",
    control="",
    conditions=[
        at_most(HEADS, "heads kept", "half are closed"),
        at_most(1.0, "points lost", "a point at most"),
    ],
    minutes=1.2,
    remark="Nearly nothing is lost; at this price more than half stay.",
)
def heads_kept(seed: int) -> Figures:
    """Heads kept, and accuracy lost."""
    found = pruned(seed)
    return {name: found[name] for name in ("accuracy", "heads kept", "points lost")}
