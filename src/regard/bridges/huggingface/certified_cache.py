"""transformers' cache with ours in it: `generate` of a swapped model decodes on the certified backend.

`generate` makes its cache by one method of the model; here that method is followed by another, which puts
layers of ours in the place of plain ones. The keys that a layer returns carry its codes as an attribute,
which any change of the tensor loses. A cache that the user gives is left alone.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer

from regard.backends.key_codes import KeyCodes
from regard.bridges.huggingface.model_attentions import submodels
from regard.memories import Quantised

CODES = "_regard_codes"
METHOD = "_prepare_cache_for_generation"


class CertifiedLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, in a cache of ours."""

    def __init__(self, **other: Any):
        super().__init__(**other)
        self.held = Quantised()

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append (b, heads, k, d); returns all so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.held.append(key_states, value_states)
        return self._shown()

    def reset(self) -> None:
        """Empty it."""
        super().reset()
        self.held = Quantised()

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last −tokens_to_remove tokens."""
        if tokens_to_remove < 0 and self.is_initialized:
            self.held.crop(max(len(self.held) + tokens_to_remove, 0))
            self._shown()
        else:
            super().crop(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each sequence so many times."""
        if self.get_seq_length() > 0:
            self.reorder_cache(torch.arange(len(self.held.keys)).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        """These sequences."""
        self.reorder_cache(indices)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """These sequences, in this order."""
        if self.get_seq_length() > 0:
            self.held.select(beam_idx.to(self.held.keys.device))
            self._shown()

    def _shown(self) -> tuple[Tensor, Tensor]:
        self.keys, self.values = self.held.keys, self.held.values
        if (codes := self.held.codes) is not None:
            setattr(self.keys, CODES, codes)
        return self.keys, self.values


class Prepared:
    """The method of a model that makes the cache of `generate`, and then ours of it."""

    def __init__(self, model: Any):
        self.model = model

    def __call__(self, config: Any, given: dict[str, Any], *rest: Any, **named: Any) -> Any:
        own = given.get("past_key_values")
        found = getattr(type(self.model), METHOD)(self.model, config, given, *rest, **named)
        made = given.get("past_key_values")
        if own is None and made is not None:
            certify(made)
        return found


def certify(cache: Any) -> None:
    """Put layers of ours in the place of plain ones in an empty cache of transformers."""
    if isinstance(cache, EncoderDecoderCache):
        certify(cache.self_attention_cache)
        certify(cache.cross_attention_cache)
    elif type(cache) is DynamicCache:
        cache.layers = [CertifiedLayer() if type(one) is DynamicLayer else one for one in cache.layers]
        if cache.layer_class_to_replicate is DynamicLayer:
            cache.layer_class_to_replicate = CertifiedLayer


def set_cache(model: nn.Module, cache: str | None) -> None:
    """Make the models of transformers in a model generate with this cache: "certified", or their own."""
    for part in submodels(model):
        vars(part).pop(METHOD, None)
        if cache is not None:
            vars(part)[METHOD] = Prepared(part)


def codes_of(keys: Tensor) -> tuple[KeyCodes, int, int] | None:
    """The codes that keys from a layer of ours carry."""
    return None if torch.compiler.is_compiling() else vars(keys).get(CODES)
