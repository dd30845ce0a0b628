"""Hypotheses that attend to their source by the short way get what the long one gives."""

import pytest
import torch

import regard
from regard.core.tokens import BOS
from regard.heads.source_step import SHORT, source_step, takes_source
from regard.masks import Causal, Lengths
from regard.memories import KeyValue
from regard.models import TRANSLATORS
from regard.positions import Order
from regard.scores import ScaledDot


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("hypotheses", "n", "width"), [(1, 7, 8), (5, 20, 64), (8, 1, 6), (3, 130, 40)])
def test_equals_the_general_way(kind, hypotheses, n, width):
    torch.manual_seed(0)
    heads = regard.MultiHead(width, 2, scale=None if n == 7 else 0.4).to(kind).eval()
    y, lengths = torch.randn(3, n, width, dtype=kind), torch.tensor([n, max(n // 2, 1), 0])
    x = 3 * torch.randn(3 * hypotheses, 1, width, dtype=kind)
    order = torch.tensor([2, 0, 0, 1])
    for mask in (None, Lengths(lengths)):
        with torch.no_grad():
            source = heads.project(y, mask=mask)
            chosen = source.copy()
            chosen.select(order)  # its memory is in another order
            several = (
                (source, mask, x),
                (
                    chosen,
                    mask and Lengths(lengths[order]),
                    x.view(3, hypotheses, -1)[order].view(-1, 1, width),
                ),
            )
            for cache, seen, states in several:
                assert takes_source(heads, states, seen, cache)
                found = source_step(heads, states, seen, cache)
                b = len(cache.keys)
                wanted = heads(
                    states.view(b, -1, width), y if b == 3 else y[order], mask=seen, cache=cache
                ).context
                torch.testing.assert_close(found.view_as(wanted), wanted, atol=1e-5, rtol=1e-5)


def test_scores_that_are_not_finite():
    heads = regard.MultiHead(8, 2).eval()
    y, x = torch.randn(2, 5, 8), torch.randn(2, 1, 8)
    with torch.no_grad():
        source = heads.project(y)
        source.keys[1, 0, 2] = torch.nan
        found, wanted = source_step(heads, x, None, source), heads(x, y, cache=source).context
    assert found[0].isfinite().all() and found[1].isnan().all() and wanted[1].isnan().all()


def test_is_not_taken_where_more_is_asked():
    y, x, few = torch.randn(2, 5, 8), torch.randn(4, 1, 8), torch.tensor([5, 3])

    def taken(heads, mask=None, grad=False, states=x, keys=y, clean=None):
        with torch.no_grad():
            source = heads.project(keys, mask=mask if clean is None else clean)
        with torch.set_grad_enabled(grad):
            return takes_source(heads, states, mask, source)

    made = regard.MultiHead(8, 2).eval()
    assert taken(made) and taken(made, mask=Lengths(few))
    assert not taken(made, grad=True)
    assert not taken(made, mask=torch.ones(2, 1, 1, 5, dtype=torch.bool))
    assert not taken(made, mask=Causal())
    assert not taken(made, states=torch.randn(2 * 9, 1, 8))
    assert not taken(made, states=torch.randn(3, 1, 8))
    assert not taken(made, states=torch.randn(4, 2, 8))
    assert not taken(made, states=x.bfloat16())
    assert not taken(made, keys=torch.randn(2, SHORT + 1, 8))
    with torch.no_grad():
        assert not takes_source(made, x, None, KeyValue())
        assert not takes_source(made, x, Lengths(few), made.project(y))  # padding may hold anything
    with regard.record(made):
        assert not taken(made)
    with made.register_forward_hook(lambda *_: None):
        assert not taken(made)
    for other in (
        {"map": "entmax15"}, {"key_value_heads": 1}, {"sink": True}, {"score": ScaledDot() + Order()},
    ):  # fmt: skip
        assert not taken(regard.MultiHead(8, 2, **other).eval())
    dropping = regard.MultiHead(8, 2, dropout=0.5)
    assert not taken(dropping.train()) and taken(dropping.eval())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_translator_steps_as_it_does_when_recorded(norm):
    torch.manual_seed(0)
    model = TRANSLATORS["transformer"].make(
        source_vocabulary=30, target_vocabulary=30, width=16, inner=32, heads=2, layers=2, norm=norm
    )
    model.eval()
    source, lengths = torch.randint(4, 30, (3, 6)), torch.tensor([6, 2, 4])

    def steps():
        memory = model.encode(source, lengths)
        state, tokens, found = model.start(memory).select(torch.arange(3).repeat_interleave(4)), None, []
        tokens = torch.full((12,), BOS)
        for _ in range(4):
            hidden, state = model.step(tokens, state, memory)
            found.append(hidden)
            tokens = model.logits(hidden).argmax(-1)
            state = state.select(torch.arange(12).flip(0).view(3, 4).flip(0).reshape(-1))
        return torch.stack(found)

    with torch.no_grad():
        quick = steps()
        with regard.record(model, "decoder.*.cross") as seen:
            slow = steps()
    assert len(seen["decoder.0.cross"]) == 4
    torch.testing.assert_close(quick, slow, atol=1e-5, rtol=1e-5)
