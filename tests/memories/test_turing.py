"""Addressing by its definitions, and that no input makes it something else than weights."""

import math

import pytest
import torch

import regard
from regard.memories import turing
from regard.models.algorithm import TuringMachine
from regard.models.algorithm.turing_machine import Config


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def simplex(*shape, seed=0):
    return drawn(*shape, seed=seed).softmax(-1)


def cosine(a, b):
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else 0.0


def slow(key, strength, gate, shifts, sharpness, memory, before):
    """The four steps of the paper, a number at a time."""
    powers = [math.exp(strength * cosine(key, row)) for row in memory]
    by_content = [p / sum(powers) for p in powers]
    gated = [gate * c + (1 - gate) * b for c, b in zip(by_content, before, strict=True)]
    n, r = len(gated), len(shifts) // 2
    moved = [sum(gated[(i - j) % n] * shifts[j + r] for j in range(-r, r + 1)) for i in range(n)]
    sharp = [m**sharpness for m in moved]
    return [s / sum(sharp) for s in sharp]


@pytest.mark.parametrize("shifts", [3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_addressing_is_the_paper_s(seed, shifts):
    memory, before = drawn(6, 3, seed=seed), simplex(1, 6, seed=seed + 10)
    where = turing.Address(
        drawn(1, 3, seed=seed + 20), torch.tensor([1.7]).double(), torch.tensor([0.3]).double(),
        simplex(1, shifts, seed=seed + 30), torch.tensor([2.5]).double(),
    )  # fmt: skip
    found = turing.address(where, memory, before)
    key, strength, gate, moves, sharpness = (part[0].tolist() for part in where)
    expected = slow(key, strength, gate, moves, sharpness, memory.tolist(), before[0].tolist())
    assert found[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("by", [-2, -1, 0, 1, 2])
def test_a_shift_by_one_place_is_a_roll(by):
    weights = simplex(4, 7)
    shifts = torch.zeros(4, 5).double()
    shifts[:, by + 2] = 1
    assert torch.equal(turing.shift(weights, shifts), weights.roll(by, -1))


def test_sharpening_leaves_as_it_is_or_takes_the_largest():
    weights = simplex(5, 8)
    one = torch.ones(5).double()
    torch.testing.assert_close(turing.sharpen(weights, one), weights)
    hard = torch.nn.functional.one_hot(weights.argmax(-1), 8).double()
    torch.testing.assert_close(turing.sharpen(weights, one * 1e4), hard)
    torch.testing.assert_close(turing.sharpen(hard, one * 3), hard)


def test_writing_erases_then_adds_and_reading_sums():
    memory, weights = drawn(5, 3), simplex(2, 5)
    erase, add = drawn(2, 3, seed=1).sigmoid(), drawn(2, 3, seed=2)
    expected = memory.clone()
    for i in range(5):
        for c in range(3):
            kept = (1 - weights[0, i] * erase[0, c]) * (1 - weights[1, i] * erase[1, c])
            added = sum(weights[h, i] * add[h, c] for h in range(2))
            expected[i, c] = memory[i, c] * kept + added
    torch.testing.assert_close(turing.write(memory, weights, erase, add), expected)
    read = torch.stack([sum(weights[h, i] * memory[i] for i in range(5)) for h in range(2)])
    torch.testing.assert_close(turing.read(weights, memory), read)


def test_a_hundred_thousand_addressings_are_weights_whatever_comes():
    count, n, d = 100_000, 6, 3
    chance = torch.Generator().manual_seed(5)

    def extreme(*shape):
        """Numbers of all sizes, some of them 0."""
        size = 10.0 ** torch.empty(*shape).uniform_(-38, 37, generator=chance)
        sign = torch.randint(-1, 2, shape, generator=chance)
        return size * sign

    before = torch.zeros(count, n)
    before[torch.arange(count), torch.randint(n, (count,), generator=chance)] = 1.0
    shifts = torch.rand(count, 3, generator=chance).pow(20)
    shifts = shifts / shifts.sum(-1, keepdim=True).clamp(min=1e-30)
    shifts[::2] = torch.eye(3)[torch.randint(3, (len(shifts[::2]),), generator=chance)]
    gate = torch.rand(count, generator=chance).round(decimals=0)
    where = turing.Address(
        extreme(count, 1, d), extreme(count, 1).abs(), gate.unsqueeze(1), shifts.unsqueeze(1),
        1 + extreme(count, 1).abs(),
    )  # fmt: skip
    where = turing.Address(*(part.requires_grad_() for part in where))
    memory = extreme(count, n, d).requires_grad_()
    found = turing.address(where, memory, before.unsqueeze(1))
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.sum(-1), torch.ones(count, 1))
    assert bool((found >= 0).all())
    turing.read(found.detach(), memory).sum().backward()
    assert bool(memory.grad.isfinite().all())


def test_gradients_of_usual_addresses_are_those_of_finite_differences():
    memory, before = drawn(2, 5, 3).requires_grad_(), simplex(2, 1, 5)
    raw = drawn(2, 1, 3 + 1 + 1 + 3 + 1, seed=3).requires_grad_()

    def weights(raw, memory):
        key, strength, gate, shifts, sharpness = raw.split([3, 1, 1, 3, 1], -1)
        where = turing.Address(
            key, strength.exp().squeeze(-1), gate.sigmoid().squeeze(-1), shifts.softmax(-1),
            1 + sharpness.exp().squeeze(-1),
        )  # fmt: skip
        return turing.address(where, memory, before)

    assert torch.autograd.gradcheck(weights, (raw, memory))


@pytest.mark.parametrize("controller", ["feed_forward", "lstm"])
def test_a_machine_s_heads_hold_weights_and_its_looking_by_content_is_recorded(controller):
    torch.manual_seed(0)
    config = Config(5, 3, controller=controller, width=8, locations=7, memory=4, reading=2, writing=2)
    machine = TuringMachine(config)
    inputs = torch.randn(3, 6, 5)
    with regard.record(machine, "content") as seen:
        done = machine.run(inputs)
    assert done.logits.shape == (3, 6, 3)
    assert done.writes.shape == done.reads.shape == (3, 2, 6, 7)
    torch.testing.assert_close(done.reads.sum(-1), torch.ones(3, 2, 6))
    assert len(seen["content"]) == 6 and seen["content"][0].weights.shape == (3, 4, 7)
    torch.testing.assert_close(machine(inputs)[:, :4], machine(inputs[:, :4]))  # the past does not change


def test_a_memory_smaller_than_a_move_is_refused():
    with pytest.raises(ValueError, match="locations"):
        TuringMachine(Config(5, 3, locations=2))
