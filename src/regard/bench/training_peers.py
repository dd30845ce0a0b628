"""Who trains beside us: a plain loop around torch.nn.Transformer, and JoeyNMT where it is installed.

All have 3 + 3 layers of width 256, an inner width of 1,024, 8 heads, pre-norm, dropout 0.1, label smoothing
0.1, and an output layer that shares the target's embeddings; all take a step of Adam with clipping.

JoeyNMT: Kreutzer, Bastings & Riezler (2019), "Joey NMT: A Minimalist NMT Toolkit for Novices".
"""

import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data.batches import Batch
from regard.models import TRANSLATORS
from regard.positions import Sinusoidal
from regard.tasks.translation import TRANSLATION, target_in

WORDS, WIDTH, INNER, HEADS, LAYERS, DROPOUT, SMOOTHING = 8000, 256, 1024, 8, 3, 0.1, 0.1
Loss = Callable[[Batch], Tensor]  # the sum over tokens
Learner = tuple[nn.Module, Loss]


def ours() -> Learner:
    """Our Transformer with the loss of `regard train translation`."""
    model = TRANSLATORS["transformer"].make(source_vocabulary=WORDS, target_vocabulary=WORDS, width=WIDTH)
    settings = TRANSLATION.resolve({"data": {"corpus": "copy"}, "training": {"smoothing": SMOOTHING}})
    return model, lambda batch: TRANSLATION.loss(settings, model, batch)[0]


class Plain(nn.Module):
    """torch.nn.Transformer with embeddings and sinusoidal positions, as a tutorial would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        for embed in (self.source, self.target):
            nn.init.normal_(embed.weight, std=WIDTH**-0.5)
        with warnings.catch_warnings(action="ignore"):
            self.net = nn.Transformer(
                WIDTH, HEADS, LAYERS, LAYERS, INNER, DROPOUT, batch_first=True, norm_first=True
            )
        self.positions, self.dropout = Sinusoidal(WIDTH), nn.Dropout(DROPOUT)

    def embedded(self, embed: nn.Embedding, tokens: Tensor) -> Tensor:
        x = embed(tokens) * WIDTH**0.5
        y: Tensor = self.dropout(x + self.positions(tokens.shape[1], like=x))
        return y

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the losses."""
        written, padding = target_in(batch["target"]), batch["source"] == PAD
        m = written.shape[1]
        hidden = self.net(
            self.embedded(self.source, batch["source"]),
            self.embedded(self.target, written),
            tgt_mask=torch.ones(m, m, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        logits = F.linear(hidden, self.target.weight).flatten(0, 1)
        return F.cross_entropy(
            logits, batch["target"].flatten(), ignore_index=PAD, reduction="sum", label_smoothing=SMOOTHING
        )


def plain() -> Learner:
    """The plain loop."""
    model = Plain()
    return model, model


def has_joey() -> bool:
    """Whether JoeyNMT can be imported."""
    return find_spec("joeynmt") is not None


def joey() -> Learner:
    """JoeyNMT's Transformer and loss."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    logging.getLogger("joeynmt.model").setLevel(logging.ERROR)

    names = ("unk", "pad", "bos", "eos")
    special = {f"{name}_token": f"<{name}>" for name in names} | {f"{n}_id": i for i, n in enumerate(names)}
    words = Vocabulary(
        [str(i) for i in range(WORDS - 4)], SimpleNamespace(**special, sep_token=None, lang_tags=[])
    )
    part = {
        "type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH,
        "ff_size": INNER, "dropout": DROPOUT, "layer_norm": "pre",
        "embeddings": {"embedding_dim": WIDTH, "scale": True},
    }  # fmt: skip
    model = build_model({"encoder": part, "decoder": part, "tied_softmax": True}, words, words)
    model.loss_function = ("crossentropy", SMOOTHING)
    number = torch.arange(WORDS)  # of our tokens in its vocabulary
    number[torch.tensor([UNK, PAD, BOS, EOS])] = torch.arange(4)

    def loss(batch: Batch) -> Tensor:
        found: tuple[Tensor, ...] = model(
            return_type="loss",
            src=number[batch["source"]],
            src_length=batch.lengths["source"],
            src_mask=(batch["source"] != PAD).unsqueeze(1),
            trg_input=number[target_in(batch["target"])],
            trg=number[batch["target"]],
            trg_mask=(batch["target"] != PAD).unsqueeze(1),
        )
        return found[0]

    return model, loss


class Trainer:
    """A model, its loss and Adam: each call is a pass over batches, a step for each."""

    def __init__(self, made: Learner, batches: list[Batch]):
        (model, self.loss), self.batches = made, batches
        self.model = model.train()
        self.tokens = sum(int(batch.lengths["target"].sum()) for batch in batches)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)

    def __call__(self) -> None:
        for batch in self.batches:
            self.optimiser.zero_grad(set_to_none=True)
            (self.loss(batch) / int(batch.lengths["target"].sum())).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
