"""A `gpt` with the weights of GPT-2 says and writes what GPT-2 does."""

import pytest
import torch

from regard.bench.gpt2_layout import greedy_tokens, like_gpt2

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(0)
    shape = transformers.GPT2Config(
        vocab_size=50, n_positions=40, n_embd=16, n_layer=2, n_head=2, eos_token_id=None, bos_token_id=None
    )
    theirs = transformers.GPT2LMHeadModel(shape).eval()
    for p in theirs.parameters():  # far from their small first values
        torch.nn.init.normal_(p, std=0.3)
    return theirs, like_gpt2(theirs)


def test_logits_are_the_same(pair):
    theirs, ours = pair
    tokens = torch.randint(50, (2, 12))
    with torch.no_grad():
        torch.testing.assert_close(ours.logits(ours(tokens)[0]), theirs(tokens).logits, atol=1e-4, rtol=1e-4)


def test_the_same_tokens_are_written(pair):
    theirs, ours = pair
    tokens = torch.randint(50, (1, 5))
    wanted = theirs.generate(tokens, max_new_tokens=20, do_sample=False, pad_token_id=0)
    assert torch.equal(greedy_tokens(ours, tokens, 20), wanted)
