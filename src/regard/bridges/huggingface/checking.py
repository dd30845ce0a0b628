"""Does a model answer through us as it does by itself, in all the ways it can be called?

Each line compares softmax through us with the model's own attention, at the positions that are not padding:

    max |ours − its own| / max(1, max |its own|)

or counts the tokens in which generated texts differ, or is a leak test: what changes when padding, or the
future, is replaced.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.utils import is_optimum_quanto_available, logging

from regard.bridges.huggingface.swapping import implementation_of
from regard.core.errors import RunError
from regard.models.subject import eval_mode
from regard.swap import swap
from regard.testing import check_causal

NEAR = 1e-5
B, N, PADS = 2, 13, 4  # texts, tokens, of which are padding
STATIC: dict[str, Any] = {"cache_implementation": "static", "disable_compile": True}


@dataclass(frozen=True)
class Checked:
    """One comparison."""

    what: str
    difference: float | None  # None: the model cannot be called so
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None or self.difference <= NEAR


def check_model(model: Any, seed: int = 0, tokens: int = 64) -> Iterator[Checked]:
    """Compare a model of transformers with itself, one line after the other; it is swapped afterwards.

    So many tokens are generated.
    """
    both = Both(model, seed, tokens)
    with eval_mode(model), torch.no_grad():
        for what, compare in both.comparisons():
            try:
                yield Checked(what, compare())
            except NotImplementedError as error:
                yield Checked(what, None, str(error))
            except AssertionError as error:  # a leak test
                yield Checked(what, float("inf"), str(error))


class Both:
    """A model and its two attentions."""

    def __init__(self, model: Any, seed: int, length: int):
        self.length = length
        self.model, self.config = model, model.config
        self.own = self.config._attn_implementation
        self.ours = implementation_of(model)
        if self.own == self.ours:
            self.own = "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"
        swap(model, "softmax")
        self.draw = torch.Generator().manual_seed(seed)
        text = self.config.get_text_config()
        self.vocabulary = getattr(text, "vocab_size", 0)
        ids = [getattr(text, f"{name}_token_id", None) for name in ("pad", "eos")]
        self.special = [one for one in ids if isinstance(one, int)]
        self.usual = next(i for i in range(5, 9) if i not in self.special)
        self.generates = bool(getattr(model, "can_generate", bool)())
        self.decodes = self.generates and not self.config.is_encoder_decoder
        self.classifies = "SequenceClassification" in type(model).__name__

    def comparisons(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """What is compared, and how."""
        reads_text = self.model.main_input_name == "input_ids"
        given = self.inputs() if reads_text else self._features()
        self._called(given)
        yield "one pass", lambda: self.passes(given)
        if not reads_text:
            if self.generates:
                yield f"{self.length} tokens, greedy", lambda: self.written()
                yield f"{self.length} tokens, beams", lambda: self.written(num_beams=3)
                yield f"{self.length} tokens, static cache", lambda: self.written(**STATIC)
            return
        yield "padded right", lambda: self.passes(*self.padded("right"))
        if self.decodes:
            yield "padded left", lambda: self.passes(*self.padded("left"))
            yield "packed rows", lambda: self.passes(self._packed())
            yield "cache, one token at a time", lambda: self._stepwise(1)
            yield "cache, five tokens at a time", lambda: self._stepwise(5)
            yield "no position sees the future", self._causal
        yield "padding is not seen", self._unseen
        if not self.generates:
            return
        yield f"{self.length} tokens, greedy", lambda: self.written()
        yield f"{self.length} tokens, padded", lambda: self.written(padded=True)
        yield f"{self.length} tokens, beams", lambda: self.written(padded=True, num_beams=3)
        yield f"{self.length} tokens, sampled", lambda: self.written(do_sample=True)
        yield f"{self.length} tokens, static cache", lambda: self.written(padded=True, **STATIC)
        if self.decodes and is_optimum_quanto_available():
            yield f"{self.length} tokens, quantised cache", self._quantised

    def _called(self, given: dict[str, Tensor]) -> None:
        """Raise if the model by itself cannot be called with such inputs, as one that needs pictures, too."""
        try:
            self._output(self.own, given)
        except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            kind, what = type(self.model).__name__, str(error).strip().split("\n")[0]
            raise RunError(
                f"{kind} cannot be called with {' and '.join(given)} alone and is not checked: {what}"
            ) from error

    def passes(self, given: dict[str, Tensor], real: Tensor | None = None) -> float:
        """The difference of the outputs of one pass."""
        ours, theirs = self._output(self.ours, given), self._output(self.own, given)
        return distance(ours, theirs, real)

    def written(self, padded: bool = False, **options: Any) -> float:
        """The number of tokens in which generated texts differ."""
        if self.model.main_input_name == "input_ids":
            given = self.padded("left")[0] if padded else self.inputs()
            given = {k: v for k, v in given.items() if k in ("input_ids", "attention_mask")}
            given.setdefault("attention_mask", torch.ones_like(given["input_ids"]))
        else:
            given = {k: v for k, v in self._features().items() if k == self.model.main_input_name}
            given["attention_mask"] = torch.ones(B, given[self.model.main_input_name].shape[-1]).long()
        how = {"max_new_tokens": self.length, "min_new_tokens": self.length, **options}
        how["pad_token_id"] = self.config.get_text_config().pad_token_id or 0
        found = []
        for name in (self.ours, self.own):
            self.model.set_attn_implementation(name)
            torch.manual_seed(0)
            with without_remarks():
                found.append(self.model.generate(**given, **how))
        self.model.set_attn_implementation(self.ours)
        return float((found[0] != found[1]).sum())

    def _quantised(self) -> float:
        width = self.config.get_text_config()
        each = getattr(width, "head_dim", None) or width.hidden_size // width.num_attention_heads
        how = {"backend": "quanto", "nbits": 4, "q_group_size": min(64, each), "residual_length": 4}
        try:
            return self.written(cache_implementation="quantized", cache_config=how)
        except ValueError as error:  # transformers has none for models with sliding windows
            raise NotImplementedError(str(error)) from error

    def inputs(self) -> dict[str, Tensor]:
        """Random tokens, nothing padded."""
        found = {"input_ids": self._tokens(N)}
        if self.config.is_encoder_decoder and not self.classifies:
            found["decoder_input_ids"] = self._tokens(N - 3)
        return self._ended(found, torch.ones(B, N, dtype=torch.bool))

    def _ended(self, given: dict[str, Tensor], real: Tensor) -> dict[str, Tensor]:
        """With the end of the text in each row, where an encoder–decoder that classifies reads."""
        if self.classifies and self.config.is_encoder_decoder:
            last = (real.long() * torch.arange(N)).argmax(-1, keepdim=True)
            tokens = given["input_ids"].masked_fill(
                given["input_ids"] == self.config.eos_token_id, self.usual
            )
            given["input_ids"] = tokens.scatter(-1, last, self.config.eos_token_id)
        return given

    def padded(self, side: str) -> tuple[dict[str, Tensor], Tensor | None]:
        """The same with some padding in the last row, and which positions of the output are real."""
        found, real = self.inputs(), torch.ones(B, N, dtype=torch.bool)
        real[-1, :PADS] = real[-1, -PADS:] = True
        real[-1, slice(0, PADS) if side == "left" else slice(N - PADS, N)] = False
        found["attention_mask"] = real.long()
        if self.decodes:
            found["position_ids"] = (real.long().cumsum(-1) - 1).clamp(min=0)
        pad = getattr(self.config.get_text_config(), "pad_token_id", None)
        if self.classifies and isinstance(pad, int):  # decoders find the last token by it
            found["input_ids"] = found["input_ids"].where(real, pad)
        outside = self.config.is_encoder_decoder or self.classifies
        return self._ended(found, real), None if outside else real

    def _tokens(self, n: int) -> Tensor:
        if self.vocabulary < 10:
            raise RunError(f"{type(self.model).__name__} says no size of its vocabulary.")
        tokens = torch.randint(0, self.vocabulary, (B, n), generator=self.draw)
        for token in self.special:
            tokens[tokens == token] = self.usual
        return tokens

    def _packed(self) -> dict[str, Any]:
        positions = torch.cat([torch.arange(5), torch.arange(N - 5)]).expand(B, -1)
        return {**self.inputs(), "position_ids": positions, "use_cache": False}

    def _features(self) -> dict[str, Tensor]:
        """Random pictures, or random sound."""
        config = self.config
        if self.model.main_input_name == "pixel_values":
            size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
            return {"pixel_values": torch.randn(B, config.num_channels, size, size, generator=self.draw)}
        if self.model.main_input_name == "input_features":
            shape = (B, config.num_mel_bins, 2 * config.max_source_positions)
            return {
                "input_features": torch.randn(shape, generator=self.draw),
                "decoder_input_ids": self._tokens(N),
            }
        raise RunError(f"{type(self.model).__name__} reads {self.model.main_input_name}, unknown here.")

    def _output(self, implementation: str, given: dict[str, Any]) -> Tensor:
        self.model.set_attn_implementation(implementation)
        try:
            found = self.model(**given)
        finally:
            self.model.set_attn_implementation(self.ours)
        output: Tensor = found.logits if "logits" in found else found[0]
        return output

    def _stepwise(self, chunk: int) -> float:
        """A cache filled chunk by chunk through us, against one pass of the model's own."""
        tokens, past = self._tokens(N), None
        parts: list[Tensor] = []
        for start in range(0, N, chunk):
            some = tokens[:, start : start + chunk]
            found = self.model(input_ids=some, past_key_values=past, use_cache=True)
            past = found.past_key_values
            parts.append(found.logits)
        return distance(torch.cat(parts, 1), self._output(self.own, {"input_ids": tokens}), None)

    def _causal(self) -> float:
        check_causal(
            lambda tokens: self.model(input_ids=tokens, use_cache=False).logits,
            self._tokens(N)[:1],
            vocabulary=self.vocabulary,
            atol=NEAR * max(1.0, float(self._output(self.ours, self.inputs()).abs().max())),
        )
        return 0.0

    def _unseen(self) -> float:
        """What changes when the tokens under the padding are replaced.

        Of a classifier, in its hidden states: decoders find the last token by the number of the padding.
        """
        given, real = self.padded("left" if self.decodes else "right")
        mask = given["attention_mask"].bool()
        other = {**given, "input_ids": torch.where(mask, given["input_ids"], self._tokens(N))}
        if self.classifies and not self.config.is_encoder_decoder:
            before, after = (self.model.base_model(**one)[0] for one in (given, other))
            return distance(after, before, mask)
        return distance(self._output(self.ours, other), self._output(self.ours, given), real)


@contextmanager
def without_remarks() -> Iterator[None]:
    """A block in which transformers remarks on no argument that it was given."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def distance(ours: Tensor, theirs: Tensor, real: Tensor | None) -> float:
    """max |ours − theirs| / max(1, max |theirs|), where `real` is True; everywhere, if not of positions."""
    if real is not None and theirs.shape[:2] == real.shape:
        ours, theirs = ours[real], theirs[real]
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1))
