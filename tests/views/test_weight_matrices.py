"""Weights in any form become the same matrices with the right names."""

import pytest
import torch

import regard
from regard.views import heat_map
from regard.views.weight_matrices import matrices_of, picked


def names(weights):
    return [(one.name, one.layer, one.head) for one in matrices_of(weights)]


def test_one_matrix_needs_no_name():
    p = torch.rand(2, 3)
    for given in (p, p[None], p[None, None], [p], (p[None, None],), p.numpy(), {"": p}):
        (one,) = matrices_of(given)
        assert (one.name, one.layer, one.head) == ("", None, None)
        assert one.weights.tolist() == p.tolist()


def test_heads_layers_and_names_are_counted_from_one_and_kept_from_zero():
    assert names(torch.rand(2, 2, 3)) == [("head 1", None, 0), ("head 2", None, 1)]
    assert names((torch.rand(2, 3), torch.rand(2, 3))) == [("layer 1", 0, None), ("layer 2", 1, None)]
    found = names(tuple(torch.rand(1, 2, 2, 3) for _ in range(2)))
    assert found[0] == ("layer 1, head 1", 0, 0) and found[-1] == ("layer 2, head 2", 1, 1)
    assert names({"a": torch.rand(2, 3), "b": torch.rand(2, 2, 3)})[1:] == [
        ("b, head 1", None, 0),
        ("b, head 2", None, 1),
    ]


def test_an_attended_and_what_record_gives():
    torch.manual_seed(0)
    heads = regard.MultiHead(8, heads=2)
    x = torch.randn(1, 4, 8)
    with regard.record(heads) as seen:
        heads(x, x)
    ((path, (attended,)),) = seen.items()
    assert [one.weights.tolist() for one in matrices_of(attended)] == attended.weights[0].tolist()
    assert [one.weights.tolist() for one in matrices_of(seen)] == attended.weights[0].tolist()
    assert [one.name for one in matrices_of({"cross": [attended]})] == ["cross, head 1", "cross, head 2"]


def test_the_calls_of_one_attention_stand_under_each_other():
    (one,) = matrices_of({"cross": [torch.tensor([[1.0]]), torch.tensor([[0.5, 0.5]])]})
    assert one.weights.tolist() == [[1, 0], [0.5, 0.5]]
    with pytest.raises(ValueError, match="never called"):
        matrices_of({"cross": []})


def test_picking_by_layer_and_head():
    found = matrices_of([torch.rand(2, 2, 3) for _ in range(3)])
    assert [one.name for one in picked(found, 1, None)] == ["layer 2, head 1", "layer 2, head 2"]
    assert [one.name for one in picked(found, 2, 0)] == ["layer 3, head 1"]
    assert (
        heat_map([torch.rand(2, 2, 3) for _ in range(3)], layer=0, head=1).matrices[0].name
        == "layer 1, head 2"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_any_precision_and_gradients_are_taken(dtype):
    p = torch.tensor([[0.25, 0.75]], dtype=dtype, requires_grad=True)
    assert matrices_of(p)[0].weights.tolist() == [[0.25, 0.75]]


def test_a_view_stays_as_it_was_when_the_weights_change():
    p = torch.rand(2, 3)
    before, view = p.tolist(), heat_map(p)
    p.zero_()
    assert view.matrices[0].weights.tolist() == before


def test_what_is_no_weights_is_named():
    with pytest.raises(TypeError, match="layer 2 has no weights but None.*eager"):
        matrices_of((torch.rand(1, 2, 2, 2), None))
    with pytest.raises(TypeError, match="a tensor.*got str"):
        matrices_of("weights")
    with pytest.raises(TypeError, match="sequence of tokens; got one string"):
        heat_map(torch.rand(2, 3), "abc")
