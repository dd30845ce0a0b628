"""Muon: orthogonal steps for hidden matrices, AdamW for the rest, and a memory that goes on."""

import pytest
import torch
from torch import nn

from regard.training import Training
from regard.training.muon import FACTOR, hidden_matrices, orthogonal
from regard.training.optimiser import memory_of, optimiser, put_memory


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (24, 8), (3, 2)])
def test_singular_values_come_near_one_and_vectors_stay(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    found = orthogonal(matrix, 5)
    assert found.shape == shape
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.5 and values.max() < 1.3
    U, _, V = torch.linalg.svd(matrix, full_matrices=False)
    assert torch.nn.functional.cosine_similarity(found.flatten(), (U @ V).flatten(), dim=0) > 0.97


def model():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 6), nn.LayerNorm(6))
    layers.add_module("output", nn.Linear(6, 5))
    return layers


def step(net, steps, settings):
    made = optimiser(net, settings)
    for k in range(steps):
        net.zero_grad()
        net(torch.arange(5)).sub(k).square().sum().backward()
        made.step()
    return made


def test_only_hidden_matrices_take_orthogonal_steps():
    net, settings = model(), Training(optimiser="muon", rate=0.1)
    assert [id(p) for p in hidden_matrices(net)] == [id(net[1].weight)]
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    step(net, 1, settings)
    change = (before["1.weight"] - net[1].weight.detach()) / (0.1 * FACTOR * 6**0.5)
    assert torch.linalg.svdvals(change).min() > 0.4 and torch.linalg.svdvals(change).max() < 1.4
    other = model()
    step(other, 1, Training(optimiser="adamw", rate=0.1))
    for name, p in other.named_parameters():
        assert torch.equal(p, dict(net.named_parameters())[name]) == (name != "1.weight"), name


def test_its_memory_goes_on_to_the_same_bits():
    settings, whole, first = Training(optimiser="muon", rate=0.01), model(), model()
    step(whole, 4, settings)
    memory = memory_of(step(first, 2, settings))
    made = optimiser(first, settings)
    put_memory(made, memory)
    for k in (2, 3):
        first.zero_grad()
        first(torch.arange(5)).sub(k).square().sum().backward()
        made.step()
    for ours, theirs in zip(first.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
