"""The arena's model and its training: one encoder for all mechanisms, equal in width, depth and steps.

The encoder is the classifier `transformer_encoder` with rotary positions. With pretraining it first denoises
the task's own inputs: a share of the tokens is masked, and it says which they were (Amos, Berant & Gupta
2023, "Never Train from Scratch", arXiv:2310.02980). Learning rates follow progress, which is that of the
steps or of the time that is allowed, whichever is further. Where a task has simpler examples, parts of its
own, training begins with them: in the first GROWING of it they grow to whole ones. All mechanisms are
trained so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.bench.cost_growth import peak_bytes
from regard.core.tokens import PAD, UNK
from regard.data.long_range import LongExample, LongTask
from regard.data.long_range.long_task import LongBatches, Splits
from regard.models.classifiers.transformer_encoder import Config, TransformerEncoder

LEAST = 16  # tokens of a batch at least: blocks must be filled
MASKED = 0.35  # share of tokens that are hidden while denoising
GROWING = 0.6  # share of the training in which examples grow
REPEATS = 3  # steps that are timed of each batch
WARM, CLIP = 0.05, 1.0  # share of the steps in which the rate rises; norm of a gradient


@dataclass(frozen=True)
class ArenaSettings:
    """What all mechanisms have alike."""

    width: int = 96
    inner: int = 256
    heads: int = 4
    layers: int = 4
    batch: int = 64
    rate: float = 1.5e-3
    seed: int = 0
    held: int = 1000  # examples of validation and of test each


@dataclass(frozen=True)
class Trained:
    """What training came to."""

    steps: int
    seconds: float
    loss: float


Batch = tuple[Tensor, ...]  # tokens, lengths and, of pairs, those of the second texts


def make_model(task: LongTask, attention: str, settings: ArenaSettings) -> TransformerEncoder:
    """The encoder with one mechanism, from a seed."""
    torch.manual_seed(settings.seed)
    return TransformerEncoder(
        Config(
            task.vocabulary,
            task.classes,
            pairs=task.pairs,
            embedding=settings.width,
            inner=settings.inner,
            heads=settings.heads,
            layers=settings.layers,
            dropout=0.0,
            word_dropout=0.0,
            positions="rotary",
            attention=attention,
        )
    )


def grown(task: LongTask, random: Random, example: LongExample, progress: float) -> LongExample:
    """The example, or the part of it that is given so far in training."""
    level = progress / GROWING
    return example if task.part is None or level >= 1 else task.part(random, example, level)


def batched(examples: list[LongExample]) -> tuple[Batch, Tensor]:
    """Tokens (b, n) and lengths (b,), of pairs twice, and labels (b,)."""
    columns = [[one.tokens for one in examples]]
    if examples[0].second is not None:
        columns.append([one.second or [UNK] for one in examples])
    found: list[Tensor] = []
    for texts in columns:
        n = max(LEAST, *(len(text) for text in texts))
        found.append(torch.tensor([text + [PAD] * (n - len(text)) for text in texts]))
        found.append(torch.tensor([len(text) for text in texts]))
    return tuple(found), torch.tensor([one.label for one in examples])


def classified(model: TransformerEncoder, batch: Batch, labels: Tensor) -> Tensor:
    """The mean loss of the classes."""
    return F.cross_entropy(model(*batch), labels)


def denoised(model: TransformerEncoder, batch: Batch, chance: torch.Generator) -> Tensor:
    """The mean loss of masked tokens, which the states must tell."""
    total, count = torch.zeros(()), 0
    for tokens, lengths in zip(batch[::2], batch[1::2], strict=True):
        real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(-1)
        hidden = (torch.rand(tokens.shape, generator=chance) < MASKED) & real
        hidden[:, 0] = True
        states = model.states(model.embed(tokens.masked_fill(hidden, UNK)), lengths)[hidden]
        logits = states @ model.words.E.weight.T * model.config.embedding**-0.5
        total = total + F.cross_entropy(logits, tokens[hidden], reduction="sum")
        count += int(hidden.sum())
    return total / count


def train(
    model: TransformerEncoder,
    batches: LongBatches,
    steps: int,
    settings: ArenaSettings,
    limit: float,
    *,
    denoise: bool = False,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> Trained:
    """Train for so many steps, or until `limit` seconds are over; only whole examples are denoised."""
    optimiser = torch.optim.AdamW(model.parameters(), settings.rate, betas=(0.9, 0.98), weight_decay=0.01)
    chance = torch.Generator().manual_seed(settings.seed)
    start, mean, step = perf_counter(), math.nan, 0
    model.train()
    while step < steps:
        progress = max(step / steps, (perf_counter() - start) / limit)
        if progress >= 1:
            break
        rate = min(1.0, (progress + 1 / steps) / WARM) * (0.5 + 0.5 * math.cos(math.pi * progress))
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * rate
        batch, labels = batched(batches.draw(1.0 if denoise else progress))
        loss = denoised(model, batch, chance) if denoise else classified(model, batch, labels)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        now = loss.item()
        mean = now if math.isnan(mean) else 0.98 * mean + 0.02 * now
        step += 1
        tell(step, mean)
    return Trained(step, perf_counter() - start, mean)


@torch.no_grad()
def accuracy(model: TransformerEncoder, examples: list[LongExample], size: int = 100) -> float:
    """The share of right classes."""
    model.eval()
    ordered = sorted(examples, key=lambda one: len(one.tokens))
    right = 0
    for start in range(0, len(ordered), size):
        batch, labels = batched(ordered[start : start + size])
        right += int((model(*batch).argmax(-1) == labels).sum())
    return right / len(ordered)


@dataclass(frozen=True)
class StepCost:
    """Of one training step."""

    seconds: float
    bytes: int
    flops: int


def step_cost(task: LongTask, attention: str, splits: Splits, settings: ArenaSettings) -> StepCost:
    """Seconds of a step, the mean over a few batches; bytes and FLOPs of one of middle length.

    The fastest of REPEATS steps of each batch counts: first ones compile kernels, others have to wait.
    """
    model = make_model(task, attention, settings)
    batches = LongBatches(splits, settings.batch, settings.seed, group=4)
    seconds = []
    for some in [batches.draw() for _ in range(4)]:
        batches.left = [some] * REPEATS
        seconds.append(min(train(model, batches, 1, settings, 1e9).seconds for _ in range(REPEATS)))
    batch, labels = batched(sorted((batches.draw() for _ in range(5)), key=lambda b: len(b[0].tokens))[2])

    def run() -> None:
        classified(model, batch, labels).backward()

    most = peak_bytes(run)
    with FlopCounterMode(display=False) as counter:
        run()
    return StepCost(fmean(seconds), most, int(counter.get_total_flops()))
