"""What certified decoding read: keys, bytes, support and fallbacks of each attention and head of a model."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from regard.core.decoding_counts import COLUMNS, forget_counts, known_counts


@dataclass(frozen=True)
class HeadStats:
    """Means over the steps of one head."""

    steps: int
    visible: float  # keys that a step could have looked at
    scored: float  # scores that were computed from keys, not from codes
    support: float  # keys with weight


@dataclass(frozen=True)
class LayerStats:
    """What one attention did, with a cache that has codes."""

    steps: int  # that were certified
    fallbacks: dict[str, int]  # steps that another backend took, by reason
    keys_read: float  # share of the keys that were read, each once for all heads that share it
    bytes_read: float  # share of the bytes of float32 keys and values: codes, keys and values
    heads: list[HeadStats]

    def json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def decoding_stats(model: nn.Module, *, reset: bool = False) -> dict[str, LayerStats]:
    """By path, what the attentions of a model have done on the certified backend; those that have.

    `reset` counts from 0 after this.
    """
    found = {}
    for path, module in model.named_modules():
        counts = known_counts(module)
        if counts is None:
            continue
        if reset:
            forget_counts(module)
        sums, shape = counts.by_head(), counts.shape
        heads = []
        for row in sums.tolist():
            one = dict(zip(COLUMNS, row, strict=True))
            steps = max(one["steps"], 1)
            means = {name: one[name] / steps for name in ("visible", "scored", "support")}
            heads.append(HeadStats(steps=one["steps"], **means))
        total = dict(zip(COLUMNS, sums.sum(0).tolist(), strict=True)) if len(sums) else {}
        seen = total.get("visible", 0) / max(shape.get("group", 1), 1)  # keys, each once for its heads
        read = (
            seen * shape["bytes"] + total["keys"] * shape["row"] + total["values"] * shape["value"]
            if seen
            else 0.0
        )
        whole = seen * (shape["row"] + shape["value"]) if seen else 1.0
        found[path] = LayerStats(
            steps=max((head.steps for head in heads), default=0),
            fallbacks=dict(counts.fallbacks),
            keys_read=total.get("keys", 0) / seen if seen else 0.0,
            bytes_read=read / whole,
            heads=heads,
        )
    return found
