"""An encoder of both sides, trained to say hidden tokens: BERT.

    of 15 % chosen tokens, 80 % become [MASK], 10 % another token, 10 % stay as they are
    loss = −Σ_chosen log p(token | text)

The loss is on the chosen places alone. The layers are those of the classifier `transformer_encoder`, under
the same names, so that `regard train classification --model transformer_encoder --init RUN` begins with them.

With `next_sentence` the second half of every other row comes from another row, a vector is added to it, and
the state of the first token says whether the halves belong together: loss += −log p(it does, or does not).

Devlin et al. (2019), "BERT", arXiv:1810.04805, §3.1. Departs from the paper: next-sentence prediction only
if told so (Liu et al. 2019, "RoBERTa", arXiv:1907.11692, found none needed), and of halves of a segment;
pre-norm; sinusoidal positions unless told otherwise; [MASK] is a vector, not a token of the vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.tokens import UNK
from regard.models.classifiers.classifier_model import WordVectors
from regard.models.classifiers.transformer_encoder import Config as EncoderConfig
from regard.models.classifiers.transformer_encoder import TextLayer
from regard.models.entries import register_language_model
from regard.models.language.language_model import LanguageModel, check_tokens
from regard.models.parts.initialization import glorot
from regard.positions import Learned, Sinusoidal

CHOSEN, MASKED, REPLACED = 0.15, 0.8, 0.1  # share of tokens; of these, masked and replaced


@dataclass(frozen=True)
class Config:
    """Configuration of an encoder; `embedding` is the width of all layers, as in transformer_encoder."""

    vocabulary: int
    embedding: int = 128  # of the word vectors and of all layers
    inner: int = 256  # of the feed-forward layers
    heads: int = 4
    layers: int = 2
    dropout: float = 0.1
    map: str = "softmax"
    learn_alpha: bool = False
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    longest: int = 1024  # maximum number of tokens, for learned positions
    attention: str = "full"  # or another mechanism: performer, local:window=32 …: `regard.MECHANISMS`
    next_sentence: bool = False  # also learn whether the second half of a row goes on from the first


@register_language_model(Config)
class BERT(LanguageModel):
    """An encoder that says what hidden tokens are."""

    causal = False

    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.embedding
        same = {
            name: getattr(config, name)
            for name in ("embedding", "inner", "heads", "layers", "dropout", "map", "attention")
        }
        like = EncoderConfig(config.vocabulary, 2, learn_alpha=config.learn_alpha, **same)
        self.words = WordVectors(config.vocabulary, width, config.dropout, 0.0)
        self.encoder = nn.ModuleList(TextLayer(like) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        glorot(self)
        self.places = Learned(width, config.longest) if config.positions == "learned" else Sinusoidal(width)
        self.mask = nn.Parameter(torch.randn(width))
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.scale = width**-0.5  # word vectors have variance 1
        if config.next_sentence:
            self.second = nn.Parameter(torch.zeros(width))
            self.belongs = nn.Linear(width, 1)
        self._next: tuple[Tensor, float] | None = None  # loss and share right, of the last call of `masked`
        self.attention_paths = {"self": [f"encoder.{number}.attention" for number in range(config.layers)]}

    @property
    def longest(self) -> int | None:
        return self.config.longest if self.config.positions == "learned" else None

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        embedded: Tensor = self.words(tokens)
        return embedded

    def from_embedded(
        self, embedded: Tensor, state: None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        if lengths is None:
            lengths = torch.full((len(embedded),), embedded.shape[1], device=embedded.device)
        x = embedded + self.places(embedded.shape[1], like=embedded)
        for layer in self.encoder:
            x = layer(x, lengths)
        return self.norm(x), None

    def masked(self, tokens: Tensor, seed: int | None = None) -> tuple[Tensor, Tensor]:
        """Hidden states (t, width) of chosen places of tokens (b, n), and the tokens (t,) that stand there.

        With a seed always the same places are chosen, for validation.
        """
        check_tokens(tokens)
        chance = None if seed is None else torch.Generator().manual_seed(seed)
        pairs = self.config.next_sentence and len(tokens) > 1 and tokens.shape[1] > 1
        if pairs:
            tokens, other = exchanged(tokens, chance)
        chosen, how = (torch.rand(tokens.shape, generator=chance).to(tokens.device) for _ in range(2))
        others = torch.randint(UNK, self.config.vocabulary, tokens.shape, generator=chance).to(tokens.device)
        there = chosen < CHOSEN
        there[:, 0] |= ~there.any(-1)  # at least one in each row
        hidden = there & (how < MASKED)
        read = torch.where(there & (how >= MASKED) & (how < MASKED + REPLACED), others, tokens)
        embedded = torch.where(
            hidden.unsqueeze(-1), self.mask.to(self.words.E.weight.dtype), self.embed(read)
        )
        if self.config.next_sentence:
            half = tokens.shape[1] // 2
            embedded = torch.cat([embedded[:, :half], embedded[:, half:] + self.second], 1)
        states, _ = self.from_embedded(embedded)
        if pairs:
            said = self.belongs(states[:, 0]).squeeze(-1)
            right = float(((said < 0) == other).float().mean())
            self._next = F.binary_cross_entropy_with_logits(said, (~other).to(said)), right
        return states[there], tokens[there]

    def penalty(self) -> Tensor | None:
        return None if self._next is None else self._next[0]

    def figures(self) -> dict[str, float]:
        return {} if self._next is None else {"next_sentence": self._next[1]}

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.words.E.weight * self.scale, self.bias


def exchanged(tokens: Tensor, chance: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Tokens (b, n), the second half of about half the rows that of the row before; which rows these are."""
    other = torch.rand(len(tokens), generator=chance).to(tokens.device) < 0.5
    half = tokens.shape[1] // 2
    second = torch.where(other.unsqueeze(-1), tokens[:, half:].roll(1, 0), tokens[:, half:])
    return torch.cat([tokens[:, :half], second], 1), other
