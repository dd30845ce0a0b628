"""The Transformer: self-attention, cross-attention to the source, and a feed-forward network per position.

    x = x + SelfAttention(x)      x = x + Attention(x, encoded)  (decoder)      x = x + FFN(x)

each with layer norm and dropout (`parts/residual.py`). Positions are sinusoidal or learned vectors added to
the embeddings, or relative: a learned vector per distance, scored against the query in the self-attentions.
The output layer can be tied to the target embeddings, and these to the source embeddings. With map="entmax"
and learn_alpha it is the adaptively sparse Transformer, one α per head.

Vaswani et al. (2017), "Attention Is All You Need", arXiv:1706.03762. Relative positions: Shaw et al. (2018),
arXiv:1803.02155. Learned α: Correia et al. (2019), arXiv:1909.00015.
Departs from the paper: pre-norm by default, with a norm after each stack; relative position vectors are added
to keys only, and shared by the heads.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.core.shapes import check_rate
from regard.heads import MultiHead
from regard.heads.source_step import source_step, takes_source
from regard.masks import Causal, Lengths, Mask
from regard.memories import Branches, KeyValue
from regard.models.entries import register_translator
from regard.models.parts.attention_choice import make_heads
from regard.models.parts.biases import Biases, expected_fertility
from regard.models.parts.bidirectional import check_source
from regard.models.parts.copy_mechanism import Copy, CopyState, make_copying
from regard.models.parts.document_context import DocumentContext, sentences_before
from regard.models.parts.embedding import Embedding
from regard.models.parts.feed_forward import FeedForward
from regard.models.parts.named_components import check_choice, make_map, with_terms
from regard.models.parts.residual import Residual
from regard.models.sequence_model import (
    Hidden,
    Rows,
    SequenceModel,
    TranslatorConfig,
    by_hypothesis,
    by_sentence,
)
from regard.positions import Learned, Relative, Sinusoidal
from regard.scores import Score


@dataclass(frozen=True)
class Config(TranslatorConfig):
    """Configuration of a Transformer."""

    width: int = 256
    inner: int = 1024  # of the feed-forward layers
    heads: int = 8
    layers: int = 3  # of the encoder, and as many of the decoder
    dropout: float = 0.1
    score: str = "scaled_dot"
    map: str = "softmax"
    learn_alpha: bool = False
    norm: Literal["pre", "post"] = "pre"
    positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal"
    reach: int = 16  # largest distance that relative positions distinguish
    longest: int = 512  # maximum sequence length, for learned positions
    activation: Literal["relu", "gelu"] = "relu"
    tied: Literal["no", "target", "all"] = "target"  # embeddings tied to the output; "all": both
    bias: tuple[str, ...] = ()  # of the cross-attention: "position" …: `parts/biases.py`
    attention: str = "full"  # of the self-attentions, or another mechanism: `regard.MECHANISMS`
    decoder_attention: str = ""  # that of the decoder, where it is another: some cannot be causal
    copy: Copy = "no"  # or "gate" or "sentinel": source tokens can be copied, also unknown ones
    context: int | None = None  # sentences before that are read: `parts/document_context.py`


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The encoded source, and its keys and values for every decoder layer."""

    encoded: Tensor  # (b, n, width)
    lengths: Tensor  # (b,)
    layers: tuple[KeyValue, ...]  # (b, heads, n, width / heads) each
    padded: bool  # whether any source is shorter than n
    copying: CopyState = ()
    current: Tensor | None = None  # (b, 1, 1, n), True for the sentence to translate, if others are read, too

    @property
    def mask(self) -> Mask | Tensor | None:
        """The padding mask, or that of the sentence to translate; None if nothing is masked."""
        if self.current is not None:
            return self.current
        return Lengths(self.lengths) if self.padded else None


@dataclass(frozen=True, eq=False)
class State(Rows):
    """The key/value caches of the decoder's self-attentions."""

    past: Branches

    def select(self, index: Tensor) -> "State":
        return State(self.past.select(index))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: Config):
        super().__init__()
        self.attention = _heads(config, own=True)
        self.feed_forward = FeedForward(config.width, config.inner, config.activation)
        self.around = nn.ModuleList(Residual(config.width, config.norm, config.dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Mask | Tensor | None) -> Tensor:
        """x (b, n, width) to (b, n, width)."""
        x = self.around[0](x, lambda x: self.attention(x, mask=mask).context)
        x = self.around[1](x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward."""

    def __init__(self, config: Config):
        super().__init__()
        self.attention = _heads(config, own=True, causal=True)
        self.cross, self.biases = _heads(config), Biases.of(config.bias)
        self.feed_forward = FeedForward(config.width, config.inner, config.activation)
        self.around = nn.ModuleList(Residual(config.width, config.norm, config.dropout) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Memory, source: KeyValue, past: Branches | None = None, layer: int = 0
    ) -> Tensor:
        """x (b, m, width) to (b, m, width); with a cache of the `past`, x is the next token (b, 1, width)."""
        t = 0 if past is None else len(past) - 1
        if past is None:
            x = self.around[0](x, lambda x: self.attention(x, mask=Causal()).context)
        else:
            x = self.around[0](x, lambda x: self.attention.step(x, past, layer))
        x = self.around[1](x, partial(self._across, memory=memory, source=source, t=t))
        x = self.around[2](x, self.feed_forward)
        return x

    def _across(self, x: Tensor, memory: Memory, source: KeyValue, t: int) -> Tensor:
        mask = memory.mask
        if not self.biases.placed and takes_source(self.cross, x, mask, source):
            return source_step(self.cross, x, mask, source)
        query, lengths = by_sentence(x, len(memory.lengths)), memory.lengths
        place = self.biases.place(query, memory.encoded, lengths, t, x.shape[-2])
        context = self.cross(query, memory.encoded, mask=mask, cache=source, place=place).context
        return by_hypothesis(context, len(x))


@register_translator(Config)
class Transformer(SequenceModel[Memory, State]):
    """The Transformer for sequence to sequence."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width = config.width
        check_rate("dropout", config.dropout)
        check_choice("tied", config.tied, ("no", "target", "all"))
        if config.tied == "all" and config.source_vocabulary != config.target_vocabulary:
            raise ValueError(
                'tied="all" wants one vocabulary for source and target; '
                f"got {config.source_vocabulary} and {config.target_vocabulary} tokens."
            )
        self.source = Embedding(config.source_vocabulary, width, _positions(config), dropout=config.dropout)
        if config.tied != "all":
            self.target = Embedding(
                config.target_vocabulary, width, _positions(config), dropout=config.dropout
            )
        if config.tied == "no":
            self.output = nn.Linear(width, config.target_vocabulary)
            nn.init.xavier_uniform_(self.output.weight)
            nn.init.zeros_(self.output.bias)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if pre else nn.Identity()
        biases = Biases.of(config.bias)
        if biases.history:
            raise ValueError(
                "a Transformer is trained on all steps at once, so no step has the weights of earlier steps: "
                "bias markov and bias fertility are for bahdanau and luong."
            )
        self.expected = expected_fertility(biases, width)
        layers = range(config.layers)
        self.attention_paths = {
            "self": [f"encoder.{layer}.attention" for layer in layers],
            "decoder_self": [f"decoder.{layer}.attention" for layer in layers],
            "cross": [f"decoder.{layer}.cross" for layer in layers],
        }
        self.context = _context(config)
        if self.context is not None:
            self.attention_paths |= {
                "context_words": ["context.over_words"],
                "context_sentences": ["context.over_sentences"],
            }
        self.copying = make_copying(
            config.copy, width, width, config.source_vocabulary, config.target_vocabulary
        )

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        check_source(source, lengths)
        padded = torch.compiler.is_compiling() or bool((lengths < source.shape[1]).any())
        mask: Mask | Tensor | None = Lengths(lengths) if padded else None
        x, current = self.source(self.clip_to_vocabulary(source)), None  # (b, n, width)
        if self.context is not None:  # a sentence sees itself; the context sees all of them
            back = sentences_before(source, lengths)
            mask = (back.unsqueeze(-1) == back.unsqueeze(-2))[:, None] & (back >= 0)[:, None, None]
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        if self.context is not None:
            x = self.context(x, back)
            mask = current = (back == 0)[:, None, None]
        keys = tuple(cast(DecoderLayer, layer).cross.project(x, mask=mask) for layer in self.decoder)
        return Memory(x, lengths, keys, padded, self.copy_state(x, source), current)

    def start(self, memory: Memory) -> State:
        return State(Branches.start(len(memory.lengths), memory.lengths.device))

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Hidden, State]:
        x, past = self._embedded(tokens.unsqueeze(-1), len(state.past)), state.past.grown()
        for number, (layer, source) in enumerate(zip(self.decoder, memory.layers, strict=True)):
            x = layer(x, memory, source, past, number)
        hidden = self.pointing(self.decoder_norm(x), memory.copying, memory.lengths)
        return hidden[:, 0], State(past)

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Hidden:
        memory, x = self.encode(source, source_lengths), self._embedded(target_in)
        for layer, keys in zip(self.decoder, memory.layers, strict=True):
            x = layer(x, memory, keys)
        return self.pointing(self.decoder_norm(x), memory.copying, memory.lengths)

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        if self.config.tied == "no":
            return self.output.weight, self.output.bias
        return (self.source if self.config.tied == "all" else self.target).E.weight, None

    def _embedded(self, target: Tensor, start: int = 0) -> Tensor:
        embed = self.source if self.config.tied == "all" else self.target
        embedded: Tensor = embed(self.clip_to_vocabulary(target), start)
        return embedded


def _heads(config: Config, *, own: bool = False, causal: bool = False) -> MultiHead:
    each = config.width // config.heads
    terms = [] if own else Biases.of(config.bias).terms()

    def score(name: str) -> Score:
        made = with_terms(name, each, each, terms)
        return made + Relative(each, config.reach) if own and config.positions == "relative" else made

    attention = config.attention if own else "full"
    if causal and config.decoder_attention:
        attention = config.decoder_attention
    heads = make_heads(
        attention,
        config.width,
        config.heads,
        score=score,
        named=config.score,
        map=make_map(config.map, learn_alpha=config.learn_alpha, heads=config.heads),
        causal=causal,
    )
    nn.init.xavier_uniform_(heads.W_o.weight)
    return heads


def _context(config: Config) -> DocumentContext | None:
    if config.context is None:
        return None
    if config.context < 1:
        raise ValueError(f"context must be at least 1, or None; got {config.context}.")
    for name, usual in (("copy", "no"), ("bias", ()), ("attention", "full")):
        if getattr(config, name) != usual:
            raise ValueError(f"context, sentences before, does not go with {name}={getattr(config, name)!r}.")
    return DocumentContext(
        config.width,
        config.heads,
        config.context,
        config.inner,
        partial(make_map, config.map, learn_alpha=config.learn_alpha, heads=config.heads),
        config.dropout,
    )


def _positions(config: Config) -> Sinusoidal | Learned | None:
    kind = check_choice("positions", config.positions, ("sinusoidal", "learned", "relative"))
    if kind == "learned":
        return Learned(config.width, config.longest)
    return Sinusoidal(config.width) if kind == "sinusoidal" else None
