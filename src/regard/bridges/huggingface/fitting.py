"""One temperature per head, so that another map does in a trained model what softmax did there.

First each head is matched on its own: of some temperatures, the one whose contexts are nearest to softmax's,

    τ_h = argmin_τ Σᵢ ‖map(θᵢ / τ) V − softmax(θᵢ) V‖²

from one pass with softmax over a few windows of text; no gradient. Then all temperatures together are fitted
to the text by gradient descent on −log p (`head_descent`), the weights of the model as they are; with a price
on the temperatures of sparse maps, since lower ones leave fewer keys. If asked, α of each head is learned
with them, and the weights of q and k are tuned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import resolve_map
from regard.backends.call import masked
from regard.bridges.huggingface.head_descent import Learned, descend
from regard.bridges.huggingface.head_settings import HeadEntmax
from regard.bridges.huggingface.model_attentions import attentions_of
from regard.maps.table import facts_of
from regard.recording import record
from regard.swap import swap

GRID = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.3, 16.0)  # temperatures that are tried for each head
ROWS = 64  # queries of a window that heads are matched on
PRICE = 0.15  # of a sparse map's temperatures, in nats for a factor e of all: what support is worth
SUPPORT = 4  # windows that supports are counted in
FAMILY = ("entmax", "entmax15")  # where an α is learned
Numbers = Sequence[float] | Tensor  # one for each head
Say = Callable[[str, int, int], None]  # what is done, how far, of how much


@dataclass(frozen=True)
class Fitted:
    """What came of it; perplexities per token are of text that was not fitted to, if there was any."""

    softmax: float
    before: float  # with the map, at temperature 1
    matched: float  # each head matched on its own
    after: float
    support: float  # the mean number of keys that have weight
    support_share: float  # the mean share of these among the keys that a query sees
    window: int  # keys at most
    tokens: int  # that perplexities are of
    temperatures: dict[str, list[float]]  # by path
    alphas: dict[str, list[float]]  # by path, if they were learned
    tuned: bool = False  # whether the weights of q and k were, too


def fit_temperatures(
    model: Any,
    tokens: Tensor,
    map: str,
    *,
    test: Tensor | None = None,
    window: int = 256,
    steps: int = 100,
    rate: float = 0.05,
    matched_on: int = 2,
    learn_alpha: bool = False,
    tune: bool = False,
    seed: int = 0,
    say: Say = lambda what, done, of: None,
) -> Fitted:
    """Give a language model this map, with temperatures fitted to tokens (n,), cut into windows.

    With `learn_alpha` the map is entmax, with an α for each head that begins at 1.5. With `tune` the weights
    of q and k are changed, too.
    """
    if learn_alpha and map not in FAMILY:
        raise ValueError(f"α is learned of entmax, from 1.5 on: map must be entmax15; got {map}.")
    train = windows(tokens, window)
    held = train[-max(1, len(train) // 10) :] if test is None else windows(test, window)
    train = train[: -len(held)] if test is None and len(train) > 1 else train
    model.eval().requires_grad_(False)
    swap(model, "softmax")
    plain = perplexity(model, held, lambda i, n: say("softmax", i, n))
    found = match_heads(model, train[:matched_on], map, lambda i, n: say("matching heads", i, n))
    swap(model, map)
    before = perplexity(model, held, lambda i, n: say("temperature 1", i, n))
    put(model, map, found)
    matched = perplexity(model, held, lambda i, n: say("heads matched", i, n))
    alphas = {path: torch.full_like(one, 1.5) for path, one in found.items()} if learn_alpha else {}
    if steps:
        put(model, map, found, alphas)
        learned = descend(
            model, train, Learned(found, alphas), steps=steps, rate=rate, tune=tune, seed=seed,
            price=PRICE if (facts := facts_of(resolve_map(map))) is not None and facts.sparse else 0.0,
            say=lambda i, n: say("fitting", i, n),
        )  # fmt: skip
        found, alphas = learned.temperatures, learned.alphas
        put(model, map, found, alphas)
    after = perplexity(model, held, lambda i, n: say("fitted", i, n)) if steps else matched
    support, share = mean_support(model, held[:: -(-len(held) // SUPPORT)])
    temperatures, learned_alphas = (
        {path: [round(t, 4) for t in one.tolist()] for path, one in x.items()} for x in (found, alphas)
    )
    seen, n = held[:, 1:].numel(), held.shape[1]
    return Fitted(
        plain,
        before,
        matched,
        after,
        support,
        share,
        n,
        seen,
        temperatures,
        learned_alphas,
        tune and steps > 0,
    )


def windows(tokens: Tensor, window: int) -> Tensor:
    """Tokens (n,) as rows (k, window); what is left over is not used, unless it is all there is."""
    if len(tokens) < 2:
        raise ValueError(f"a text of {len(tokens)} tokens is too short to fit to.")
    if len(tokens) < window:
        return tokens.unsqueeze(0)
    return tokens[: len(tokens) // window * window].view(-1, window)


def put(
    model: nn.Module,
    map: str,
    temperatures: Mapping[str, Numbers],
    alphas: Mapping[str, Numbers] | None = None,
) -> None:
    """Give each attention its temperatures; where it has α, the map is entmax with these."""
    for path, one in temperatures.items():
        own = HeadEntmax(alphas[path]) if alphas and path in alphas else map
        swap(model, own, temperature=one, paths=path)


def perplexity(model: Any, rows: Tensor, say: Callable[[int, int], None]) -> float:
    """exp of the mean −log p of the tokens of each row (k, n) but the first."""
    total, count = 0.0, 0
    for i, row in enumerate(rows):
        with torch.no_grad():
            logits = model(input_ids=row[None], use_cache=False).logits[0, :-1]
        total += float(F.cross_entropy(logits.float(), row[1:], reduction="sum"))
        count += len(row) - 1
        say(i + 1, len(rows))
    return float(torch.tensor(total / count).exp())


def match_heads(
    model: nn.Module, rows: Tensor, map: str, say: Callable[[int, int], None]
) -> dict[str, Tensor]:
    """The temperature of GRID for each head whose contexts are nearest to softmax's, by path: (heads,)."""
    paths = list(attentions_of(model))
    errors: dict[str, Tensor] = {}
    for i, row in enumerate(rows):
        with torch.no_grad(), record(model, paths) as seen:
            model(input_ids=row[None], use_cache=False)
            for path in paths:
                one = seen[path].pop()
                errors[path] = errors.get(path, torch.zeros(())) + _errors(one, map)
            seen.calls.clear()
        say(i + 1, len(rows))
    return {path: torch.tensor(GRID)[error.argmin(0)] for path, error in errors.items()}


def _errors(seen: Any, map: str) -> Tensor:
    """Squared distances of contexts to softmax's, (temperatures, heads), on some of the queries."""
    function = resolve_map(map)
    scores, values = seen.scores.float(), seen.values.float()  # (1, heads, n, n), (1, heads, n, d)
    some = torch.linspace(0, scores.shape[-2] - 1, min(ROWS, scores.shape[-2])).long()
    visible = None if seen.visible is None else seen.visible.expand(scores.shape)[..., some, :]
    scores, wanted = scores[..., some, :], seen.context.float()[..., some, :]
    found = []
    for temperature in GRID:
        context = masked(function, scores / temperature, visible) @ values
        found.append((context - wanted).square().sum((0, 2, 3)))
    return torch.stack(found)


def mean_support(model: nn.Module, rows: Tensor) -> tuple[float, float]:
    """How many keys have weight, and their share of those visible: means over layers, heads and queries."""
    paths, counts, shares = list(attentions_of(model)), [], []
    with torch.no_grad(), record(model, paths) as seen:
        for row in rows:
            model(input_ids=row[None], use_cache=False)
            for path in paths:
                one = seen[path].pop()
                count = (one.weights > 0).sum(-1)
                seen_by = (
                    torch.ones_like(one.weights, dtype=torch.bool) if one.visible is None else one.visible
                )
                counts.append(count.float().mean())
                shares.append((count / seen_by.sum(-1)).mean())
            seen.calls.clear()
    return float(torch.stack(counts).mean()), float(torch.stack(shares).mean())
