"""A cache of hidden states and the tokens after them, mixed into any model's probabilities."""

import pytest
import torch

from regard.decoding.cache_pointer import CachePointer


def test_the_mixture_by_hand_and_the_same_word_adds_up():
    cache = CachePointer(3, share=0.25, sharpness=2.0)
    logits = torch.randn(5)
    assert torch.allclose(cache.mixed(logits, torch.ones(2)), logits.double().log_softmax(-1))
    states = torch.tensor([[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for state, token in zip(states, [4, 2, 3, 2], strict=True):
        cache.add(state, token)
    kept, hidden = states[1:].double(), torch.tensor([1.0, 0.5])  # the oldest is gone
    scale = 2.0 / kept.square().sum(-1).mean()
    pointed = (scale * kept @ hidden.double()).softmax(0)
    wanted = 0.75 * logits.double().softmax(-1)
    wanted[2] += 0.25 * (pointed[0] + pointed[2])
    wanted[3] += 0.25 * pointed[1]
    torch.testing.assert_close(cache.mixed(logits, hidden).exp(), wanted)


def test_bad_settings_are_refused():
    for size, share, sharpness in ((0, 0.1, 1.0), (5, 1.0, 1.0), (5, 0.1, 0.0)):
        with pytest.raises(ValueError, match="a cache needs"):
            CachePointer(size, share, sharpness)
