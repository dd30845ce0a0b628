"""Hypotheses that branch: what each has written is found again, whatever else was written."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.heads import MultiHead
from regard.memories import Branches


@given(st.data())
def test_equals_copying(data):
    """A beam that copies keys for every hypothesis, beside one that moves its table."""
    source = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    rows = data.draw(st.integers(1, 4))
    past, copied = Branches.start(rows, torch.device("cpu")), torch.empty(rows, 2, 0, 3)
    states = [(past, copied)]
    for _ in range(data.draw(st.integers(1, 25))):
        past, copied = states[data.draw(st.integers(0, len(states) - 1))]  # any earlier state can go on
        rows = copied.shape[0]
        keys, values = (torch.randn(rows, 2, 3, generator=source) for _ in range(2))
        past = past.grown()
        past.write(0, keys, values)
        copied = torch.cat([copied, keys.unsqueeze(2)], 2)
        index = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=5)))
        past, copied = past.select(index), copied[index]
        states.append((past, copied))
    for past, copied in states[1:]:
        assert torch.equal(past.of(0)[0], copied)


@pytest.mark.parametrize(
    "map", ["softmax", "entmax15", "sparsemax", regard.maps.Entmax(1.3, learn_alpha=True, heads=4)]
)
@pytest.mark.parametrize("score", ["scaled_dot", "dot", "cosine"])
@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_stepping_equals_a_causal_pass(map, score, key_value_heads):
    torch.manual_seed(0)
    heads = MultiHead(16, 4, score=score, map=map, key_value_heads=key_value_heads).eval()
    x = torch.randn(3, 9, 16)
    with torch.no_grad():
        wanted = heads(x, mask=regard.masks.Causal()).context
        past = Branches.start(3, x.device)
        for t in range(9):
            past = past.grown()
            torch.testing.assert_close(
                heads.step(x[:, t : t + 1], past, 0), wanted[:, t : t + 1], rtol=1e-4, atol=1e-5
            )


def test_looking_changes_no_bit_and_sees_the_weights():
    torch.manual_seed(0)
    heads, x = MultiHead(16, 4).eval(), torch.randn(3, 6, 16)

    def steps():
        past = Branches.start(3, x.device)
        out = []
        for t in range(6):
            past = past.grown()
            out.append(heads.step(x[:, t : t + 1], past, 0))
            past = past.select(torch.tensor([2, 0, 0]))
        return torch.cat(out, 1)

    with torch.no_grad():
        unseen = steps()
        with regard.record(heads) as seen:
            assert torch.equal(steps(), unseen)
        with regard.intervene(heads, lambda p: p):
            torch.testing.assert_close(steps(), unseen)
        with regard.intervene(heads, lambda p: p * 0):
            assert not torch.allclose(steps(), unseen)
    for t, attended in enumerate(seen[""]):
        weights = attended.weights
        assert weights.shape == (3, 4, 1, t + 1)
        joined = heads._joined(weights @ attended.values)
        torch.testing.assert_close(joined, attended.context)


def test_gradients_flow_through_steps():
    torch.manual_seed(0)
    heads, x = MultiHead(8, 2).double(), torch.randn(2, 4, 8, dtype=torch.float64, requires_grad=True)
    past, out = Branches.start(2, x.device), []
    for t in range(4):
        past = past.grown()
        out.append(heads.step(x[:, t : t + 1], past, 0))
    wanted = heads(x, mask=regard.masks.Causal()).context
    g = torch.randn_like(wanted)
    for ours, theirs in zip(
        torch.autograd.grad(torch.cat(out, 1), (x, *heads.parameters()), g),
        torch.autograd.grad(wanted, (x, *heads.parameters()), g),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "shared"), [(80, 4), (80, 2), (24, 4), (256, 1)])
def test_softmax_of_hypotheses_that_were_reordered(kind, width, shared):
    torch.manual_seed(0)
    heads = MultiHead(width, 4, key_value_heads=shared).to(kind).eval()
    past = Branches.start(6, torch.device("cpu"))
    with torch.no_grad():
        for t in range(1, 20):
            x, past = torch.randn(6, 1, width, dtype=kind), past.select(torch.randint(6, (6,))).grown()
            found = heads.step(x, past, 0)
            keys, values = (y.repeat_interleave(4 // shared, 1) for y in past.of(0))
            q = heads.W_q(x).view(6, 4, 1, -1)
            context = regard.attend(q, keys, values, scale=q.shape[-1] ** -0.5).context
            wanted = heads.W_o(context.reshape(6, 1, width))
            assert keys.shape[-2] == t
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
