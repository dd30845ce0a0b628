"""A cached step equals the whole sequence, terms included; what was handed out is never rewritten."""

import pytest
import torch

import regard
from regard.core.errors import ShapeError
from regard.masks import Causal, Lengths
from regard.memories import KeyValue
from regard.positions import Distance, Order, Relative
from regard.scores import Additive, ScaledDot

SCORES = {
    "scaled dot": lambda: ScaledDot(),
    "relative": lambda: ScaledDot() + Relative(4, 2),
    "distance": lambda: ScaledDot() + Distance(3, heads=2),
    "additive": lambda: Additive(4, 4),
}


@pytest.mark.parametrize("map", ["softmax", "sparsemax", "entmax15"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("steps", [[1] * 6, [3, 1, 2], [6]])
@pytest.mark.parametrize("grad", [False, True])
def test_steps_equal_the_whole(score, map, steps, grad):
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 2, key_value_heads=1, score=SCORES[score](), map=map)
    for p in heads.parameters():
        torch.nn.init.normal_(p, std=0.5)
    x = torch.randn(2, 6, 8, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        whole = heads(x, mask=Causal())
        cache, parts = KeyValue(), []
        for part in x.split(steps, 1):
            parts.append(heads(part, mask=Causal(), cache=cache))
        torch.testing.assert_close(torch.cat([p.context for p in parts], 1), whole.context)
        assert len(cache) == 6
        at = 0
        for part, k in zip(parts, steps, strict=True):  # looking back at earlier steps still works
            torch.testing.assert_close(part.weights, whole.weights[:, :, at : at + k, : at + k])
            at += k
        if grad:
            got = torch.autograd.grad(torch.cat([p.context for p in parts], 1).square().sum(), x)[0]
            want = torch.autograd.grad(whole.context.square().sum(), x)[0]
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_fixed_cache_projects_once():
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 2).eval()
    source, query = torch.randn(2, 5, 8), torch.randn(2, 1, 8)
    mask = Lengths(torch.tensor([5, 3]))
    cache = KeyValue(grows=False)
    first = heads(query, source, mask=mask, cache=cache).context
    torch.testing.assert_close(first, heads(query, source, mask=mask).context)
    again = heads(query, source * 0, mask=mask, cache=cache).context  # what is given later is not looked at
    assert torch.equal(first, again)
    assert len(cache) == 5


def test_a_decoder_across_sequences_says_where_its_query_stands():
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 2, score=Additive(4, 4, terms=[Order()])).eval()
    source, target = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    whole, cache, steps = heads(target, source).context, KeyValue(grows=False), []
    for t in range(4):
        place = regard.Place(torch.tensor([t]), torch.arange(5))
        steps.append(heads(target[:, t : t + 1], source, cache=cache, place=place).context)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_padding_in_a_cache_stays_hidden_whatever_it_holds():
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 2, map="sparsemax").eval()
    x = torch.randn(2, 6, 8)
    x[1, :2] = float("nan")  # padding on the left
    real = torch.ones(2, 6, dtype=torch.bool)
    real[1, :2] = False
    cache, steps = KeyValue(), []
    with torch.no_grad():
        for t in range(6):
            mask = Causal() & real[:, None, None, : t + 1]
            steps.append(heads(x[:, t : t + 1], mask=mask, cache=cache).context)
        alone = heads(x[1:, 2:], mask=Causal()).context
    torch.testing.assert_close(torch.cat(steps[2:], 1)[1:], alone)
    assert (torch.cat(steps[:2], 1)[1] == heads.W_o.bias).all()


def test_a_beam_selects_rows():
    cache = KeyValue()
    with pytest.raises(RuntimeError, match="empty"):
        _ = cache.keys
    k = torch.arange(12.0).reshape(3, 2, 2)
    cache.append(k, k + 100)
    cache.select(torch.tensor([2, 0, 0]))
    assert torch.equal(cache.keys, k[[2, 0, 0]])
    both = cache.append(k[:, :1], k[:, :1])
    assert torch.equal(both[0], torch.cat([k[[2, 0, 0]], k[:, :1]], 1))
    with pytest.raises(ShapeError, match="must agree with"):
        cache.append(k[:2], k[:2])


def test_what_was_handed_out_is_never_rewritten():
    cache, handed, copies = KeyValue(), [], []
    given = torch.randn(1, 2, 3)
    before = given.clone()
    for t in range(70):
        new = given if t == 0 else torch.randn(1, 1, 3)
        keys, values = cache.append(new, new)
        handed += [keys, values]
        copies += [keys.clone(), values.clone()]
    assert all(torch.equal(a, b) for a, b in zip(handed, copies, strict=True))
    assert torch.equal(given, before)
