"""Models that point: never where they may not, step by step as all at once, at any number of points."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.pointers import POINTERS
from regard.models.pointers.pointer_model import END
from regard.recording import record

every_pointer = pytest.mark.parametrize("name", POINTERS)
SMALL = {"width": 8}


def pointer(name, **more):
    torch.manual_seed(0)
    return POINTERS[name].make(**{**SMALL, **more}).double().eval()


def problems(lengths, coordinates=2, seed=0):
    chance = torch.Generator().manual_seed(seed)
    points = torch.randn(len(lengths), max(lengths), coordinates, generator=chance, dtype=torch.double)
    return points, torch.tensor(lengths)


@every_pointer
@pytest.mark.parametrize(("once", "every"), [(True, True), (True, False), (False, False)])
def test_an_answer_keeps_the_rules_at_any_length(name, once, every):
    model = pointer(name, once=once, every=every)
    points, lengths = problems([1, 2, 7, 30])
    said, log_prob = model(points, lengths)
    assert bool((log_prob <= 0).all())
    for row, n in zip(said.tolist(), lengths.tolist(), strict=True):
        stop = row.index(END) if END in row else len(row)
        answer = row[:stop]
        assert stop >= 1 and all(1 <= i <= n for i in answer)
        assert set(row[stop:]) <= {END}
        assert not once or len(set(answer)) == len(answer)
        assert not every or sorted(answer) == list(range(1, n + 1))


@every_pointer
def test_steps_are_the_teacher_forced_pass_and_padding_changes_nothing(name):
    model = pointer(name)
    points, lengths = problems([4, 6, 1])
    said, log_prob = model(points, lengths)
    forced = model(points, lengths, said)
    chosen = forced.gather(-1, said.unsqueeze(-1)).squeeze(-1)
    for i, row in enumerate(said.tolist()):
        steps = row.index(END) + 1 if END in row else len(row)
        torch.testing.assert_close(chosen[i, :steps].sum(), log_prob[i])
    more = torch.nn.functional.pad(points, (0, 0, 0, 3), value=9.0)
    again, other = model(more, lengths)
    torch.testing.assert_close(other, log_prob)
    assert again[:, : said.shape[1]].tolist() == said.tolist()


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(5)))
def test_a_set_encoder_does_not_see_the_order(order):
    model = pointer("pointer_network")
    points, lengths = problems([5])
    said = model(points, lengths)[0][0].tolist()
    moved = model(points[:, list(order)], lengths)[0][0].tolist()
    assert [END if i == END else order[i - 1] + 1 for i in moved] == said


def test_what_is_forbidden_has_probability_0_and_the_rest_sums_to_1():
    model = pointer("pointer_network")
    points, lengths = problems([3, 5])
    answers = torch.tensor([[2, 1, 0, 0], [5, 4, 1, 0]])
    found = model(points, lengths, answers).exp()
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 4).double())
    assert found[0, 1, 2] == 0 and found[0, 2, 1] == 0 and bool((found[0, :, 4:] == 0).all())
    assert bool((found[:, 0, END] == 0).all()) and bool((found[:, 1, END] > 0).all())


def test_the_pointer_is_an_attention_that_is_seen_and_its_loss_by_definition():
    model = pointer("pointer_network")
    points, lengths = problems([3, 4])
    answers, counts = torch.tensor([[3, 1, 0], [2, 4, 1]]), torch.tensor([2, 3])
    with record(model, ["pointer"]) as seen:
        found = model(points, lengths, torch.nn.functional.pad(answers, (0, 1)))
    torch.testing.assert_close(seen["pointer"][0].weights, found.exp())
    steps = [(0, 0, 3), (0, 1, 1), (0, 2, END), (1, 0, 2), (1, 1, 4), (1, 2, 1), (1, 3, END)]
    expected = -sum(found[step] for step in steps)
    torch.testing.assert_close(model.loss(points, lengths, answers, counts), expected)
    torch.testing.assert_close(model.train().loss(points, lengths, answers, counts), expected)


def test_a_vocabulary_of_positions_cannot_say_a_later_one():
    model = pointer("attentive_seq2seq", most=4, every=True)
    points, lengths = problems([9])
    scores = model(points, lengths, torch.tensor([[1, 2, 3, 4, 5]]))
    assert bool((scores[0, :4, 5:] < -100).all())


@every_pointer
def test_it_learns_to_sort_three_numbers(name):
    torch.manual_seed(0)
    more = {"layers": 1, "heads": 2} if name == "pointer_network" else {"most": 3}
    model = POINTERS[name].make(coordinates=1, every=True, width=16, **more)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    lengths = torch.full((64,), 3)
    for _ in range(80):
        points = torch.randn(64, 3, 1)
        answers = points[..., 0].argsort(-1) + 1
        loss = model.loss(points, lengths, answers, lengths) / 64
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    points = torch.randn(200, 3, 1)
    said, _ = model.eval()(points, torch.full((200,), 3))
    assert (said[:, :3] == points[..., 0].argsort(-1) + 1).all(-1).float().mean() > 0.7
