"""C9: how much of a model has to wait, how few steps it learns in, and what else is gained and lost.

Operations along the longest path of the graph are counted; steps are those until 95 % of the held-out target
tokens are right, in a budget of 1,000 steps. With it the table of lecture 004, "what do we gain, what do we
lose": accuracy, time of a step, memory, length beyond training, few data, of `transformer`, `bahdanau` and
`rnn` with as many parameters, to within a tenth.
"""

import time
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import few, sized
from regard.claims.toy_pairs import Pairs, accuracy, exponent, train, translation_loss, translator
from regard.data.corpora import reverse

SMALL: dict[str, Any] = {"heads": 2, "inner": 8, "layers": 2}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"width": 48, "heads": 4, "inner": 96, "layers": 2},
    "bahdanau": {"width": 48},
    "rnn": {"width": 56},
}
BUDGET, EVERY, FEW = 1000, 50, 256


def depth(output: Tensor) -> int:
    """The operations along the longest path from the inputs to this output, in the graph of its gradient."""
    found: dict[Any, int] = {}
    todo: list[Any] = [output.grad_fn]
    while todo:
        node = todo[-1]
        before = [function for function, _ in node.next_functions if function is not None]
        missing = [function for function in before if function not in found]
        if missing:
            todo += missing
        else:
            found[todo.pop()] = 1 + max((found[function] for function in before), default=0)
    return found[output.grad_fn]


def depth_of(name: str, n: int, m: int = 1) -> int:
    """Of the encoder of a model for n source tokens, or of all of it for m target tokens."""
    settings = SMALL if name == "transformer" else {}
    model = translator(name, 0, source_vocabulary=8, target_vocabulary=8, width=8, **settings)
    source = torch.randint(4, 8, (1, n))
    if m > 1:
        return depth(model(source, torch.tensor([n]), torch.randint(4, 8, (1, m))))
    memory = model.encode(source, torch.tensor([n]))
    return depth(memory.encoded if name == "transformer" else next(iter(vars(memory).values())))


def steps_to(model: Any, pairs: Pairs, seed: int, right: float = 0.95) -> float:
    """Steps until so many held-out tokens are right; the budget if never."""
    test, reached, steps = pairs.batch(pairs.held_out(300)), [float(BUDGET)], count(1)

    def loss(model: Any, batch: Any) -> Tensor:
        step = next(steps)
        if step % EVERY == 0 and accuracy(model, test) >= right:
            reached.append(float(step))
        model.train()
        return translation_loss(model, batch)

    train(model, pairs.train(seed), BUDGET, loss=loss)
    return min(reached)


def seconds_of_a_step(model: Any, pairs: Pairs) -> float:
    """The least of five, forward and backward, 32 sentences of 20 words: reported, never asked for."""
    batch, took = pairs.test(20, 32), []
    for _ in range(few(5)):
        started = time.perf_counter()
        translation_loss(model, batch).backward()
        took.append(time.perf_counter() - started)
    return min(took)


def saved_numbers(model: Any, pairs: Pairs) -> float:
    """Millions of numbers that the forward pass keeps for the backward pass, 32 sentences of 20 words."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        translation_loss(model, pairs.test(20, sized(32, 4)))
    return sum(kept.values()) / 1e6


@claim(
    "C9",
    group="Bottleneck and distance",
    says="Transformers learn in few training steps, and in parallel; recurrence cannot be parallelised.",
    source="000:284-286; 004:831",
    experiment="Operations along the longest path of the graph, n = 64, 256, 1,024. Steps until .95 "
    "of the held-out tokens are right, reversing 3–12 words, at most 1,000, equal parameters, data "
    "and rate. Beside it accuracy, time of a step, memory, 20 words (beyond training) and 256 pairs "
    "to learn from.",
    control="A decoder that writes waits for itself: bahdanau's depth grows with a known target too.",
    conditions=[
        *between(0, 0, "transformer, depth at 1,024 − transformer, depth at 64", "it does not wait"),
        at_least(100, "rnn, depth at 1,024 / transformer, depth at 1,024", "it does not wait"),
        must_fail(at_least(3, "bahdanau, depth at 64 target words / bahdanau, depth at 16 target words")),
        must_fail(at_least(0.95, "rnn, exponent of the depth")),
        at_most(
            -EVERY,
            "transformer, steps to .95 − rnn, steps to .95",
            "fewer steps than a recurrent model without attention",
        ),
        at_most(
            -EVERY,
            "transformer, steps to .95 − bahdanau, steps to .95",
            "fewer steps than one with attention",
        ),
    ],
    seeds=(5, 6, 7, 8, 9),
    minutes=1.7,
    fixed="c8690d8 (depth), 48abec4 (steps)",
    remark="All write token by token. Times are of one machine, one thread, and decide nothing.",
)
def steps_and_depth(seed: int) -> Figures:
    """Depths, steps, and the table of what is gained and lost."""
    found: Figures = {}
    sizes = [64, 256, sized(1024, 257)]
    for name in ("transformer", "rnn"):
        deep = [depth_of(name, n) for n in sizes]
        found |= {f"{name}, depth at {n:,}": float(d) for n, d in zip((64, 256, 1024), deep, strict=True)}
        if name == "rnn":
            found["rnn, exponent of the depth"] = exponent(sizes, deep)
    for m in (16, 64):
        found[f"bahdanau, depth at {m} target words"] = float(depth_of("bahdanau", 8, m))
    pairs = Pairs(reverse, longest=12)
    for name, settings in MODELS.items():
        model = translator(name, seed, **pairs.sizes, **settings)
        found[f"{name}, parameters"] = float(model.parameter_count())
        found[f"{name}, steps to .95"] = steps_to(model, pairs, seed)
        found[f"{name}, accuracy"] = accuracy(model, pairs.batch(pairs.held_out(300)))
        found[f"{name}, accuracy at 20 words"] = accuracy(model, pairs.test(20, 200))
        found[f"{name}, seconds of a step"] = seconds_of_a_step(model.train(), pairs)
        found[f"{name}, millions of numbers kept"] = saved_numbers(model.train(), pairs)
        again = translator(name, seed, **pairs.sizes, **settings)
        some = list(islice(pairs.train(seed, FEW // 16), 16))
        train(again, (some[k % 16] for k in range(BUDGET)), 400)
        found[f"{name}, accuracy from {FEW} pairs"] = accuracy(again, pairs.batch(pairs.held_out(300)))
    return found
