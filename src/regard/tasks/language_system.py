"""A trained language model: what comes next in a text, texts that go on, and where it looked."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data.padding import batches_by_length, padded
from regard.data.running_text import blocks, count_characters
from regard.data.text_lines import check_no_pipe
from regard.decoding.cache_pointer import CachePointer
from regard.decoding.sampling import cut
from regard.recording import record
from regard.tasks.language import LANGUAGE, LanguageAudit, LanguageEvaluation, LanguageParts, LanguageSettings
from regard.tasks.language_scores import TextQuality, Windows, text_quality
from regard.tasks.system import EXAMPLES, Forward, Scores, System, check_finite

if TYPE_CHECKING:
    from regard.tasks.case import Case

POSITIONS = 16_384  # tokens that are read at once, padding included
SHOWN = 9  # most likely next tokens with a name of their own
OTHERS = "(others)"
LINE_END = "⏎"  # as the end of a line is shown, where it is a token of its own


@dataclass(frozen=True, eq=False)
class NextToken:
    """What may come after a text."""

    text: str
    tokens: list[int] = field(repr=False)
    candidates: list[tuple[int, str, float]]  # the most likely tokens: id, text as shown, probability
    system: "LanguageSystem" = field(repr=False)

    @property
    def said(self) -> str:
        """The most likely token."""
        return self.candidates[0][1]

    @property
    def log_prob(self) -> float:
        """Of the most likely token."""
        return torch.tensor(self.candidates[0][2], dtype=torch.float64).log().item()

    @property
    def probabilities(self) -> dict[str, float]:
        """Of the most likely tokens, and of all others together."""
        named = {name: p for _, name, p in self.candidates}
        return {**named, OTHERS: max(0.0, 1.0 - sum(named.values()))}

    @property
    def continued(self) -> dict[str, str]:
        """The text with each of these tokens behind it, by its name."""
        codec = self.system.parts.codec
        return {name: codec.decode([*self.tokens, token]) for token, name, _ in self.candidates}


@dataclass(frozen=True, eq=False)
class Generated:
    """A text that a model wrote on from a prompt."""

    prompt: str
    text: str  # what was written, without the prompt
    tokens: list[int] = field(repr=False)
    log_prob: float  # of what was written, by the model itself: without temperature and cuts

    @property
    def said(self) -> str:
        """What was written."""
        return self.text


class LanguageSystem(System):
    """A language model with its tokenizer."""

    task = LANGUAGE
    role, picture = "self", "words"
    parts: LanguageParts
    settings: LanguageSettings

    @property
    def context(self) -> int:
        """Tokens that it reads at once: as many as in training."""
        return self.settings.training.segment

    @property
    def facts(self) -> list[str]:
        return [f"{len(self.parts.codec):,} {self.parts.codec.kind} tokens", f"context {self.context}"]

    @property
    def purpose(self) -> str:
        if not self.model.causal:
            return "Says which token a hidden one is, from the text on both sides."
        return "Says what comes next in a text, and writes on from it."

    @cached_property
    def examples(self) -> list[str]:
        if self.settings.data.train is not None:
            return []
        text = next((text for _, text in islice(self.task.read(self.settings, "valid"), 1)), "")
        lines = [line for line in text.split("\n") if line][:EXAMPLES]
        return [" ".join(line.split()[: max(2, len(line.split()) // 2)]) for line in lines]

    # Answers

    def answer(self, inputs: Sequence[str], **options: Any) -> list[NextToken]:
        """The most likely token after each text; after an empty one, that of a new line."""
        if isinstance(inputs, str):
            raise TypeError("answer takes a list of texts; got one string. Use answer([text]).")
        for text in inputs:
            self.check_known(text)
        encoded = self.parts.codec.encode_many(list(inputs))
        read = [ids or [self.parts.codec.new_line] for ids in encoded]
        found: dict[int, NextToken] = {}
        for some in batches_by_length([len(ids) for ids in read], POSITIONS):
            p = self.next_probabilities([read[i] for i in some])
            top = p.topk(min(SHOWN, int((p > 0).sum(-1).min())), -1)
            for i, row, chosen in zip(some, top.values.tolist(), top.indices.tolist(), strict=True):
                names = [LINE_END if token == EOS else name for token, name in zip(
                    chosen, self.tokenizer.pieces(chosen), strict=True
                )]  # fmt: skip
                found[i] = NextToken(inputs[i], encoded[i], list(zip(chosen, names, row, strict=True)), self)
        return [found[i] for i in range(len(read))]

    def next_probabilities(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """The probability of each token of the vocabulary after each text (tokens): (b, v)."""
        tokens, lengths = padded(texts, self.device)
        with torch.no_grad():
            hidden = self._hidden(tokens)[torch.arange(len(texts), device=self.device), lengths - 1]
            logits = self.allowed(self.model.logits(hidden))
        p: Tensor = logits.double().softmax(-1).cpu()
        return p

    def allowed(self, logits: Tensor, unknown: bool = True) -> Tensor:
        """Logits (..., v) in float32 or more, with −inf for tokens that are no text."""
        never = [PAD, BOS] + ([] if self.parts.codec.kind == "word" else [EOS]) + ([] if unknown else [UNK])
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        check_finite(logits)
        return logits.index_fill(-1, torch.tensor(never, device=logits.device), -torch.inf)

    def check_known(self, text: str) -> None:
        """Raise ValueError if a text has characters that the model has never seen."""
        if self.parts.codec.kind == "character" and (unknown := self.parts.codec.unknown(text)):
            shown = ", ".join(map(repr, unknown[:5]))
            raise ValueError(
                f"the model knows {len(self.parts.codec) - 4} characters, and {shown} "
                f"{'is' if len(unknown) == 1 else 'are'} not among them. Leave them out."
            )

    # Writing

    def generate(
        self,
        prompt: str = "",
        *,
        steps: int = 200,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        cache: CachePointer | None = None,
        listen: Callable[[str], None] | None = None,
    ) -> Generated:
        """Write `steps` tokens on from a prompt; `listen` hears each piece of text as it is written.

        A temperature of 0 takes the most likely token. The same seed writes the same text. With a `cache`
        (`regard.decoding.cache_pointer`), tokens that came in a like place are likelier.
        """
        ids, tokens, total, heard = self.prompt(prompt), list[int](), 0.0, ""
        before = self.parts.codec.decode(ids)
        for token, log_prob in self.written(ids, steps, temperature, top_k, top_p, seed, cache):
            tokens.append(token)
            total += log_prob
            if listen is not None:
                so_far = self.parts.codec.decode([*ids, *tokens])[len(before) :].rstrip("�")
                listen(so_far[len(heard) :])
                heard = so_far
        text = self.parts.codec.decode([*ids, *tokens])[len(before) :]
        if listen is not None and text != heard:
            listen(text[len(heard) :])
        return Generated(prompt, text, tokens, total)

    def prompt(self, text: str) -> list[int]:
        """The tokens of a prompt; ValueError if the model cannot read it."""
        if not self.model.causal:
            name = self.settings.model["name"]
            raise RunError(
                f"{self.folder} holds a language model of hidden tokens ({name}), which sees both sides: it "
                "does not write. Train one with --objective next."
            )
        self.check_known(text)
        ids, longest = self.parts.codec.encode(text) or [self.parts.codec.new_line], self.model.longest
        if longest is not None and len(ids) > longest:
            raise ValueError(
                f"the prompt has {len(ids):,} tokens, and the model has learned positions for {longest:,}. "
                "Give a shorter one, or train with --set model.positions=rotary."
            )
        return ids

    @torch.inference_mode()
    def written(
        self,
        ids: Sequence[int],
        steps: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        cache: CachePointer | None = None,
    ) -> Iterator[tuple[int, float]]:
        """Tokens that follow the tokens `ids`, and the log-probability of each by the model."""
        if temperature > 0 and not 1e-6 <= temperature <= 1e6:
            raise ValueError(f"temperature must be 0, or from 1e-6 to 1e6; got {temperature}.")
        if steps < 0 or top_k < 0 or not 0 < top_p <= 1 or not temperature >= 0:
            raise ValueError(
                "steps, temperature and top_k must be at least 0 and top_p in (0, 1]; "
                f"got {steps}, {temperature}, {top_k} and {top_p}."
            )
        chance = torch.Generator().manual_seed(seed)
        reading = Reading(self, list(ids), cache)
        for _ in range(steps):
            logits = self.allowed(reading.logits(), unknown=False).double().cpu()
            if cache is not None:
                logits = cache.mixed(logits, reading.hidden.cpu())
            token = int(logits.argmax())
            if temperature > 0:
                p = torch.softmax(cut(logits / temperature, top_k, top_p), -1)
                token = int(torch.multinomial(p, 1, generator=chance))
            yield token, float(logits[token] - logits.logsumexp(-1))
            reading.add(token)

    # Attention

    def _hidden(self, tokens: Tensor) -> Tensor:
        """Hidden states (b, n, width) of tokens (b, n); what follows a text does not change its own."""
        hidden: Tensor
        if not self.model.carries:
            hidden, _ = self.model(tokens)
            return hidden
        parts, state = [], None
        for part in tokens.split(self.context, 1):
            hidden, state = self.model(part, state)
            parts.append(hidden)
        return torch.cat(parts, 1)

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Any] = ()) -> Forward:
        """Hidden states (b, n, width) of texts given as tokens."""
        tokens, _ = padded(inputs, self.device)
        return Forward(self._hidden(tokens), self.model.logits)

    def tokens(self, answer: NextToken) -> tuple[list[int], list[int]]:
        return answer.tokens or [self.parts.codec.new_line], []

    def batch_weights(self, answers: Sequence[NextToken]) -> list[list[Tensor]]:
        """The weights of the last token of each text over all its tokens, (heads, 1, n) of each layer."""
        found = []
        for answer in answers:
            weights = self.self_weights(answer)[0] if self.layers else []
            found.append([layer[:, -1:, : len(answer.tokens)] for layer in weights])
        return found

    def self_weights(self, answer: NextToken) -> tuple[list[Tensor], int]:
        """Self-attention among the tokens of a text, (heads, n, n) of each layer; none comes before them."""
        if not self.layers:
            raise RunError(f"{self.settings.model['name']} has no attention.")
        given, _ = self.tokens(answer)
        with torch.no_grad(), record(self.model, self.layers) as seen:
            self.model(torch.tensor([given], device=self.device))
        layers = [seen[path][-1].over_tokens[0] for path in self.layers]
        return [one if one.dim() == 3 else one.unsqueeze(0) for one in layers], 0

    # Scores

    def score(self, examples: Sequence[str], **options: Any) -> Scores:
        """Nats and bits per token, bits per character and perplexity per word, each text read by itself."""
        if isinstance(examples, str):
            raise TypeError("score takes a list of texts; got one string. Use score([text]).")
        if not self.model.causal:
            return self._masked_scores(examples)
        windows = Windows.of(self.model, options.get("context") or self.context)
        total = TextQuality()
        for text in examples:
            one = text_quality(self.model, self.parts.codec, [text], windows)
            for name, value in vars(one).items():
                setattr(total, name, getattr(total, name) + value)
        return self._scores(total, windows)

    def evaluate(
        self, options: LanguageEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.data is None:
            raise RunError(f"{self.folder} holds a language model: --data, a text to evaluate on, is needed.")
        check_no_pipe(options.data, "evaluation")
        size = count_characters(options.data)
        if not size:
            raise RunError(f"{options.data}: there is no text in it.")
        if not self.model.causal:
            return self._masked_scores(list(blocks(options.data, 1 << 16)))
        context = options.context or self.context
        if context < 1 or (self.model.longest is not None and context > self.model.longest):
            most = "" if self.model.longest is None else f" and at most {self.model.longest}"
            raise RunError(f"--context must be at least 1{most}; got {context}.")
        windows = Windows.of(self.model, context)
        heard = None if progress is None else lambda done: progress(done, size)
        found = text_quality(self.model, self.parts.codec, blocks(options.data), windows, heard)
        return self._scores(found, windows)

    @torch.no_grad()
    def _masked_scores(self, texts: Sequence[str]) -> Scores:
        """How well hidden tokens are said: 15 % of those of each segment, the same at each call."""
        found, tokens, right = 0.0, 0, 0
        for ids in self.parts.codec.encode_many(list(texts)):
            for number, part in enumerate(torch.tensor(ids, device=self.device).split(self.context)):
                hidden, wanted = self.model.masked(part.unsqueeze(0), seed=number)
                logits = self.model.logits(hidden).double()
                found += float(logits.logsumexp(-1).sum() - logits.gather(-1, wanted.unsqueeze(-1)).sum())
                tokens, right = tokens + len(wanted), right + int((logits.argmax(-1) == wanted).sum())
        per_token = found / max(tokens, 1)
        figures = {
            "nats_per_token": per_token,
            "bits_per_token": per_token / math.log(2),
            "accuracy": right / max(tokens, 1),
            "hidden_tokens": tokens,
        }
        line = f"{per_token:.4f} nats per hidden token, {figures['accuracy']:.4f} of {tokens:,} right"
        return Scores(figures, line)

    def _scores(self, found: TextQuality, windows: Windows) -> Scores:
        figures: dict[str, Any] = found.figures
        figures["context"] = windows.warm
        most = f"to {windows.warm + windows.span}" if not self.model.carries else "and more"
        notes = [
            f"every token was predicted from {windows.warm} {most} tokens before it, as far as there are"
        ]
        if found.unknown:
            share = found.unknown / found.tokens
            notes.append(
                f"{found.unknown:,} tokens ({share:.1%}) are not in the vocabulary and count as <unk>"
            )
        line = (
            f"{figures['nats_per_token']:.4f} nats ({figures['bits_per_token']:.4f} bits) per token, "
            f"{figures['bits_per_character']:.4f} bits per character, perplexity {figures['perplexity']:.2f} "
            f"per word on {counted(found.tokens, 'token')}"
        )
        return Scores(figures, line, notes=tuple(notes))

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """The next token of each text; of (text, one, other), which of two continuations is more likely."""
        from regard.tasks.language_case import case_of_texts

        return case_of_texts(self, items, **options)

    def audited(self, options: LanguageAudit) -> "tuple[Case, str]":
        if options.data is None:
            raise RunError(f"{self.folder} holds a language model: --data, texts to audit on, is needed.")
        from regard.data.text import lines
        from regard.tasks.language_case import audited_case

        texts = [line for line in lines(options.data) if line.strip()]
        return audited_case(self, texts), repr(texts)


class Reading:
    """A text that a model reads token by token, with what it keeps of it.

    A model that carries no state reads windows as long as in training: when one is full, the second half of
    it is read again as the beginning of the next.
    """

    def __init__(self, system: LanguageSystem, ids: list[int], cache: CachePointer | None = None):
        self.system, self.model, self.ids, self.cache = system, system.model, ids, cache
        self.limit = max(2, min(system.context, self.model.longest or system.context))
        self.state: Any = None
        self.hidden = self._read(ids if self.model.carries else ids[-self.limit :])

    def logits(self) -> Tensor:
        """Logits (v,) of the next token."""
        logits: Tensor = self.model.logits(self.hidden)
        return logits

    def add(self, token: int) -> None:
        """Read one more token."""
        if self.cache is not None:
            self.cache.add(self.hidden.cpu(), token)
        self.ids.append(token)
        if not self.model.carries and self.model.read(self.state) >= self.limit:
            self.state = None
            self.hidden = self._read(self.ids[-(self.limit // 2) :])
        else:
            self.hidden = self._read([token])

    def _read(self, ids: Sequence[int]) -> Tensor:
        tokens, at = torch.tensor([list(ids)], device=self.system.device), 0
        for part in tokens.split(self.system.context if self.model.carries else len(ids), 1):
            hidden, self.state = self.model(part, self.state)
            if self.cache is not None and len(ids) == len(self.ids):  # the prompt: its tokens are known
                following = self.ids[at + 1 : at + 1 + part.shape[1]]
                for state, token in zip(hidden[0].cpu(), following, strict=False):
                    self.cache.add(state, token)
            at += part.shape[1]
        last: Tensor = hidden[0, -1]
        return last
