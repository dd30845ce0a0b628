"""Rollout and flow: worked by hand, against networkx, and of decoders (C88)."""

from itertools import pairwise

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import regard
from explanations.toys import TwoLayers, random_weights, texts
from regard.explanations import attention, flow, rollout
from regard.explanations.flow_network import flowing, largest_flows
from regard.explanations.layer_stack import bare, stack
from regard.explanations.rollout import rolled
from regard.maps import MAPS

BELOW = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], dtype=torch.float64)
ABOVE = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)
HAND = [BELOW.view(1, 1, 3, 3), ABOVE.view(1, 1, 3, 3)]


def by_networkx(widths):
    """All largest flows (m, n) through layers (m, n), the first first."""
    graph = networkx.DiGraph()
    for number, layer in enumerate(widths):
        for i, row in enumerate(layer.tolist()):
            graph.add_node((number + 1, i))
            for j, width in enumerate(row):
                graph.add_edge((number + 1, i), (number, j), capacity=width)
    top, (m, n) = len(widths), (widths[-1].shape[0], widths[0].shape[1])
    pairs = [[networkx.maximum_flow_value(graph, (top, i), (0, j)) for j in range(n)] for i in range(m)]
    return torch.tensor(pairs, dtype=torch.float64)


def test_rollout_and_flow_by_hand():
    """Half of each W and half of I: edges of 1, .75, .25 below and of .5 above; all at once, or a row."""
    product = [[0.625, 0.375, 0], [0.125, 0.5, 0.375], [0.5, 0.125, 0.375]]
    largest = [[0.75, 0.5, 0], [0.25, 0.75, 0.5], [0.5, 0.25, 0.5]]
    assert rolled(bare(HAND))[0].tolist() == product
    assert flowing(bare(HAND))[0].tolist() == largest
    assert rollout(HAND, position=1).tolist() == product[1:2]
    assert flow(HAND, position=-1).tolist() == largest[2:]
    assert rollout(HAND, position="all")[0].tolist() == product
    assert flow(HAND, position="all")[0].tolist() == largest
    torch.testing.assert_close(rollout(HAND), torch.tensor([product], dtype=torch.float64).mean(-2))
    torch.testing.assert_close(flow(HAND), torch.tensor([largest], dtype=torch.float64).mean(-2))


def test_a_path_that_must_be_taken_back():
    """The straight way first blocks the only way to the left edge: it is given up again."""
    one = torch.tensor([[1, 0], [0, 0]], dtype=torch.float64)  # the top place 0 feeds node 0 alone
    middle = torch.tensor([[1, 1], [0, 1]], dtype=torch.float64)
    last = torch.tensor([[0.25, 0], [1, 0]], dtype=torch.float64)  # both lead to token 0
    widths = [last, middle, one]
    assert largest_flows([w.unsqueeze(0) for w in widths])[0].tolist() == [[1.0, 0.0], [0.0, 0.0]]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=6),
    share=st.sampled_from([0.3, 0.6, 1.0]),
    power=st.sampled_from([1, 6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_flow_is_the_largest_flow_of_networkx(sizes, share, power, seed):
    """Layers of any widths, from sparse to dense, from level to steep."""
    draw = torch.Generator().manual_seed(seed)
    widths = []
    for n, m in pairwise(sizes):
        width = torch.rand(m, n, generator=draw, dtype=torch.float64) ** power
        widths.append(width * (torch.rand(m, n, generator=draw) < share))
    found = largest_flows([w.unsqueeze(0) for w in widths])[0]
    torch.testing.assert_close(found, by_networkx(widths), rtol=0, atol=1e-9)


def test_flow_of_more_places_than_a_word_has_bits():
    """Each place to three of 70, by chance: few paths, and those over the edge of the first word."""
    draw = torch.Generator().manual_seed(0)
    widths = []
    for _ in range(5):
        kept = torch.rand(70, 70, generator=draw).topk(3, dim=-1).indices
        widths.append(
            torch.zeros(70, 70).double().scatter(-1, kept, torch.rand(70, 3, generator=draw).double())
        )
    found = largest_flows([w.unsqueeze(0) for w in widths])[0]
    some = by_networkx([widths[0][:, [1, 65]], *widths[1:4], widths[4][[0, 66]]])
    torch.testing.assert_close(found[[0, 66]][:, [1, 65]], some, rtol=0, atol=1e-9)
    assert some.min() > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_two_layers_have_a_closed_form_in_every_text_of_a_batch(threads):
    before = torch.get_num_threads()
    below, above = random_weights(9, 40, 40, scale=3), random_weights(9, 40, 40, scale=3, seed=1)
    torch.set_num_threads(threads)
    found = largest_flows([below, above])
    torch.set_num_threads(before)
    expected = torch.minimum(above.unsqueeze(-1), below.unsqueeze(-3)).sum(-2)
    torch.testing.assert_close(found, expected)


def test_one_layer_is_rollout_and_flow_itself():
    weights = random_weights(2, 1, 4, 4)
    mixed = 0.5 * weights[:, 0] + 0.5 * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(rolled(bare([weights])), mixed)
    torch.testing.assert_close(flowing(bare([weights])), mixed)


@pytest.mark.parametrize("method", [rollout, flow])
def test_a_look_on_top_chooses_among_the_places(method):
    """One query over the places of two layers: no residual there, and all weight on place 2 is row 2."""
    layers, top = [random_weights(1, 2, 4, 4, seed=s) for s in (0, 1)], torch.zeros(1, 1, 1, 4).double()
    top[..., 2] = 1
    torch.testing.assert_close(method([*layers, top]), method(layers, position=2))


@pytest.mark.parametrize("method", [rollout, flow])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_a_decoder_that_looks_at_all_alike_favours_no_token(method, layers):
    """Without the correction the first token would get most, from every place."""
    n, lengths = 7, torch.tensor([7, 4])
    level = torch.ones(n, n, dtype=torch.float64).tril()
    level = (level / level.sum(-1, keepdim=True)).expand(2, 3, n, n)
    expected = (torch.arange(n) < lengths.unsqueeze(-1)).double()
    for position in (None, -1):
        found = method([level] * layers, None, lengths, position=position, causal=True)
        torch.testing.assert_close(found, expected)
    seen = (torch.arange(n) <= 2).double()
    torch.testing.assert_close(method([level] * layers, position=2, causal=True)[0], seen)
    raw = rolled(bare([level] * layers))
    assert raw[0, -1, :-1].diff().max() <= 1e-12 and raw[0].sum(0)[0] > 2 * raw[0].sum(0)[-2]


@pytest.mark.parametrize("method", [rollout, flow])
def test_a_decoder_that_looks_at_one_token_more_shows_it(method):
    scores = torch.zeros(6, 6, dtype=torch.float64)
    scores[:, 2] = 1.5
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).view(1, 1, 6, 6)
    for position in (None, -1):
        found = method([weights] * 3, position=position, causal=True)[0]
        assert found.argmax() == 2 and found[2] > 1 and found[0] < 1


@pytest.mark.parametrize("method", [rollout, flow])
def test_the_masks_of_a_model_say_whether_it_is_a_decoder(method):
    """Queries of 0 look at all alike; an encoder that happens not to look ahead is still an encoder."""
    tokens, lengths = texts()
    model = TwoLayers(causal=True)
    for layer in (model.first, model.second):
        nn.init.zeros_(layer.W_q.weight)
    expected = (torch.arange(6) < lengths.unsqueeze(-1)).double()
    torch.testing.assert_close(method(model, tokens, lengths), expected)
    model.causal = False
    with regard.intervene(model, lambda p: p.tril() / p.tril().sum(-1, keepdim=True)):
        found = method(model, tokens, lengths, position=-1)
    assert found[0, 0] > found[0, 4] > 0  # nothing was divided
    one = torch.ones_like(lengths)  # nothing lies ahead of one token: an encoder all the same
    torch.testing.assert_close(method(model, tokens, one), (torch.arange(6) < 1).double().expand(4, -1))
    alone = stack(model, tokens, one, "rollout")
    assert not alone.causal and stack(model, tokens, one, "rollout", causal=True).causal


def test_attention_of_a_decoder_is_the_mean_over_those_who_can_see():
    weights = random_weights(1, 2, 4, 4).tril()
    mean = weights.mean(1)[0]
    expected = [float(mean[j:, j].mean()) for j in range(4)]
    assert attention([weights], causal=True)[0].tolist() == pytest.approx(expected)
    assert attention([weights], position=-1)[0].tolist() == pytest.approx(mean[-1].tolist())


@pytest.mark.parametrize("method", [rollout, flow])
@pytest.mark.parametrize("position", [None, -1, "all"])
def test_a_text_has_the_same_scores_alone_and_beside_others(method, position):
    """Its weights are 0 ahead; those of the text beside it are not."""
    first, other = random_weights(1, 1, 5, 5).tril(), random_weights(1, 1, 5, 5, seed=1)
    first = first / first.sum(-1, keepdim=True)
    alone = method([first] * 2, position=position)
    together = method([torch.cat([first, other])] * 2, position=position)
    torch.testing.assert_close(together[:1], alone)


def test_sparse_encoders_are_not_taken_for_decoders():
    """Weights that are 0 ahead by chance: the whole matrix is the product, divided by nothing."""
    draw = torch.Generator().manual_seed(0)
    ahead = 0
    for _ in range(100):
        scores = 3 * torch.randn(1, 1, 3, 3, generator=draw, dtype=torch.float64)
        weights = regard.maps.sparsemax(scores)
        ahead += not weights.triu(1).any()
        mixed = (weights[:, 0] + torch.eye(3)) / 2
        torch.testing.assert_close(rollout([weights] * 2, position="all"), mixed @ mixed)
    assert ahead >= 5  # it does happen


def test_what_is_no_decoder_cannot_be_called_one():
    for weights in (HAND, [random_weights(1, 1, 2, 4)]):
        with pytest.raises(ValueError, match="later one"):
            rollout(weights, causal=True)
    with pytest.raises(ValueError, match='number or "all"'):
        rollout(HAND, position="every")


class OneMap(nn.Module):
    """Two layers of self-attention with a map."""

    def __init__(self, name):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = (regard.MultiHead(8, 2, map=name).double() for _ in range(2))

    def forward(self, x):
        for layer in (self.first, self.second):
            x = x + layer(x).context
        return x[:, 0]


@pytest.mark.parametrize("name", [name for name in MAPS if "continuous" not in name])
def test_rows_of_rollout_sum_to_one_with_every_map(name):
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)).double()
    model = OneMap(name)
    found = rollout(model, x, position="all", causal=False)
    assert found.shape == (2, 5, 5) and bool((found >= 0).all())
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 5).double())
    assert flow(model, x, position="all", causal=False).max() <= 1 + 1e-9
