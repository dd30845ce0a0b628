"""Beam search against Hugging Face's `generate`: the same weights, and the same words out.

MarianMT is a post-norm Transformer with sinusoidal positions: our weights are copied into one. Both search
with beam 5 for exactly so many tokens, 32 sentences at a time; the weights are random and spread the words
out enough for the beams to branch.
"""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.core.tokens import BOS, EOS, PAD
from regard.decoding import Limits, beam
from regard.models import TRANSLATORS

WORDS, WIDTH, BATCH, LENGTH, BEAM, TOKENS = 8000, 256, 32, 20, 5, 40


def missing() -> list[str]:
    """What is not installed, a line each."""
    return [] if find_spec("transformers") else ["transformers is not installed: pip install 'regard[hf]'"]


def cases() -> list[TimedCase]:
    """The one case, where transformers is installed."""
    return [] if missing() else list(_beams())


def _beams() -> Iterator[TimedCase]:
    what = f"beam {BEAM}, batch {BATCH}, exactly {TOKENS} tokens, the same weights and outputs"
    yield TimedCase("beam", Claim(what, "transformers' generate", 0.65, 1 / 1.8), what, _measure)


def _measure(effort: Effort) -> Measured:
    torch.manual_seed(0)
    ours = (
        TRANSLATORS["transformer"].make(source_vocabulary=WORDS, target_vocabulary=WORDS, norm="post").eval()
    )
    theirs = marian(ours)
    source = torch.randint(4, WORDS, (BATCH, LENGTH))
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (BATCH,))
    source[torch.arange(LENGTH) >= lengths.unsqueeze(-1)] = PAD
    one, other = partial(search, ours, source, lengths), partial(generate, theirs, source)
    same = sum(a == b for a, b in zip(one(), other(), strict=True))
    if same < BATCH - 1:  # one may differ, where two sums are equal to rounding
        raise RuntimeError(f"only {same} of {BATCH} sentences come out the same: nothing to compare.")
    return Measured(*medians([one, other], effort))


class Endless:
    """A model that writes so many tokens and then EOS, at no cost to any of its hypotheses."""

    def __init__(self, model: Any):
        self.training, self.eval, self.train = model.training, model.eval, model.train
        self.encode, self.start, self.step = model.encode, model.start, model.step
        self.model, self.steps = model, 0

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.logits(hidden)
        self.steps += 1
        logits[:, EOS] = -torch.inf
        if self.steps > TOKENS:
            logits[:, EOS] = logits.logsumexp(-1)
        return logits


def search(model: nn.Module, source: Tensor, lengths: Tensor) -> list[list[int]]:
    """Ours: the best of each beam, without the EOS that ends it."""
    found = beam(Endless(model), source, lengths, Limits(0, TOKENS + 1, TOKENS + 1), width=BEAM)
    return [best[0].tokens for best in found]


def generate(model: Any, source: Tensor) -> list[list[int]]:
    """Hugging Face's: what follows the first token."""
    with torch.inference_mode():
        written = model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=BEAM,
            min_new_tokens=TOKENS,
            max_new_tokens=TOKENS,
            do_sample=False,
        )
    after: list[list[int]] = written[:, 1:].tolist()
    return after


def marian(ours: Any) -> Any:
    """A MarianMT with the weights of a post-norm Transformer of ours."""
    from transformers import MarianConfig, MarianMTModel

    config = ours.config
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.target_vocabulary, d_model=config.width, activation_function=config.activation,
            encoder_layers=config.layers, decoder_layers=config.layers,
            encoder_attention_heads=config.heads, decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.inner, decoder_ffn_dim=config.inner, scale_embedding=True,
            share_encoder_decoder_embeddings=False, decoder_vocab_size=config.target_vocabulary,
            pad_token_id=PAD, bos_token_id=BOS, decoder_start_token_id=BOS, eos_token_id=EOS,
            forced_eos_token_id=None, max_position_embeddings=512,
        )
    ).eval()  # fmt: skip
    theirs.load_state_dict(_renamed(ours, theirs.state_dict()))
    return theirs


def _renamed(ours: Any, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under Marian's names; padding and a beginning are never written."""
    found = dict(theirs)
    found["final_logits_bias"] = torch.zeros(1, WORDS).index_fill(1, torch.tensor([PAD, BOS]), -1e9)
    found["lm_head.weight"] = ours.target.E.weight
    for side, embed in (("encoder", ours.source), ("decoder", ours.target)):
        found[f"model.{side}.embed_tokens.weight"] = embed.E.weight
        places = theirs[f"model.{side}.embed_positions.weight"]
        found[f"model.{side}.embed_positions.weight"] = embed.positions(len(places), like=places)
    names = {
        "attention.W_": "self_attn.{}_proj", "cross.W_": "encoder_attn.{}_proj",
        "feed_forward.W1": "fc1", "feed_forward.W2": "fc2",
    }  # fmt: skip
    norms = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
    for name, weight in ours.state_dict().items():
        side, layer, rest = [*name.split(".", 2), "", ""][:3]
        if side not in norms or not layer.isdigit():
            continue
        what, kind = rest.rsplit(".", 1)
        if what.startswith("around"):
            what = f"{norms[side][int(what.split('.')[1])]}_layer_norm"
        elif what in names:
            what = names[what]
        else:
            letter = what[-1]
            what = names[what[:-1]].format("out" if letter == "o" else letter)
        found[f"model.{side}.layers.{layer}.{what}.{kind}"] = weight
    return found
