"""Models of pictures: what each computes, what its cells see, and that each learns."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.maps import softmax
from regard.models.images import IMAGE_MODELS
from regard.models.images.squeeze_excitation import Gate
from regard.models.images.vision_transformer import plane_sinusoid
from regard.models.parts.convolutions import Block, Convolutions
from regard.models.parts.named_components import make_map
from regard.positions.sinusoidal import sinusoid
from regard.recording import record

SIZE = {"channels": 1, "height": 12, "width": 16, "classes": 3}
SMALL = {
    "image_attention": {"widths": (8, 16), "blocks": (1, 0)},
    "average_pooling": {"widths": (8, 16), "blocks": (1, 0)},
    "squeeze_excitation": {"widths": (8, 16), "blocks": (1, 1)},
    "vision_transformer": {"patch": 4, "embedding": 16, "inner": 16, "heads": 2, "layers": 1, "stem": 8},
}
every_model = pytest.mark.parametrize("name", list(IMAGE_MODELS))


def model(name: str, **more) -> nn.Module:
    torch.manual_seed(0)
    return IMAGE_MODELS[name].make(**{**SIZE, **SMALL[name], **more}).eval()


def pictures(b: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (b, 1, 12, 16), generator=torch.Generator().manual_seed(seed)).byte()


def bright_third(b: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A spot in the left, middle or right third."""
    x, label = pictures(b) // 4, torch.arange(b) % 3
    for i in range(b):
        left = int(label[i]) * 5 + i % 3
        x[i, 0, i % 9 : i % 9 + 3, left : left + 3] = 250
    return x, label


@every_model
def test_every_model_learns_a_small_problem(name):
    torch.manual_seed(0)
    net = model(name).train()
    x, label = bright_third(96)
    optimiser = torch.optim.AdamW(net.parameters(), 0.01)
    for _ in range(40 if name != "vision_transformer" else 60):
        loss = F.cross_entropy(net(x), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        assert float((net.eval()(x).argmax(-1) == label).float().mean()) > 0.9


@every_model
def test_pictures_of_a_batch_do_not_see_each_other_and_other_sizes_are_refused(name):
    net, x = model(name), pictures(3)
    together = net(x)
    assert torch.allclose(together[1:2], net(x[1:2]), atol=1e-5)
    with pytest.raises(ShapeError, match="12, 16"):
        net(x[..., :-1])


@pytest.mark.parametrize("name", ["image_attention", "vision_transformer"])
@pytest.mark.parametrize("more", [{}, {"map": "entmax15"}])
def test_weights_over_the_cells_are_weights_and_can_be_replaced(name, more):
    net, x = model(name, **more), pictures(2)
    with record(net, net.attention_paths["reader"]) as seen:
        logits = net(x)
    weights = net.over_cells(seen)
    rows, columns = net.grid
    assert weights.shape[-1] == rows * columns
    with net.looking_with(weights):
        assert torch.allclose(net(x), logits, atol=1e-5)
    with net.looking_with(weights.flip(-1)):
        assert not torch.allclose(net(x), logits, atol=1e-5)


def test_attention_over_cells_is_the_three_steps():
    net, x = model("image_attention"), pictures(2)
    h = net.convolutions.annotations(net.normalise(x))
    theta = net.attention.score(net.query.expand(2, 1, -1), h + net.places)
    expected = net.read((softmax(theta) @ h)[:, 0])
    assert torch.allclose(net(x), expected, atol=1e-5)


def test_a_uniform_attention_is_average_pooling():
    net, x = model("image_attention"), pictures(2)
    n = net.grid[0] * net.grid[1]
    mean = net.read(net.convolutions(net.normalise(x)).mean((-2, -1)))
    with net.looking_with(torch.full((2, 1, n), 1 / n)):
        assert torch.allclose(net(x), mean, atol=1e-5)


@pytest.mark.parametrize("name", ["continuous_softmax", "continuous_sparsemax"])
def test_continuous_maps_have_their_density_over_the_plane(name):
    net, x = model("image_attention", map=name), pictures(2)
    rows, columns = net.grid
    with record(net, "attention") as seen:
        net(x)
    (call,) = seen["attention"]
    expected = make_map(name, grid=(rows, columns))(call.scores)
    assert torch.allclose(call.weights, expected, atol=1e-5)
    line = regard.MAPS[name](call.scores)
    assert not torch.allclose(line, expected, atol=1e-3)


@pytest.mark.parametrize(("blocks", "stride"), [((1, 0), None), ((0, 1), 1), ((1, 1), 2)])
def test_a_cell_sees_its_receptive_field_and_no_more(blocks, stride):
    torch.manual_seed(1)
    net = Convolutions(1, 48, 48, (4, 4), blocks, stride).eval()
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.uniform_(layer.weight, 0.1, 1)  # nothing cancels, ReLU lets all through
    x = torch.rand(1, 1, 48, 48, requires_grad=True)
    rows, columns = net.grid
    i, j = rows // 2, columns // 2
    (slope,) = torch.autograd.grad(net(x)[0, :, i, j].sum(), x)
    seen = slope[0, 0].abs().sum(0).nonzero().flatten()
    size, step, start = net.receptive
    middle = start + j * step
    assert int(seen.max() - seen.min()) + 1 == size
    assert (float(seen.max() + seen.min())) / 2 == middle


def test_gates_are_between_the_block_and_the_sum_and_depend_on_the_picture():
    net, x = model("squeeze_excitation"), pictures(3)
    for gate in (one for one in net.modules() if isinstance(one, Gate)):
        nn.init.ones_(gate.W1.bias)  # so that ReLU lets something through
    found = [one.detach() for one in net.gates(x)]
    assert [one.shape for one in found] == [(3, 8), (3, 16)]
    assert bool(((found[0] > 0) & (found[0] < 1)).all())
    assert float(found[0].std(0).max()) > 0
    block = next(one for one in net.convolutions.layers if isinstance(one, Block))
    u = torch.randn(2, 8, 5, 5)
    added = block.second(block.first(u))
    gate = block.gate
    s = torch.sigmoid(gate.W2(F.relu(gate.W1(added.mean((-2, -1))))))
    assert torch.allclose(block(u), F.relu(u + s[..., None, None] * added), atol=1e-6)


def test_a_gate_has_four_hidden_units_at_least_and_can_be_constant():
    assert Gate(8, 4, False).W1.out_features == 4
    assert Gate(64, 4, False).W1.out_features == 16
    net, x = model("squeeze_excitation", gates="constant"), pictures(3)
    assert all(float(one.std(0).max()) == 0 for one in net.gates(x))


def test_a_vision_transformer_reads_by_its_first_vector_or_by_attention():
    x = pictures(2)
    first, other = model("vision_transformer"), model("vision_transformer", read="attention")
    assert first.attention_paths["reader"] == ["layers.0.attention"]
    assert other.attention_paths["reader"] == ["attention"]
    for net, heads in ((first, 2), (other, 1)):
        with record(net, net.attention_paths["reader"]) as seen:
            net(x)
        assert net.over_cells(seen).shape == (2, heads, 12)


def test_sinusoids_of_a_plane_have_the_row_in_one_half_and_the_column_in_the_other():
    found = plane_sinusoid((3, 4), 8).unflatten(0, (3, 4))
    assert torch.allclose(found[2, 1, :4], sinusoid(torch.tensor(2), 4).float())
    assert torch.allclose(found[2, 1, 4:], sinusoid(torch.tensor(1), 4).float())
    x = pictures(1)
    net = model("vision_transformer", positions="sinusoidal")
    assert "places" not in dict(net.named_parameters()) and net(x).shape == (1, 3)


def test_a_place_has_two_coordinates():
    place = Place.on_grid(2, (3, 4), torch.device("cpu"))
    assert place.cells.tolist() == [[i, j] for i in range(3) for j in range(4)]
    assert place.rows(1, 2).cells is place.cells
