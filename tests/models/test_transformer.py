"""The Transformer against torch's own, with the same weights."""

import pytest
import torch
from torch import nn

from regard.heads.convert import from_torch
from regard.models import Transformer
from regard.models.transformer import Config
from regard.positions import sinusoid

SMALL = Config(source_vocabulary=9, target_vocabulary=13, width=16, inner=24, heads=4, layers=2, dropout=0.0)


def make(**settings):
    torch.manual_seed(0)
    model = Transformer(Config(**{**vars(SMALL), **settings})).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


def torch_s(norm, activation):
    """torch's, which has a norm after each stack; after a post-norm layer the paper has none."""
    torch.manual_seed(1)
    theirs = nn.Transformer(
        16, 4, 2, 2, 24, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.5)
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


def copy(theirs, ours):
    """Weights of torch's into ours, layer by layer."""
    for mine, their in zip(
        [*ours.encoder, *ours.decoder], [*theirs.encoder.layers, *theirs.decoder.layers], strict=True
    ):
        mine.attention.load_state_dict(from_torch(their.self_attn).state_dict())
        if hasattr(mine, "cross"):
            mine.cross.load_state_dict(from_torch(their.multihead_attn).state_dict())
        mine.feed_forward.W1.load_state_dict(their.linear1.state_dict())
        mine.feed_forward.W2.load_state_dict(their.linear2.state_dict())
        for k, around in enumerate(mine.around, 1):
            around.norm.load_state_dict(getattr(their, f"norm{k}").state_dict())
    if theirs.encoder.norm is not None:
        ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_equals_torch_s_with_copied_weights(norm, activation, padded):
    ours, theirs = make(norm=norm, activation=activation), torch_s(norm, activation)
    copy(theirs, ours)
    source, target = torch.randint(4, 9, (3, 6)), torch.randint(4, 13, (3, 5))
    lengths = torch.tensor([6, 2, 4]) if padded else torch.full((3,), 6)
    hidden = torch.arange(6) >= lengths.unsqueeze(1)
    x = ours.source.E(source) * 4 + sinusoid(torch.arange(6), 16)
    y = ours.target.E(target) * 4 + sinusoid(torch.arange(5), 16)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, y, tgt_mask=causal, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    found = ours(source, lengths, target)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    wanted = ours.source.E.weight, theirs.decoder.layers[0].linear1.weight
    embeddings, theirs_inner = torch.autograd.grad(expected.square().sum(), wanted)
    again, inner = torch.autograd.grad(
        found.square().sum(), (ours.source.E.weight, ours.decoder[0].feed_forward.W1.weight)
    )
    torch.testing.assert_close(again, embeddings, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(inner, theirs_inner, rtol=1e-9, atol=1e-9)


def test_the_source_alone_equals_torch_s_encoder():
    ours, theirs = make(norm="post"), torch_s("post", "relu")
    copy(theirs, ours)
    source, lengths = torch.randint(4, 9, (2, 6)), torch.tensor([6, 3])
    x = ours.source.E(source) * 4 + sinusoid(torch.arange(6), 16)
    expected = theirs.encoder(x, src_key_padding_mask=torch.arange(6) >= lengths.unsqueeze(1))
    memory = ours.encode(source, lengths)
    real = torch.arange(6) < lengths.unsqueeze(1)
    torch.testing.assert_close(memory.encoded[real], expected[real], rtol=0, atol=1e-10)


def test_ties():
    free, tied, joint = (make(tied=tied, target_vocabulary=9) for tied in ("no", "target", "all"))
    per_table = 9 * 16
    assert free.parameter_count() == tied.parameter_count() + per_table + 9
    assert tied.parameter_count() == joint.parameter_count() + per_table
    hidden = torch.randn(4, 16).double()
    torch.testing.assert_close(tied.logits(hidden), hidden @ tied.target.E.weight.T)
    torch.testing.assert_close(joint.logits(hidden), hidden @ joint.source.E.weight.T)
    torch.testing.assert_close(free.logits(hidden), free.output(hidden))


def test_without_positions_the_encoder_does_not_know_the_order():
    """Relative positions with every vector the same tell nothing: what is left is a set."""
    model = make(positions="relative")
    for layer in model.encoder:
        (term,) = layer.attention.score.terms
        nn.init.zeros_(term.a)
    source, lengths = torch.randint(4, 9, (1, 6)), torch.tensor([6])
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    moved = model.encode(source[:, order], lengths).encoded
    torch.testing.assert_close(moved, model.encode(source, lengths).encoded[:, order], rtol=0, atol=1e-10)
    term.a.data.normal_()
    assert not torch.allclose(
        model.encode(source[:, order], lengths).encoded, model.encode(source, lengths).encoded[:, order]
    )


def test_relative_positions_are_in_the_self_attentions_alone():
    model = make(positions="relative", reach=3)
    assert model.source.positions is None and model.target.positions is None
    assert all(hasattr(layer.attention.score, "terms") for layer in [*model.encoder, *model.decoder])
    assert not any(hasattr(layer.cross.score, "terms") for layer in model.decoder)


def test_an_empty_source_has_nothing_to_say_but_no_nan():
    model = make()
    source, target = torch.randint(4, 9, (2, 4)), torch.randint(4, 13, (2, 3))
    hidden = model(source, torch.tensor([4, 0]), target)
    hidden.sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (dict(norm="both"), "norm must be 'pre' or 'post'; got 'both'"),
        (dict(positions="rotary"), "positions must be 'sinusoidal' or 'learned' or 'relative'; got 'rotary'"),
        (
            dict(activation="swish"),
            "activation must be 'relu' or 'gelu' or .*; got 'swish'",
        ),
        (dict(tied="yes"), "tied must be 'no' or 'target' or 'all'; got 'yes'"),
        (dict(tied="all"), 'tied="all" wants one vocabulary for source and target; got 9 and 13'),
        (dict(heads=3), "heads must divide the width; got width=16, heads=3"),
    ],
)
def test_wrong_settings_are_named(settings, says):
    with pytest.raises(ValueError, match=says):
        make(**settings)


def test_learned_positions_end_where_the_configuration_says():
    model = make(positions="learned", longest=5)
    with pytest.raises(ValueError, match="learned positions for 5 places; got a sequence of 6"):
        model.encode(torch.randint(4, 9, (2, 6)), torch.tensor([6, 6]))


def test_embeddings_begin_with_variance_one():
    torch.manual_seed(0)
    model = Transformer(Config(5000, 5000, width=64, heads=4))
    x = model.source.E.weight * model.source.scale
    assert x.var().item() == pytest.approx(1, abs=0.02)
