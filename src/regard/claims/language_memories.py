"""Experiments on language models: tapes against states (C28), both sides (C59), memories (C60), spans (C61).

Each is a function of a seed that returns figures by name; texts are drawn from the seed, so that nothing is
seen twice. They are small enough for minutes of one thread.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import regard.recording as recording
from regard.claims.claim import Figures, at_least, at_most, claim, compared, must_fail
from regard.claims.quick import few
from regard.data.corpora.brackets import KINDS, brackets
from regard.models.language import BERT, LANGUAGE_MODELS, LanguageModel
from regard.models.language.bert import Config as BERTConfig
from regard.models.language.language_model import detached

Draw = Callable[[torch.Generator], Tensor]  # a batch of tokens (b, n)
FIRST = 4  # tokens before the first that means something
entry = partial(claim, fixed="55d6dca")


def learned(
    name: str, seed: int, draw: Draw, steps: int, segment: int = 0, fastest: float = 3e-3, **config: Any
) -> Any:
    """A model trained on batches of `draw`, in segments if they are longer than that."""
    torch.manual_seed(seed)
    model = LANGUAGE_MODELS[name].make(dropout=0.0, **config).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=fastest)
    chance = torch.Generator().manual_seed(seed)
    steps = few(steps)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = fastest * min(1.0, (step + 1) / 20, (steps - step) / (0.3 * steps))
        tokens, state = draw(chance), None
        inputs, wanted = tokens[:, :-1], tokens[:, 1:]
        size = segment or inputs.shape[1]
        for at in range(0, inputs.shape[1], size):
            hidden, state = model(inputs[:, at : at + size], detached(state) if model.carries else None)
            target = wanted[:, at : at + size].flatten()
            loss = model.loss(hidden.flatten(0, 1), target) / len(target)
            penalty = model.penalty()
            optimiser.zero_grad()
            (loss if penalty is None else loss + penalty).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    return model.eval()


@torch.no_grad()
def said(model: LanguageModel, tokens: Tensor, segment: int = 0) -> Tensor:
    """Logits (b, n − 1, v) of all tokens but the first, read in segments."""
    inputs, state, parts = tokens[:, :-1], None, []
    size = segment or inputs.shape[1]
    for at in range(0, inputs.shape[1], size):
        hidden, state = model(inputs[:, at : at + size], state if model.carries else None)
        parts.append(model.logits(hidden))
    return torch.cat(parts, 1)


@entry(
    "C28",
    group="Flavours of attention",
    says="An LSTMN attends over earlier tokens and needs no fixed memory.",
    source="002:65-81",
    experiment="Nested brackets of four kinds: perplexity of an LSTMN and of an LSTM of as many parameters, "
    "1,000 steps; how often the LSTMN's highest weight is on the open bracket when its closing one is said.",
    control="The LSTM.",
    conditions=[
        at_most(0.95, compared("lstmn / lstm", "perplexity")),
        at_least(0.7, "looks at the opening bracket"),
    ],
    minutes=1.0,
)
def tape(seed: int, steps: int = 1000, width: int = 32) -> Figures:
    """C28: an LSTMN against an LSTM of as many parameters on nested brackets: perplexity, where it looks."""
    signs = sorted({sign for kind in KINDS for sign in kind} | set("abcdefgh") | {"\n"})
    number, made = {sign: FIRST + i for i, sign in enumerate(signs)}, brackets(seed, "train")

    def draw(_: torch.Generator) -> Tensor:
        lines = [next(made).split() for _ in range(32)]
        longest = max(map(len, lines))
        rows = [
            [number["\n"], *(number[s] for s in line), *[number["\n"]] * (longest - len(line))]
            for line in lines
        ]
        return torch.tensor(rows)

    sizes = {"vocabulary": FIRST + len(signs)}
    ours = learned("lstmn", seed, draw, steps, **sizes, width=width, memory=64)
    same = round(width * math.sqrt(11 / 8))  # 11 w² parameters against 8 w²
    theirs = learned("recurrent", seed, draw, steps, **sizes, width=same, layers=1)
    made = brackets(seed, "test")
    tokens, found = draw(torch.Generator()), {}
    for name, model in (("lstmn", ours), ("lstm", theirs)):
        loss = F.cross_entropy(said(model, tokens).flatten(0, 1), tokens[:, 1:].flatten())
        found[f"{name}, perplexity"] = math.exp(float(loss))
        found[f"{name}, parameters"] = float(model.parameter_count())
    found["looks at the opening bracket"] = _looks_at_opening(ours, tokens, number)
    return found


@torch.no_grad()
def _looks_at_opening(model: Any, tokens: Tensor, number: dict[str, int]) -> float:
    """How often the highest weight is on the open bracket of the token before a closing one is said."""
    opening = {number[kind[0]]: number[kind[1]] for kind in KINDS}
    closing, right, count = set(opening.values()), 0, 0
    with recording.record(model, "cell.attention") as seen:
        model(tokens[:, :-1])
    rows = [
        call.weights[:, 0].argmax(-1) for call in seen["cell.attention"]
    ]  # step t reads token t, from t = 1 on
    for b, row in enumerate(tokens.tolist()):
        opened: list[int] = []
        for t, token in enumerate(row):
            if token in closing and t >= 2:
                right, count = right + (int(rows[t - 2][b]) == opened[-1]), count + 1
            if token in opening:
                opened.append(t)
            elif token in closing:
                opened.pop()
    return right / max(count, 1)


@entry(
    "C59",
    group="Positions, heads, depth",
    fixed="55d6dca, b176088 (control)",
    says="Encoders see both sides, decoders one.",
    source="004:1353-1354",
    experiment="Tokens that follow from the one to the right of them: how often a masked encoder and a "
    "decoder say them.",
    control="The decoder, which has not seen the cue.",
    conditions=[at_least(0.05, "both sides − left side"), must_fail(at_most(0.4, "left side"))],
    minutes=1.0,
)
def both_sides(seed: int, steps: int = 150) -> Figures:
    """C59: tokens whose cue stands right of them, said by an encoder of both sides and by a decoder."""
    symbols = 6
    v = FIRST + 2 * symbols

    def draw(chance: torch.Generator) -> Tensor:
        cue = torch.randint(symbols, (32, 8), generator=chance)
        return torch.stack([FIRST + cue, FIRST + symbols + cue], -1).flatten(1)  # effect first, then its cue

    torch.manual_seed(seed)
    encoder = BERT(BERTConfig(v, embedding=32, inner=64, heads=2, layers=2, dropout=0.0)).train()
    optimiser, chance = torch.optim.AdamW(encoder.parameters(), lr=3e-3), torch.Generator().manual_seed(seed)
    for _ in range(few(4 * steps)):
        hidden, wanted = encoder.masked(draw(chance))
        optimiser.zero_grad()
        (encoder.loss(hidden, wanted) / len(wanted)).backward()
        optimiser.step()
    decoder = learned("gpt", seed, draw, steps, vocabulary=v, width=32, inner=64, heads=2, layers=2)
    tokens = draw(torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        embedded = encoder.eval().embed(tokens).clone()
        embedded[:, 6] = encoder.mask  # an effect in the middle, its cue at 7
        from_both = encoder.logits(encoder.from_embedded(embedded)[0][:, 6]).argmax(-1)
    from_left = said(decoder, tokens)[:, 5].argmax(-1)
    return {
        "both sides": float((from_both == tokens[:, 6]).double().mean()),
        "left side": float((from_left == tokens[:, 6]).double().mean()),
    }


@entry(
    "C60",
    group="Subquadratic attention",
    says="Cached memory extends the context.",
    source="004:1356-1358",
    experiment="A symbol is asked for again after 28 or 60 tokens, segments of 16, one layer: Transformer-XL "
    "with a memory of 32, a compressive one of 16 and 16 × 4, and neither. That Transformer-XL equals full "
    "attention where its memory covers the past is a test of the model.",
    control="A decoder without memory; Transformer-XL beyond its memory.",
    conditions=[
        at_least(0.9, "transformer_xl, within", "a memory reaches back"),
        at_least(0.1, compared("compressive − transformer_xl", "beyond"), "a compressed one further"),
        must_fail(at_most(0.25, "gpt, within")),
        must_fail(at_most(0.25, "transformer_xl, beyond")),
    ],
    minutes=2.0,
)
def memories(seed: int, steps: int = 500) -> Figures:
    """C60: a symbol asked for again after some tokens, within and beyond the reach of a memory.

    Segments of 16, one layer; the memory of Transformer-XL has 32 tokens; the compressive one 16 and 16 times
    4 more. Without memory a segment does not see the one before.
    """
    symbols, ask, segment = 8, FIRST + 8, 16
    v = ask + 5
    kinds: dict[str, dict[str, Any]] = {
        "gpt": {},
        "transformer_xl": {"memory": 32},
        "compressive": {"memory": 16, "compressed": 16, "rate": 4},
    }
    found: Figures = {}
    for distance, where in ((28, "within"), (60, "beyond")):

        def draw(chance: torch.Generator, distance: int = distance) -> Tensor:
            rows = torch.randint(ask + 1, v, (32, 81), generator=chance)  # what says nothing
            symbol = FIRST + torch.randint(symbols, (32,), generator=chance)
            rows[:, 79 - distance], rows[:, 79], rows[:, 80] = symbol, ask, symbol
            return rows

        for name, more in kinds.items():
            sizes = {"vocabulary": v, "width": 32, "inner": 64, "heads": 2, "layers": 1, **more}
            model = learned(name, seed, draw, steps, segment, fastest=5e-3, **sizes)
            tokens = draw(torch.Generator().manual_seed(seed + 1))
            right = said(model, tokens, segment)[:, -1].argmax(-1) == tokens[:, -1]
            found[f"{name}, {where}"] = float(right.double().mean())
    return found


@entry(
    "C61",
    group="Subquadratic attention",
    says="Heads can learn how far they look; sparse patterns suffice.",
    source="004:1359-1362",
    experiment="Text that is local but for one token that comes again far from it: learned spans, pulled to "
    "be short, against full attention, n = 64, 400 steps.",
    control="The loss of full attention.",
    conditions=[
        at_most(0.3, "mean span, share of n"),
        at_least(2.0, compared("longest span / mean span", "share of n")),
        at_most(1.01, "loss, adaptive / loss, full"),
    ],
    minutes=1.0,
    remark="Spans become short, and one stays long, as is said; what fails is the loss.",
)
def spans(seed: int, steps: int = 400, n: int = 64) -> Figures:
    """C61: text that is mostly local and in one thing global: learned spans against full attention."""
    symbols = 8
    v = FIRST + 2 * symbols

    def draw(chance: torch.Generator) -> Tensor:
        first = torch.randint(symbols, (16, 1), generator=chance)
        step = torch.randint(1, 3, (16, n), generator=chance)
        rows = FIRST + (first + step.cumsum(1)) % symbols  # each follows the one before it
        key = FIRST + symbols + torch.randint(symbols, (16,), generator=chance)
        rows[:, 0] = key
        rows[:, n // 2 :: 8] = key.unsqueeze(-1)  # and the first token comes again, far from it
        return rows

    sizes = {"vocabulary": v, "width": 32, "inner": 64, "heads": 4, "layers": 2}
    full = learned("gpt", seed, draw, steps, **sizes)
    adaptive = learned("adaptive_span", seed, draw, steps, **sizes, most=n, ramp=8, first=0.5, pull=0.05)
    tokens = draw(torch.Generator().manual_seed(seed + 1))
    losses = [
        F.cross_entropy(said(m, tokens).flatten(0, 1), tokens[:, 1:].flatten()) for m in (full, adaptive)
    ]
    return {
        "loss, full": float(losses[0]),
        "loss, adaptive": float(losses[1]),
        "mean span, share of n": float(adaptive.spans.detach().mean()) / n,
        "longest span, share of n": float(adaptive.spans.detach().max()) / n,
    }
