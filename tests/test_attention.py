"""Bad input gets an error that names the argument, what was expected, what came and what to do."""

from functools import partial

import pytest
import torch

import regard
from regard.core.errors import DtypeError, ShapeError, UnknownNameError

Q, K, V = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ((Q.long(), K), DtypeError, "query must be float16, bfloat16, float32 or float64; got torch.int64"),
        (
            (Q, K.double()),
            DtypeError,
            r"keys must be torch.float32 as query is; got torch.float64. Use keys.to\(query.dtype\)",
        ),
        ((Q, K, V[:, :4]), ShapeError, r"values must be \(..., n, d_v\) with n=5; got \(2, 4, 6\)"),
        ((Q[0, 0], K), ShapeError, r"query must be \(..., m, d_q\); got \(4,\)"),
        ((Q, torch.randn(3, 5, 4)), ShapeError, r"must broadcast; got \(2, 3, 4\), \(3, 5, 4\), \(3, 5, 4\)"),
        ((Q, torch.randn(2, 5, 3)), ShapeError, "d_q must equal d_k"),
        (([[1.0]], K), TypeError, "query must be a tensor; got list"),
    ],
)
def test_bad_tensors(arguments, kind, says):
    with pytest.raises(kind, match=says):
        regard.attend(*arguments)


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        (dict(map="sparsmax"), UnknownNameError, 'no map "sparsmax"; did you mean sparsemax'),
        (dict(map="nothing like it at all"), KeyError, "Known: .*softmax"),
        (dict(score="additve"), UnknownNameError, 'no score "additve"; did you mean additive'),
        (dict(score="additive"), ValueError, r"score=regard.scores.Additive\(d_q, d_k\)"),
        (dict(map=3), TypeError, "map must be a name from regard.MAPS or a callable; got int"),
        (dict(score=3), TypeError, "score must be a name from regard.SCORES or a callable; got int"),
        (dict(dropout=1.5), ValueError, "dropout must be at least 0 and less than 1; got 1.5"),
        (dict(mask=torch.ones(3, 5)), DtypeError, "mask must be boolean"),
        (dict(mask=torch.ones(3, 5, dtype=torch.int)), DtypeError, "mask must be boolean"),
        (dict(mask=torch.ones(3, 4, dtype=torch.bool)), ShapeError, "mask must broadcast"),
    ],
)
def test_bad_settings(settings, kind, says):
    with pytest.raises(kind, match=says):
        regard.attend(Q, K, **settings)


def test_other_devices_are_named():
    with pytest.raises(
        ValueError, match=r"keys must be on cpu as query is; got meta. Use keys.to\(query.device\)"
    ):
        regard.attend(Q, K.to("meta"))


def test_values_default_to_keys_and_batches_broadcast():
    assert torch.equal(regard.attend(Q, K).context, regard.attend(Q, K, K).context)
    shared = regard.attend(torch.randn(2, 6, 3, 4), K[:1], V[0])
    assert shared.context.shape == (2, 6, 3, 6)
    assert shared.weights.shape == (2, 6, 3, 5)


def test_a_matrix_map_refuses_a_causal_mask():
    matrix = regard.maps.table.Map("both", lambda s: s.softmax(-1) * s.softmax(-2), "", acts_on="matrix")

    def both(scores):
        return matrix.function(scores)

    both.facts = matrix
    assert regard.attend(Q, K, map=both).weights.shape == (2, 3, 5)
    with pytest.raises(ValueError, match="no Causal mask"):
        regard.attend(Q, K, map=both, mask=regard.masks.Causal())


def test_a_random_map_keeps_the_weights_that_made_the_context():
    def drawn(scores):
        return torch.rand_like(scores)

    drawn.facts = regard.maps.table.Map("drawn", drawn, "", stochastic=True, simplex=False)
    seen = regard.attend(Q, K, V, map=drawn)
    torch.testing.assert_close(seen.weights @ V, seen.context)
    assert torch.equal(seen.weights, seen.weights)


def test_an_attention_learns_to_find_the_marked_key():
    """The toy task: the value of the one key that carries the query's mark."""
    torch.manual_seed(0)
    for map in ("softmax", "sparsemax", "entmax15", "entmax"):
        attention = regard.Attention(regard.scores.Bilinear(6, 6), map)
        optimizer = torch.optim.Adam(attention.parameters(), 0.05)
        for _ in range(150):
            marks = torch.stack([torch.randperm(6) for _ in range(32)])  # (b, 6)
            keys = torch.nn.functional.one_hot(marks, 6).float()
            values = torch.randn(32, 6, 3)
            want = values[torch.arange(32), (marks == 0).int().argmax(1)]
            query = keys.new_zeros(32, 1, 6)
            query[..., 0] = 1
            loss = (attention(query, keys, values).context[:, 0] - want).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss < 0.1, map


PUBLIC = [
    "context",
    "columns",
    "over_tokens",
    "sink",
    "query",
    "keys",
    "values",
    "mask",
    "visible",
    "place",
    "score",
    "map",
    "scores",
    "weights",
    "detach",
]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "map=softmax, score=scaled_dot"),
        ({"map": "sparsemax", "score": regard.scores.Additive(4, 4)}, "map=sparsemax, score=additive"),
        ({"map": partial(regard.maps.entmax, alpha=1.3)}, "map=entmax, score=scaled_dot"),
        ({"map": regard.maps.Entmax(), "score": "dot"}, "map=entmax, score=dot"),
    ],
)
def test_attended_says_shapes_and_names_and_looks_at_nothing(settings, said):
    attended = regard.attend(Q, K, V, **settings)
    assert repr(attended) == f"Attended(context=(2, 3, 6), weights=(2, 3, 5), {said})"
    assert not attended._known  # no weights were computed for it
    assert attended.weights.shape == (2, 3, 5)
    shared = regard.attend(Q, K[0], V[0])
    assert repr(shared).startswith("Attended(context=(2, 3, 6), weights=(2, 3, 5), ")


def test_attended_has_nothing_public_but_what_is_documented():
    attended = regard.attend(Q, K, V, mask=torch.ones(3, 5, dtype=torch.bool))
    assert sorted(name for name in dir(attended) if not name.startswith("_")) == sorted(PUBLIC)
    for name in PUBLIC[1:]:
        assert getattr(type(attended), name).__doc__, name
    assert attended.map is regard.maps.softmax and isinstance(attended.score, regard.scores.ScaledDot)
    assert attended.visible.all() and attended.place is None
    assert repr(attended.detach()) == repr(attended)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: regard.attend(Q, K, is_causal=True),
            r"attend has no is_causal=. Write mask=regard.masks.Causal",
        ),
        (lambda: regard.attend(Q, K, dropout_p=0.1), "Write dropout="),
        (lambda: regard.attend(Q, K, maks=None), "unexpected keyword argument 'maks'"),
        (lambda: regard.Attention()(Q, K, attn_mask=None), r"mask=regard.masks.from_hidden\(attn_mask\)"),
        (lambda: regard.Attention(dropout_p=0.1), "Attention has no dropout_p=. Write dropout="),
        (lambda: regard.MultiHead(8, num_heads=2), "MultiHead has no num_heads=. Write heads="),
        (lambda: regard.MultiHead(8, 2)(Q, need_weights=True), "seen.weights"),
        (lambda: regard.MultiHead(4, 2)(Q, key_padding_mask=None), r"\[:, None, None, :\]"),
        (lambda: regard.maps.softmax(Q, dim=-1), "softmax has no dim=. Write nothing for the last axis"),
        (lambda: regard.maps.entmax15(Q, dim=1), r"map\(scores.movedim\(dim, -1\)\)"),
        (lambda: regard.MAPS["argmax"](Q, dim=1), "argmax has no dim="),
        (lambda: regard.attend(Q, K, map=regard.maps.Entmax), r"map=Entmax\(...\); got the class"),
        (lambda: regard.Attention(regard.scores.Additive), r"score=Additive\(...\); got the class"),
        (lambda: list(regard.attend(Q, K)), "not a pair.*seen.context and seen.weights"),
        (
            lambda: torch.nn.Linear(4, 4)(regard.attend(Q, K)),
            r"linear takes a tensor; got an Attended.*Context\(\)",
        ),
        (lambda: Q + regard.attend(Q, K), "got an Attended: write seen.context"),
        (lambda: 2 * regard.attend(Q, K), "got an Attended: write seen.context"),
        (lambda: regard.attend(Q, K)[0], "not a pair"),
        (lambda: regard.attend(Q, K, enable_gqa=True), "Write groups="),
        (lambda: regard.attend(Q, K, alpha=1.5), r"map=regard.maps.Entmax\(alpha\)"),
        (lambda: regard.attend(Q, K, mask=regard.masks.Causal), r"mask=Causal\(...\); got the class"),
        (lambda: regard.MultiHead(embed_dim=8, num_heads=2), "Write width="),
        (lambda: regard.MAPS["fusedmax"](Q, dim=1), "fusedmax has no dim="),
        (lambda: regard.masks.Lengths([5, 3]), r"must be a tensor.*got list. Use torch.tensor\(lengths\)"),
    ],
)
def test_what_other_libraries_write_gets_an_answer(call, says):
    with pytest.raises(TypeError, match=says):
        call()


def test_an_attended_is_no_tensor():
    with pytest.raises(AttributeError, match=r"no shape; its context has: seen.context.shape"):
        regard.attend(Q, K).shape  # noqa: B018
    heads = torch.nn.Sequential(regard.MultiHead(4, 2), regard.heads.Context(), torch.nn.Linear(4, 3))
    assert heads(Q).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (torch.ones(3, 3, 5, dtype=torch.bool), r"\(2, 3, 5\); got \(3, 3, 5\)"),
        (torch.ones(2, 5, dtype=torch.bool), r"got \(2, 5\).*mask\[:, None, :\]"),
        (torch.ones(2, 2, 3, 5, dtype=torch.bool), r"\(2, 3, 5\); got \(2, 2, 3, 5\)"),
        (regard.masks.Lengths(torch.tensor([5, 3, 1])), r"one per sequence, \(2,\); got \(3,\)"),
        (regard.masks.Causal() & regard.masks.Lengths(torch.tensor([5, 6])), "at most n=5.*got 6"),
    ],
)
def test_masks_of_other_shapes(mask, says):
    with pytest.raises(ValueError, match=says):
        regard.attend(Q, K, mask=mask)


@pytest.mark.parametrize("map", ["sinkhorn", "two_way_softmax"])
def test_a_matrix_map_refuses_a_boolean_triangle(map):
    real, ones = torch.arange(5) < torch.tensor([[4], [2]]), torch.ones(5, 5, dtype=torch.bool)
    x = torch.randn(2, 5, 4)
    prefix = ones.tril() | (torch.arange(5) < 2)
    for mask in (ones.tril(), ones.triu(), prefix, (real[:, None] & real[..., None]) & ones.tril()):
        with pytest.raises(ValueError, match="no Causal mask, nor a boolean one"):
            regard.attend(x, x, map=map, mask=mask)
    band = ones.tril(1) & ones.triu(-1)
    for mask in (real[:, None] & real[..., None], real[:, None], ones, band, ~ones, regard.masks.Window(1)):
        assert regard.attend(x, x, map=map, mask=mask).context.isfinite().all()
