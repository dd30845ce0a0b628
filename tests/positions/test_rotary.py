"""Rotary positions against complex numbers and against transformers, as a score and in a cache."""

import cmath

import pytest
import torch

import regard
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.masks import Causal
from regard.memories import KeyValue
from regard.positions import DynamicNTK, Linear, Llama3, Rotary, YaRN
from regard.scores import Bilinear, Cosine, Dot, SoftCap

D = 8
LAYOUTS = {"halves": {}, "interleaved": dict(interleaved=True), "partial": dict(turned=4)}
SCALINGS = {
    "none": None,
    "linear": Linear(4.0),
    "dynamic": DynamicNTK(2.0, 6),
    "yarn": YaRN(4.0, 32),
    "llama3": Llama3(8.0, 64),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def by_complex_numbers(x, t, interleaved=False, turned=None, base=10_000.0):
    """x (d,) at position t, a pair at a time."""
    d, out = turned or len(x), list(x)
    for i in range(d // 2):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + d // 2)
        z = complex(x[a], x[b]) * cmath.exp(1j * t * base ** (-2 * i / d))
        out[a], out[b] = z.real, z.imag
    return out


@every_layout
@pytest.mark.parametrize("start", [0, 3, 5000])
def test_rotates_as_complex_numbers_do(layout, start):
    x = torch.randn(3, D, dtype=torch.float64)
    want = [by_complex_numbers(x[i].tolist(), start + i, **LAYOUTS[layout]) for i in range(3)]
    rotary = Rotary(D, **LAYOUTS[layout])
    for positions in (range(start, start + 3), torch.arange(start, start + 3)):
        torch.testing.assert_close(rotary.rotated(x, positions), torch.tensor(want, dtype=x.dtype))


@pytest.mark.parametrize("name", SCALINGS)
def test_frequencies_are_those_of_transformers(name):
    rope = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    n, base, width = 100, 10_000.0, 16
    settings = {
        "none": dict(rope_type="default"),
        "linear": dict(rope_type="linear", factor=4.0),
        "dynamic": dict(rope_type="dynamic", factor=2.0),
        "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
        "llama3": dict(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    }[name]
    longest = 6 if name == "dynamic" else 128
    config = LlamaConfig(
        hidden_size=2 * width,
        num_attention_heads=2,
        max_position_embeddings=longest,
        rope_parameters={**settings, "rope_theta": base},
    )
    if name == "none":
        want, factor = base ** (-torch.arange(0, width, 2) / width), 1.0
    else:
        want, factor = rope.ROPE_INIT_FUNCTIONS[settings["rope_type"]](config, torch.device("cpu"), seq_len=n)
    rotary = Rotary(width, base, scaling=SCALINGS[name])
    one = torch.zeros(1, width)
    one[:, : width // 2] = 1  # (1, 0) in each pair turns to (cos, sin)
    found = rotary.rotated(one, torch.tensor([1]), n)[0]
    torch.testing.assert_close(found[: width // 2], factor * want.cos())
    torch.testing.assert_close(found[width // 2 :], factor * want.sin())


@every_layout
@pytest.mark.parametrize("inner", [Dot(), Cosine(), Bilinear(D, D), None], ids=str)
def test_only_distances_count(layout, inner):
    inner = None if inner is None else inner.double()
    rotary = Rotary(D, score=inner, **LAYOUTS[layout])
    q, k = torch.randn(4, D, dtype=torch.float64), torch.randn(6, D, dtype=torch.float64)
    want = rotary(q, k)  # the last 4 of 6 positions
    for start in (0, 17, -3):
        place = Place(torch.arange(2, 6) + start, torch.arange(6) + start)
        torch.testing.assert_close(rotary(q, k, place), want)
    assert not torch.allclose(rotary(q, k, Place(torch.arange(4), torch.arange(6), shift=0)), want)
    shifted = rotary(q, k, Place(torch.arange(4) - 3, torch.arange(6), shift=-3))
    torch.testing.assert_close(shifted, rotary(q, k, Place(torch.arange(4), torch.arange(6) + 3)))


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("shared", [4, 2])
@pytest.mark.parametrize("positions", ["counted", "given"])
def test_a_cached_step_is_a_row_of_the_whole_sequence(scaling, shared, positions):
    torch.manual_seed(0)
    score = Rotary(4, scaling=SCALINGS[scaling])
    heads = regard.MultiHead(16, 4, key_value_heads=shared, score=SoftCap(score, 20.0)).double().eval()
    x, cache = torch.randn(2, 9, 16, dtype=torch.float64), KeyValue()
    start = torch.tensor([[[0]], [[7]]])  # each sequence counts from its own

    def place(i, j):
        return None if positions == "counted" else Place(start + torch.arange(i, j), start + torch.arange(j))

    with torch.no_grad():
        for i, j in ((0, 5), (5, 6), (6, 7), (7, 9)):
            step = heads(x[:, i:j], mask=Causal(), cache=cache, place=place(i, j))
            whole = heads(x[:, :j], mask=Causal(), place=place(0, j))
            torch.testing.assert_close(step.context, whole.context[:, i:])
            torch.testing.assert_close(step.weights, whole.weights[:, :, i:])
    assert cache.encoded == (scaling != "dynamic")
    assert cache.keys.shape == (2, shared, 9, 4)


def test_made_without_gradient_it_still_trains():
    """The table of angles outlives the call that made it."""
    rotary, x = Rotary(D), torch.randn(2, 5, D)
    with torch.inference_mode():
        regard.attend(x, x, score=rotary)
    x.requires_grad_()
    regard.attend(x, x, score=rotary).context.sum().backward()
    assert x.grad.isfinite().all()


def test_gradients_of_both_orders():
    q, k = (torch.randn(s, D, dtype=torch.float64, requires_grad=True) for s in (3, 4))
    for layout in LAYOUTS.values():
        score = Rotary(D, **layout)
        assert torch.autograd.gradcheck(lambda *x, s=score: s(*x), (q, k))
        assert torch.autograd.gradgradcheck(
            lambda *x, s=score: regard.attend(*x, score=s, map="softmax").context, (q, k)
        )


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="turned must be an even number"):
        Rotary(8, turned=3)
    with pytest.raises(TypeError, match="got score=Additive"):
        Rotary(8, score=regard.scores.Additive(8, 8))
    with pytest.raises(TypeError, match="Rotary is a score, not a term"):
        Dot() + Rotary(8)
    with pytest.raises(ShapeError, match="width=6 as the keys; got 8"):
        regard.attend(torch.randn(3, 6), torch.randn(3, 6), score=Rotary(8))
    with pytest.raises(ValueError, match="factor must be at least 1"):
        Linear(0.5)
    assert "turned=4" in repr(Rotary(8, turned=4)) and "scaling=Linear" in repr(
        Rotary(8, scaling=Linear(2.0))
    )
