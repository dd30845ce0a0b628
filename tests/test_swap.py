"""swap: the map changes, and nothing else about a model does."""

import pickle
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import regard
from regard.core.errors import DtypeError, ShapeError
from regard.swap import Swapped, swap

NEVER = float("-inf")
B, M, N, D, HEADS = 2, 4, 6, 8, 2
KINDS = {
    "packed": {},
    "sequence first": {"batch_first": False},
    "without bias": {"bias": False},
    "other widths": {"kdim": 5, "vdim": 3},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 5},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind="packed", dtype=torch.float64, **settings):
    torch.manual_seed(0)
    settings = {"batch_first": True, "dtype": dtype, **KINDS[kind], **settings}
    module = nn.MultiheadAttention(D, HEADS, **settings)
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)  # biases too
    return module.eval()


def pair(kind="packed", map="softmax", **settings):
    """The module as torch has it, and swapped."""
    module = made(kind, **settings)
    other = deepcopy(module)
    swap(other, map)
    return module, other


def inputs(module, batched=True):
    torch.manual_seed(1)
    widths = ((M, module.embed_dim), (N, module.kdim), (N, module.vdim))
    tensors = [torch.randn(B, n, d, dtype=torch.float64) for n, d in widths]
    if not batched:
        return [x[0] for x in tensors]
    return tensors if module.batch_first else [x.transpose(0, 1) for x in tensors]


def hidden(*shape):
    """A mask of torch's, True = hidden, that hides no row entirely."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.5
    return mask.index_fill(-1, torch.tensor([0]), False)


def added(*shape):
    """A float mask: numbers, and −inf where hidden."""
    torch.manual_seed(3)
    return torch.randn(shape, dtype=torch.float64).masked_fill(hidden(*shape), NEVER)


MASKS = {
    "none": lambda b: {},
    "boolean": lambda b: {"attn_mask": hidden(M, N)},
    "boolean per head": lambda b: {"attn_mask": hidden(b * HEADS, M, N)},
    "float": lambda b: {"attn_mask": added(M, N)},
    "float per head": lambda b: {"attn_mask": added(b * HEADS, M, N)},
    "padding": lambda b: {"key_padding_mask": hidden(b, N)},
    "float padding": lambda b: {"key_padding_mask": added(b, N)},
    "both": lambda b: {"attn_mask": hidden(M, N), "key_padding_mask": hidden(b, N)},
    "both float": lambda b: {"attn_mask": added(b * HEADS, M, N), "key_padding_mask": added(b, N)},
}
every_mask = pytest.mark.parametrize("mask", MASKS)


@every_mask
@every_kind
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "one sequence"])
def test_with_softmax_it_is_the_same_function(kind, mask, batched):
    """Outputs, weights and all gradients."""
    module, swapped = pair(kind)
    masks = MASKS[mask](B if batched else 1)
    if not batched and "key_padding_mask" in masks:
        masks["key_padding_mask"] = masks["key_padding_mask"][0]
    results = []
    for each in (module, swapped):
        given = [x.clone().requires_grad_() for x in inputs(each, batched)]
        output, weights = each(*given, **masks, average_attn_weights=False)
        mean = each(*given, **masks)[1]
        alone, none = each(*given, **masks, need_weights=False)
        assert none is None
        loss = (output.sin() + alone.cos()).sum() + weights.square().sum()
        results.append(
            [output, weights, mean, alone, *torch.autograd.grad(loss, [*given, *each.parameters()])]
        )
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["packed", "sequence first"])
def test_the_causal_hint(kind, need_weights):
    module, swapped = pair(kind)
    x = inputs(module)[0]
    for mask in (torch.ones(M, M).triu(1).bool(), nn.Transformer.generate_square_subsequent_mask(M).double()):
        given = {"attn_mask": mask, "is_causal": True, "need_weights": need_weights}
        torch.testing.assert_close(swapped(x, x, x, **given)[0], module(x, x, x, **given)[0])
    with pytest.raises(ValueError, match="attn_mask"):
        swapped(x, x, x, is_causal=True)


def test_dropout_falls_on_the_weights_while_training():
    _, swapped = pair(dropout=0.5)
    query, key, value = (x[:1].expand(4000, -1, -1) for x in inputs(swapped))
    expected, weights = swapped(query, key, value)
    assert swapped(query, key, value)[0].equal(expected)  # eval: none
    swapped.train()
    torch.manual_seed(0)
    outputs, shown = swapped(query, key, value)
    assert outputs.std(0).min() > 0.01
    error = outputs.std(0) / len(outputs) ** 0.5
    assert ((outputs.mean(0) - expected[0]).abs() < 5 * error).all()
    torch.testing.assert_close(shown, weights)  # what is shown is before dropout


def test_a_row_that_is_all_hidden_is_nothing_and_not_nan():
    _, swapped = pair()
    given = [x.requires_grad_() for x in inputs(swapped)]
    for mask in (torch.ones(M, N).bool(), torch.full((M, N), NEVER, dtype=torch.float64)):
        mask[1:] = 0
        output, weights = swapped(*given, attn_mask=mask)
        assert (weights[:, 0] == 0).all()
        torch.testing.assert_close(output[:, 0], swapped.out_proj.bias.expand(B, -1))
        gradients = torch.autograd.grad(output.sum(), [*given, *swapped.parameters()])
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("as_float", [False, True])
@pytest.mark.parametrize("kind", ["packed", "other widths", "both"])
def test_hidden_keys_may_hold_nan(kind, as_float):
    _, swapped = pair(kind, "entmax15")
    given = inputs(swapped)
    mask = torch.zeros(B, N, dtype=torch.bool)
    mask[:, 4:] = True
    padding = torch.zeros(B, N).double().masked_fill(mask, NEVER) if as_float else mask
    results = []
    for what in (0.0, float("nan")):
        query, key, value = (x.clone() for x in given)
        key[:, 4:], value[:, 4:] = what, what
        leaves = [x.requires_grad_() for x in (query, key, value)]
        output, weights = swapped(*leaves, key_padding_mask=padding)
        gradients = torch.autograd.grad(output.sin().sum(), [*leaves, *swapped.parameters()])
        results.append((output, weights, *gradients))
    for clean, dirty in zip(*results, strict=True):
        assert dirty.equal(clean)


def test_a_float_mask_learns():
    """Also one that starts at 0."""
    module, swapped = pair()
    given = inputs(module)
    gradients = []
    for each in (module, swapped):
        bias = torch.zeros(M, N, dtype=torch.float64, requires_grad=True)
        output, _ = each(*given, attn_mask=bias)
        gradients += torch.autograd.grad(output.sin().sum(), bias)
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"attn_mask": torch.zeros(M, N + 1).bool()}, ShapeError, r"attn_mask must be \(m, n\) = \(4, 6\)"),
        (
            {"attn_mask": torch.zeros(3, M, N).bool()},
            ShapeError,
            r"\(b·heads, m, n\) = \(4, 4, 6\); got \(3, 4, 6\)",
        ),
        (
            {"key_padding_mask": torch.zeros(B, M).bool()},
            ShapeError,
            r"key_padding_mask must be \(b, n\) = \(2, 6\)",
        ),
        ({"attn_mask": torch.zeros(M, N).long()}, DtypeError, "boolean"),
    ],
)
def test_bad_masks_are_named(given, error, says):
    _, swapped = pair()
    with pytest.raises(error, match=says):
        swapped(*inputs(swapped), **given)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_bad_inputs_are_named():
    _, swapped = pair("other widths")
    query, key, value = inputs(swapped)
    with pytest.raises(ShapeError, match=r"key must be .* with kdim=5; got \(2, 6, 8\)"):
        swapped(query, torch.zeros(B, N, D, dtype=torch.float64), value)
    with pytest.raises(ShapeError, match="n=6"):
        swapped(query, key, value[:, 1:])
    with pytest.raises(ShapeError, match="of one b"):
        swapped(query[:1], key, value)
    ragged = torch.nested.nested_tensor([torch.zeros(2, D), torch.zeros(3, D)])
    with pytest.raises(TypeError, match="nested"):
        swapped(ragged, ragged, ragged)


@pytest.mark.parametrize(("b", "m", "n"), [(0, M, N), (B, 0, N), (B, M, 0)])
def test_empty_inputs(b, m, n):
    _, swapped = pair(map="entmax15")
    given = [torch.zeros(b, k, D, dtype=torch.float64) for k in (m, n, n)]
    output, weights = swapped(*given)
    assert weights.shape == (b, m, n)
    assert output.shape == (b, m, D)
    if n == 0:  # nothing to look at
        torch.testing.assert_close(output, swapped.out_proj.bias.expand_as(output))
        assert swapped(*given, key_padding_mask=torch.zeros(b, n).bool())[0].equal(output)


# Whole models


def transformer(**settings):
    torch.manual_seed(0)
    settings = {"batch_first": True, "dropout": 0.0, **settings}
    model = nn.Transformer(D, HEADS, 2, 2, 16, **settings).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    return model


PATHS = (
    *(f"encoder.layers.{i}.self_attn" for i in (0, 1)),
    *(f"decoder.layers.{i}.{name}" for i in (0, 1) for name in ("self_attn", "multihead_attn")),
)
causal = nn.Transformer.generate_square_subsequent_mask
TRANSFORMER_MASKS = {
    "none": {},
    "padding": {
        "src_key_padding_mask": torch.arange(N) >= torch.tensor([[N], [3]]),
        "memory_key_padding_mask": torch.arange(N) >= torch.tensor([[N], [3]]),
        "tgt_key_padding_mask": torch.arange(M) >= torch.tensor([[2], [M]]),
    },
    "boolean": {
        "src_mask": hidden(N, N),
        "tgt_mask": torch.ones(M, M).triu(1).bool(),
        "memory_mask": hidden(M, N),
    },
    "float": {
        "src_mask": added(N, N),
        "tgt_mask": causal(M, dtype=torch.float64),
        "memory_mask": added(M, N),
    },
    "per head": {"src_mask": hidden(B * HEADS, N, N), "tgt_mask": added(B * HEADS, M, M)},
    "all": {
        "src_mask": added(N, N),
        "tgt_mask": causal(M, dtype=torch.float64),
        "memory_mask": added(M, N),
        "src_key_padding_mask": torch.zeros(B, N).double().masked_fill(torch.arange(N) > 3, NEVER),
        "memory_key_padding_mask": torch.zeros(B, N).double().masked_fill(torch.arange(N) > 3, NEVER),
    },
}


@pytest.mark.parametrize("mask", TRANSFORMER_MASKS)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    "settings", [{}, {"norm_first": True}, {"batch_first": False}, {"bias": False}], ids=str
)
def test_a_whole_transformer_stays_the_same_function(settings, mask):
    model = transformer(**settings)
    src, tgt = (torch.randn(B, n, D, dtype=torch.float64) for n in (N, M))
    if not settings.get("batch_first", True):
        src, tgt = src.transpose(0, 1), tgt.transpose(0, 1)
    results = []
    for _ in range(2):
        output = model(src, tgt, **TRANSFORMER_MASKS[mask])
        results.append((output, *torch.autograd.grad(output.sin().sum(), list(model.parameters()))))
        assert swap(model, "softmax") is model
    assert tuple(regard.attentions(model).values()) == PATHS
    for before, after in zip(*results, strict=True):
        torch.testing.assert_close(after, before, atol=1e-9, rtol=1e-9)


def encoder(**settings):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        D, HEADS, 16, dropout=0.1, batch_first=True, dtype=torch.float64, **settings
    )
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(D, dtype=torch.float64)).eval()


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("settings", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
def test_the_shortcut_of_inference_is_closed(settings, padded):
    """torch's encoder skips its attention in inference; after the swap it is asked, and answers the same."""
    model = encoder(**settings)
    x = torch.randn(B, N, D, dtype=torch.float64)
    real = torch.arange(N) < torch.tensor([[N], [3]])
    padding = {"src_key_padding_mask": ~real} if padded else {}
    calls = []

    def watch(original):
        def forward(self, *args, **kwargs):
            calls.append(self)
            return original(self, *args, **kwargs)

        return forward

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(nn.MultiheadAttention, "forward", watch(nn.MultiheadAttention.forward))
        patch.setattr(Swapped, "forward", watch(Swapped.forward))
        by_shortcut = model(x, **padding)
        assert not calls  # the control: it is skipped
        swap(model, "softmax")
        swapped = model(x, **padding)
        assert len(calls) == 2
        without_grad = model.requires_grad_(False)(x, **padding)
        with torch.inference_mode():
            inferred = model(x, **padding)
        assert len(calls) == 6
    torch.testing.assert_close(swapped[real], by_shortcut[real])
    assert without_grad.equal(swapped)
    assert inferred.equal(swapped)
    # Padded positions hold what the slow way of torch gives, not 0.
    with torch.enable_grad():
        slow = encoder(**settings).requires_grad_(True)(x.clone().requires_grad_(), **padding)
    torch.testing.assert_close(swapped, slow)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_one_layer_alone_closes_the_shortcut_of_the_encoder():
    """Else the encoder would hand it nested tensors."""
    model = encoder()
    x, padding = torch.randn(B, N, D, dtype=torch.float64), torch.arange(N) >= torch.tensor([[N], [3]])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        swap(model, "softmax", paths="layers.1.*")
        assert list(regard.attentions(model).values()) == ["layers.1.self_attn"]
        found = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(found[~padding], expected[~padding])


def test_a_stack_of_swapped_layers():
    layer = nn.TransformerEncoderLayer(D, HEADS, 16, batch_first=True).eval()
    swap(layer, "entmax15")
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        stack = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(B, N, D)
    with torch.no_grad(), regard.record(stack) as seen:
        stack(x, src_key_padding_mask=torch.arange(N).expand(B, N) > 3)
    assert [len(calls) for calls in seen.values()] == [1, 1]


def test_parameters_are_the_same_objects_and_state_dicts_fit():
    model = transformer()
    before = dict(model.named_parameters())
    plain = deepcopy(model.state_dict())
    swap(swap(model, "sparsemax", paths="encoder.*"), "entmax15")
    assert {name: id(p) for name, p in model.named_parameters()} == {
        name: id(p) for name, p in before.items()
    }
    assert model.state_dict().keys() == plain.keys()
    fresh = transformer()
    nn.init.zeros_(fresh.encoder.layers[0].self_attn.in_proj_weight)
    fresh.load_state_dict(model.state_dict())
    model.load_state_dict(fresh.state_dict())
    for name, value in plain.items():
        assert model.state_dict()[name].equal(value)


def test_a_copy_of_a_swapped_model_is_swapped(tmp_path):
    model = transformer()
    swap(model, "entmax15")
    src, tgt = torch.randn(B, N, D, dtype=torch.float64), torch.randn(B, M, D, dtype=torch.float64)
    expected = model(src, tgt)
    copy = deepcopy(model)
    assert copy(src, tgt).equal(expected)
    assert pickle.loads(pickle.dumps(model))(src, tgt).equal(expected)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = transformer()
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    swap(other, "entmax15")
    assert other(src, tgt).equal(expected)
    assert "map=entmax15" in repr(copy)


def test_hooks_and_modes_are_kept():
    module = made().train()
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    swap(module, "sparsemax")
    module(*inputs(module))
    assert module.training
    assert calls == [1]


def test_a_map_that_learns_is_copied_for_each_attention():
    model = transformer()
    given = regard.maps.Entmax(learn_alpha=True, heads=HEADS)
    swap(model, given)
    maps = [model.get_submodule(path).map for path in PATHS]
    assert len({id(each) for each in (*maps, given)}) == len(PATHS) + 1
    src, tgt = torch.randn(B, N, D, dtype=torch.float64), torch.randn(B, M, D, dtype=torch.float64)
    model(src, tgt).square().sum().backward()
    for each in maps:
        for p in each.parameters():
            assert p.dtype == torch.float64
            assert p.grad.abs().sum() > 0
    assert any(".map." in name for name in model.state_dict())
    swap(model, "softmax")
    assert not any(".map." in name for name in model.state_dict())


def test_another_score_is_built_for_each_attention():
    model = transformer()
    swap(model, "softmax", score="additive")
    scores = [model.get_submodule(path).score for path in PATHS]
    assert len({id(each) for each in scores}) == len(PATHS)
    assert all(each.W1.weight.shape == (D // HEADS, D // HEADS) for each in scores)
    src, tgt = torch.randn(B, N, D, dtype=torch.float64), torch.randn(B, M, D, dtype=torch.float64)
    model(src, tgt).square().sum().backward()
    assert all(each.v.weight.grad.abs().sum() > 0 for each in scores)


@pytest.mark.parametrize("kind", ["packed", "zero_attn"])
def test_terms_see_the_places(kind):
    """A distance bias in the score is a float mask of distances; a key of the module's own comes last."""
    module, plain = made(kind), made(kind)
    swap(plain, "softmax")
    swap(module, "softmax", score=regard.scores.ScaledDot() + regard.positions.Distance(reach=2))
    nn.init.normal_(module.score.terms[0].b)
    x = inputs(module)[0]
    weights, without = (each(x, x, x, average_attn_weights=False)[1] for each in (module, plain))
    n = weights.shape[-1]
    bias = module.score.terms[0].b[0][(torch.arange(n) - torch.arange(M)[:, None]).clamp(-2, 2) + 2]
    torch.testing.assert_close(weights, (without.log() + bias).softmax(-1))


def test_a_model_that_is_itself_an_attention():
    module, swapped = pair()
    assert swap(swapped, "softmax") is swapped
    torch.testing.assert_close(swapped(*inputs(module))[0], module(*inputs(module))[0])


def test_an_attention_used_in_two_places_is_swapped_in_both():
    shared = made()
    model = nn.ModuleDict({"a": shared, "b": shared})
    model.list = [shared]  # and where torch does not look
    swap(model, "entmax15")
    assert model["a"] is model["b"] is model.list[0]
    assert isinstance(model.list[0], Swapped)


def test_refusals_come_before_any_change():
    with pytest.raises(ValueError, match=r"Linear has no nn\.MultiheadAttention"):
        swap(nn.Linear(2, 2))
    model = transformer()
    with pytest.raises(KeyError, match="did you mean sparsemax"):
        swap(model, "sparsmax")
    with pytest.raises(KeyError, match="no score"):
        swap(model, score="scale_dot")
    with pytest.raises(KeyError, match=r"no nn\.MultiheadAttention at 'enc'.*encoder\.layers\.0\.self_attn"):
        swap(model, paths="enc")
    with pytest.raises(TypeError, match="map must be"):
        swap(model, 3)

    class Own(nn.MultiheadAttention):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs)

    model.decoder.layers[1].self_attn = Own(D, HEADS)
    with pytest.raises(TypeError, match=r"decoder\.layers\.1\.self_attn is a Own"):
        swap(model)
    assert not any(isinstance(m, Swapped) for m in model.modules())
    assert model.encoder.use_nested_tensor
    assert (
        len(regard.attentions(swap(model, paths=["encoder.*", "decoder.layers.0.*", "*.multihead_attn"])))
        == 5
    )


def test_a_parametrized_attention_is_refused():
    module = made()
    parametrize.register_parametrization(module.out_proj, "weight", nn.Identity())
    swap(module)  # a part of it may be
    parametrize.register_parametrization(module, "in_proj_weight", nn.Identity())
    with pytest.raises(TypeError, match="parametrize"):
        swap(module)


def test_looking_by_path():
    model = transformer().eval()
    swap(model, "entmax15")
    src, tgt = torch.randn(B, N, D, dtype=torch.float64), torch.randn(B, M, D, dtype=torch.float64)
    with torch.no_grad():
        plain = model(src, tgt)
        with regard.record(model, "encoder.layers.*.self_attn") as seen:
            assert model(src, tgt).equal(plain)
    assert list(seen) == list(PATHS[:2])
    weights = seen[PATHS[0]][0].weights
    assert weights.shape == (B, HEADS, N, N)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, HEADS, N, dtype=torch.float64))
    with regard.intervene(model, torch.zeros_like, "decoder.layers.1.multihead_attn"):
        assert not model(src, tgt).allclose(plain)
    with regard.intervene(model, lambda p: p):
        torch.testing.assert_close(model(src, tgt), plain)


def test_the_weights_are_sparse():
    module, swapped = pair(map="entmax15")
    query, key, value = inputs(module)
    sparse = swapped(3 * query, key, value, average_attn_weights=False)[1]
    dense = module(3 * query, key, value, average_attn_weights=False)[1]
    assert (dense > 0).all()
    assert (sparse == 0).double().mean() > 0.3
    torch.testing.assert_close(sparse.sum(-1), torch.ones(B, HEADS, M, dtype=torch.float64))


class Lookup(nn.Module):
    """An encoder that is to say which word follows the marked one."""

    def __init__(self, words, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Embedding(8, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 2)
        self.read = nn.Linear(width, words)

    def forward(self, x):
        return self.read(self.encode(self.embed(x) + self.place.weight)[:, 0])


@pytest.mark.parametrize("map", ["entmax15", "sparsemax"])
def test_a_swapped_model_trains_on(map):
    """Trained with softmax, swapped, trained further with the same optimizer."""
    torch.manual_seed(0)
    model = Lookup(words=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def steps(count):
        losses = []
        for _ in range(count):
            x = torch.randint(1, 10, (64, 8))
            at = torch.randint(1, 7, (64,))
            x[torch.arange(64), at] = 0  # the mark
            loss = nn.functional.cross_entropy(model(x), x[torch.arange(64), at + 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses

    before = steps(50)
    swap(model, map)
    after = steps(100)
    assert sum(after[-10:]) < 0.7 * sum(before[-10:])
    with torch.no_grad(), regard.record(model.eval()) as seen:
        model(torch.randint(1, 10, (64, 8)))
    assert all((calls[0].weights == 0).any() for calls in seen.values())


def test_half_precision_and_autocast():
    module, swapped = pair(dtype=torch.bfloat16, map="softmax")
    x = torch.randn(B, N, D)
    exact = made().float()
    for p, q in zip(exact.parameters(), swapped.parameters(), strict=True):
        p.data.copy_(q)
    expected, _ = exact(x.bfloat16().float(), x.bfloat16().float(), x.bfloat16().float())
    found, weights = swapped(x.bfloat16(), x.bfloat16(), x.bfloat16())
    assert found.dtype == weights.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    swap(exact, "softmax")
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = exact(x, x, x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), exact(x, x, x)[0], atol=0.1, rtol=0.1)


@pytest.mark.parametrize(("map", "mask"), [("softmax", "both"), ("entmax15", "both float")])
def test_it_compiles_without_a_break(map, mask):
    _, swapped = pair(map=map)
    given, masks = inputs(swapped), MASKS[mask](B)
    torch._dynamo.reset()
    compiled = torch.compile(swapped, backend="aot_eager", fullgraph=True)
    found, _ = compiled(*given, **masks, need_weights=False)
    torch.testing.assert_close(found, swapped(*given, **masks, need_weights=False)[0])
