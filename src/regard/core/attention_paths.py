"""The attentions of a model by role, as module paths that `record` and `intervene` take.

    cross          from the target to the source of a translator, last layer last
    self           self-attentions of the encoder, first layer first
    decoder_self   self-attentions of the decoder, first layer first
    reader         attentions whose weights over the tokens are "the attention" of a classifier;
                   the keys of the first are the tokens

A model has the roles it has, and no others: read them with `attention_paths(model).get(role, [])`.
"""

from typing import Protocol, runtime_checkable


@runtime_checkable
class HasAttentionPaths(Protocol):
    """A model that names its attentions."""

    attention_paths: dict[str, list[str]]


def attention_paths(model: object) -> dict[str, list[str]]:
    """Module paths of the model's attentions by role; {} for a model that does not name them."""
    return model.attention_paths if isinstance(model, HasAttentionPaths) else {}
