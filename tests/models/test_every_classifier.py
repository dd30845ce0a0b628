"""What is true of every classifier: its halves are the whole, padding changes nothing, looks are weights."""

import pytest
import torch

import regard
from regard.models.classifiers import CLASSIFIERS
from regard.models.parts.named_components import map_names

VARIANTS = {
    "attentive_bilstm": ("attentive_bilstm", {}),
    "attentive_bilstm, GRU, two layers": ("attentive_bilstm", {"cell": "gru", "layers": 2}),
    "attentive_mlp": ("attentive_mlp", {}),
    "attentive_mlp, unbounded": ("attentive_mlp", {"activation": "none"}),
    "attentive_cnn": ("attentive_cnn", {"windows": (1, 3)}),
    "self_attentive": ("self_attentive", {"rows": 3, "compared": 6, "inner": 5}),
    "hierarchical": ("hierarchical", {"ends": (4, 5)}),
    "transformer_encoder": ("transformer_encoder", {"heads": 2, "inner": 16}),
    "transformer_encoder, first": ("transformer_encoder", {"heads": 2, "inner": 16, "read": "first"}),
    "transformer_encoder, learned": (
        "transformer_encoder",
        {"heads": 2, "inner": 16, "positions": "learned", "longest": 12},
    ),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
PAIRS = [name for name in VARIANTS if name != "hierarchical" and "first" not in name]
TOKENS = torch.tensor([[6, 7, 4, 8, 5, 4, 9, 10], [9, 10, 7, 0, 0, 0, 0, 0], [8, 4, 6, 6, 10, 4, 0, 0]])
LENGTHS = torch.tensor([8, 3, 6])


def make(variant, **settings):
    name, own = VARIANTS[variant]
    torch.manual_seed(0)
    small = {"vocabulary": 11, "classes": 3, "embedding": 8}
    if name != "transformer_encoder":
        small["width"] = 8
    return CLASSIFIERS[name].make(**{**small, **own, **settings}).double().eval()


def texts(model):
    return (TOKENS, LENGTHS, TOKENS.flip(0), LENGTHS.flip(0)) if model.config.pairs else (TOKENS, LENGTHS)


def test_every_classifier_is_among_the_variants():
    known = {name for name in CLASSIFIERS if not name.startswith("rationalizer")}  # tested by themselves
    assert {name for name, _ in VARIANTS.values()} == known


@every_variant
@pytest.mark.parametrize("pairs", [False, True])
def test_two_halves_are_the_whole_and_gradients_reach_every_word(variant, pairs):
    if pairs and variant not in PAIRS:
        pytest.skip("reads one text")
    model = make(variant, pairs=pairs)
    whole = model(*texts(model))
    embedded = model.embed(TOKENS).detach().requires_grad_()
    halves = model.from_embedded(embedded, LENGTHS, model.condition(*texts(model)))
    assert whole.shape == (3, 3)
    assert torch.equal(whole, halves)
    (gradient,) = torch.autograd.grad(halves.square().sum(), embedded)
    there = torch.arange(8) < LENGTHS.unsqueeze(-1)
    assert ((gradient.abs().sum(-1) > 0) == there).all()


@every_variant
def test_padding_changes_nothing_even_if_it_is_not_a_number(variant):
    model = make(variant)
    whole = model(TOKENS, LENGTHS)
    for row, length, wanted in zip(TOKENS, LENGTHS, whole, strict=True):
        alone = model(row[None, :length], length[None])
        torch.testing.assert_close(alone[0], wanted, rtol=0, atol=1e-12)
    embedded = model.embed(TOKENS).detach()
    embedded[1, 3:], embedded[2, 6:] = torch.nan, torch.inf
    embedded.requires_grad_()
    found = model.from_embedded(embedded, LENGTHS, model.condition(TOKENS, LENGTHS))
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)
    found.sum().backward()
    assert embedded.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every_variant
@pytest.mark.parametrize("map", ["softmax", "sparsemax", "fusedmax", "sigmoid"])
def test_looks_are_weights_over_the_words(variant, map):
    model = make(variant, map=map)
    plain = model(TOKENS, LENGTHS)
    with regard.record(model, model.attention_paths["reader"]) as seen:
        assert torch.equal(model(TOKENS, LENGTHS), plain)
    assert set(seen) == set(model.attention_paths["reader"])
    weights = model.over_words(seen)
    assert weights.shape[0] == 3 and weights.shape[2] == 8
    assert (weights >= 0).all()
    assert (weights[1, :, 3:] == 0).all() and (weights[2, :, 6:] == 0).all()
    if map in ("softmax", "sparsemax", "fusedmax") and "first" not in variant:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]).double())


@every_variant
def test_weights_can_be_replaced(variant):
    model = make(variant)
    plain = model(TOKENS, LENGTHS)
    with regard.intervene(model, lambda p: p, model.attention_paths["reader"]):
        torch.testing.assert_close(model(TOKENS, LENGTHS), plain, rtol=0, atol=1e-12)
    with (
        regard.intervene(model, lambda p: p.roll(1, 0), model.attention_paths["reader"]),
        regard.record(model, model.attention_paths["reader"]) as seen,
    ):
        other = model(TOKENS, LENGTHS)
    assert not torch.allclose(other, plain)
    assert model.over_words(seen).shape[-1] == 8


@every_variant
@pytest.mark.parametrize("map", map_names())
def test_every_row_map_trains(variant, map):
    model = make(variant, map=map).float().train()
    torch.manual_seed(1)
    loss = model.loss(torch.tensor([0, 2, 1]), TOKENS, LENGTHS, smoothing=0.1)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("score", regard.SCORES)
def test_every_score_can_be_named(score):
    model = make("attentive_bilstm", score=score, map="entmax", learn_alpha=True)
    model(TOKENS, LENGTHS).sum().backward()
    assert model.attention.map.a.grad is not None


def test_one_word_is_looked_at_wholly():
    for variant in VARIANTS:
        model = make(variant)
        with regard.record(model, model.attention_paths["reader"]) as seen:
            logits = model(torch.tensor([[7]]), torch.tensor([1]))
        assert logits.isfinite().all()
        if "first" not in variant:
            assert torch.allclose(model.over_words(seen), torch.ones(1).double())


@pytest.mark.parametrize(
    ("variant", "settings", "words"),
    [
        ("attentive_bilstm", {"classes": 1}, "at least 2 classes"),
        ("attentive_bilstm", {"width": 7}, "even"),
        ("attentive_bilstm", {"cell": "rnn"}, "cell must be 'lstm' or 'gru'"),
        ("attentive_bilstm", {"dropout": 1.0}, "dropout"),
        ("attentive_bilstm", {"word_dropout": -0.1}, "word_dropout"),
        ("attentive_bilstm", {"map": "argmax"}, "no gradient"),
        ("attentive_mlp", {"activation": "relu"}, "activation"),
        ("attentive_cnn", {"windows": (2,)}, "odd"),
        ("attentive_cnn", {"windows": (1, 3, 5)}, "divide the width"),
        ("self_attentive", {"rows": 0}, "rows"),
        ("self_attentive", {"penalty": -1.0}, "penalty"),
        ("hierarchical", {"pairs": True}, "one text"),
        ("transformer_encoder", {"read": "last"}, "read"),
        ("transformer_encoder", {"read": "first", "pairs": True}, "one text"),
    ],
)
def test_what_is_wrong_is_said_at_once(variant, settings, words):
    with pytest.raises(ValueError, match=words):
        make(variant, **settings)


@pytest.mark.parametrize(
    ("tokens", "lengths", "words"),
    [
        (TOKENS, torch.tensor([8, 0, 6]), "at least one word"),
        (TOKENS, torch.tensor([8, 9, 6]), "from 1 to n=8"),
        (TOKENS[0], LENGTHS, r"tokens \(b, n\)"),
        (TOKENS, LENGTHS[:2], r"lengths \(b,\)"),
    ],
)
def test_texts_are_checked(tokens, lengths, words):
    with pytest.raises(regard.core.errors.ShapeError, match=words):
        make("attentive_mlp")(tokens, lengths)


def test_a_second_text_must_be_expected_and_then_must_come():
    one, two = make("attentive_bilstm"), make("attentive_bilstm", pairs=True)
    with pytest.raises(ValueError, match="takes one text; got two"):
        one(TOKENS, LENGTHS, TOKENS, LENGTHS)
    with pytest.raises(ValueError, match="takes pairs of texts; got one"):
        two(TOKENS, LENGTHS)


def test_more_words_than_learned_positions():
    with pytest.raises(ValueError, match="12 places"):
        make("transformer_encoder, learned")(TOKENS.repeat(1, 2), torch.tensor([13, 3, 6]))
