"""Readers: the formulas of their papers, what padding and batches may not change, and that each learns."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.models.parts.padded_lstm import PaddedLSTM
from regard.models.readers import READERS
from regard.models.readers.highway_maxout import HighwayMaxout, PointingDecoder
from regard.models.readers.reader_model import INSIDE, ReadTexts, SpanLogits, mark, right_words
from regard.recording import intervene, record

SMALL = {"vocabulary": 24, "features": 2, "embedding": 10, "width": 8}
every_reader = pytest.mark.parametrize("name", READERS)


def texts(lengths, asked, seed=0, vocabulary=24):
    chance = torch.Generator().manual_seed(seed)
    n, m, b = max(lengths), max(asked), len(lengths)
    lengths, asked = torch.tensor(lengths), torch.tensor(asked)
    passage = torch.randint(4, vocabulary, (b, n), generator=chance)
    question = torch.randint(4, vocabulary, (b, m), generator=chance)
    passage[torch.arange(n) >= lengths[:, None]] = 0
    question[torch.arange(m) >= asked[:, None]] = 0
    features = torch.randint(0, 2, (b, n, 2), generator=chance)
    features[torch.arange(n) >= lengths[:, None]] = 0
    return ReadTexts(passage, lengths, question, asked, features, torch.zeros(b, m, 2, dtype=torch.long))


def reader(name, **more):
    torch.manual_seed(1)
    return READERS[name].make(**{**SMALL, **more}).double().eval()


def padded_texts(given, by):
    extra = [
        nn.functional.pad(one, (0, 0, 0, by) if one.dim() == 3 else (0, by), value=5)
        for one in (given.passage, given.question, given.features, given.question_features)
    ]
    return ReadTexts(extra[0], given.lengths, extra[1], given.question_lengths, extra[2], extra[3])


def test_a_padded_lstm_is_a_packed_one():
    torch.manual_seed(0)
    ours = PaddedLSTM(3, 8, both=True).double()
    theirs = nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    for mine, end in ((ours.onward, ""), (ours.reverse, "_reverse")):
        for name, p in mine.named_parameters():
            getattr(theirs, name + end).data.copy_(p.data)
    x, lengths = torch.randn(3, 6, 3, dtype=torch.double), torch.tensor([6, 1, 4])
    packed = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0]
    torch.testing.assert_close(ours(x, lengths), pad_packed_sequence(packed, batch_first=True)[0])


@every_reader
def test_a_distribution_over_the_passage_that_padding_and_neighbours_do_not_change(name):
    model, given = reader(name), texts([7, 1, 5], [3, 4, 1])
    last = model(given)[-1]
    for scores in last[:2]:
        assert scores.shape == (3, 7)
        assert bool((scores[1, 1:] == -math.inf).all())
        if name not in ("attention_sum", "attention_over_attention"):
            torch.testing.assert_close(scores.exp().sum(-1), torch.ones(3).double())
    more = model(padded_texts(given, 3))[-1]
    for ours, theirs in zip(last[:2], more[:2], strict=True):
        torch.testing.assert_close(ours, theirs[:, :7])
    for i in range(3):
        one = ReadTexts(*(field[i : i + 1] for field in given))
        n, m = int(given.lengths[i]), int(given.question_lengths[i])
        one = ReadTexts(
            one.passage[:, :n], one.lengths, one.question[:, :m], one.question_lengths,
            one.features[:, :n], one.question_features[:, :m],
        )  # fmt: skip
        for ours, alone in zip(last[:2], model(one)[-1][:2], strict=True):
            torch.testing.assert_close(ours[i : i + 1, :n], alone)


@every_reader
def test_both_directions_are_seen_and_their_weights_sum_to_1(name):
    model, given = reader(name), texts([7, 5], [3, 4])
    paths = [path for several in model.attention_paths.values() for path in several]
    before = model(given)[-1].start
    with record(model, paths) as seen:
        torch.testing.assert_close(model(given)[-1].start, before, rtol=0, atol=0)
    for path in paths:
        weights = seen[path][-1].weights
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    with intervene(model, lambda p: p.flip(-1), paths[0]):
        assert not torch.allclose(model(given)[-1].start, before)


def test_coattention_by_its_definition():
    """One example, word by word: C^Q = D A^Q, whose columns sum to 1 over the passage, C^D = [Q; C^Q] A^D."""
    model = reader("dynamic_coattention")
    D, Q = (torch.randn(1, k, 8, dtype=torch.double) for k in (5, 3))
    d, q = D[0].tolist(), Q[0].tolist()
    L = [[sum(x * y for x, y in zip(one, other, strict=True)) for other in q] for one in d]

    def softmax(row):
        top = [math.exp(x - max(row)) for x in row]
        return [x / sum(top) for x in top]

    over_passage = [softmax([L[i][j] for i in range(5)]) for j in range(3)]
    CQ = [[sum(over_passage[j][i] * d[i][k] for i in range(5)) for k in range(8)] for j in range(3)]
    over_question = [softmax(L[i]) for i in range(5)]
    both = [q[j] + CQ[j] for j in range(3)]
    CD = [[sum(over_question[i][j] * both[j][k] for j in range(3)) for k in range(16)] for i in range(5)]
    found = model.coattend(D, Q, torch.tensor([5]), torch.tensor([3]))
    torch.testing.assert_close(found[0], torch.tensor(CD, dtype=torch.double))


def test_one_lstm_reads_both_texts_and_the_question_is_projected():
    model, given = reader("dynamic_coattention"), texts([4], [4])
    seen = []
    model.encoder.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with record(model, ["over_passage"]) as looked:
        model(given)
    assert len(seen) == 2
    call = looked["over_passage"][0]
    Q = torch.tanh(model.project(torch.cat((model.question_sentinel[None], seen[1][0]))))
    torch.testing.assert_close(call.query[0], Q)
    torch.testing.assert_close(call.keys[0], torch.cat((model.passage_sentinel[None], seen[0][0])))


def test_the_highway_maxout_network_by_its_definition():
    torch.manual_seed(0)
    net = HighwayMaxout(4, 3, pool=2).double()
    U, h, s, e = (torch.randn(*shape, dtype=torch.double) for shape in ((1, 5, 4), (1, 3), (1, 4), (1, 4)))
    found = net(net.prepare(U), h, s, e)
    r = torch.tanh(net.r.weight @ torch.cat((h, s, e), -1)[0])
    W1 = torch.cat((net.first_states.weight, net.first_guess.weight), -1)
    for t in range(5):
        m1 = (W1 @ torch.cat((U[0, t], r)) + net.first_states.bias).view(2, 3).max(0).values
        m2 = (net.second.weight @ m1 + net.second.bias).view(2, 3).max(0).values
        last = (net.third.weight @ torch.cat((m1, m2)) + net.third.bias).max()
        torch.testing.assert_close(found[0, t], last)


def test_start_and_end_share_nothing_and_the_first_guess_is_the_first_word():
    torch.manual_seed(0)
    decoder = PointingDecoder(4, 3, pool=2, iterations=3).double().eval()
    assert not {id(p) for p in decoder.start.parameters()} & {id(p) for p in decoder.end.parameters()}
    U, lengths = torch.randn(2, 5, 4, dtype=torch.double), torch.tensor([5, 3])
    first = decoder(U, lengths)[0]
    state = decoder.cell(torch.cat((U[:, 0], U[:, 0]), -1))
    start = decoder.start(decoder.start.prepare(U), state[0], U[:, 0], U[:, 0])
    torch.testing.assert_close(first.start[0], start[0].log_softmax(-1))


def test_an_example_that_stopped_keeps_its_guess_while_others_go_on():
    torch.manual_seed(3)
    decoder = PointingDecoder(4, 6, pool=2, iterations=8).eval()
    U, lengths = 3 * torch.randn(40, 9, 4), torch.full((40,), 9)
    together = decoder(U, lengths)
    counts = []
    for i in range(40):
        alone = decoder(U[i : i + 1], lengths[:1])
        counts.append(len(alone))
        torch.testing.assert_close(together[-1].start[i], alone[-1].start[0])
        torch.testing.assert_close(together[-1].end[i], alone[-1].end[0])
    assert len(set(counts)) > 1  # some stopped before others


def test_every_iteration_counts_in_the_loss():
    model, given = reader("dynamic_coattention", dropout=0.0, word_dropout=0.0).train(), texts([6, 4], [3, 2])
    answers, counts = torch.tensor([[[1, 2], [4, 4]], [[0, 3], [0, 0]]]), torch.tensor([2, 1])
    steps = [SpanLogits(*(one if one is None else one.detach() for one in s)) for s in model(given)]
    assert len(steps) == 4
    total = 0.0
    for step in steps:
        total -= math.log(math.exp(step.start[0, 1]) + math.exp(step.start[0, 4])) + step.start[1, 0].item()
        total -= math.log(math.exp(step.end[0, 2]) + math.exp(step.end[0, 4])) + step.end[1, 3].item()
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    words = [
        bce(steps[-1].inside[0], torch.tensor([0.0, 1, 1, 0, 1, 0]).double()),
        bce(steps[-1].inside[1, :4], torch.ones(4).double()),
    ]
    total = total / 4 + INSIDE * sum(words).item()
    assert model.loss(given, answers, counts).item() == pytest.approx(total)


def test_attention_over_attention_by_its_definition():
    model = reader("attention_over_attention")
    h, u = (torch.randn(1, k, 8, dtype=torch.double) for k in (4, 3))
    given = texts([4], [3])
    M = h[0] @ u[0].T
    alpha, beta = M.softmax(0), M.softmax(1).mean(0)
    s = model.weigh(h, u, given)
    torch.testing.assert_close(s[0], alpha @ beta)
    assert s.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("name", ["attention_sum", "attention_over_attention"])
def test_the_weights_of_the_same_word_are_added_up(name):
    model, given = reader(name), texts([6], [3])
    passage = torch.tensor([[7, 9, 7, 8, 9, 7]])
    given = given._replace(passage=passage)
    embedded = model.embed(passage, given.features), model.embed(given.question, given.question_features)
    s = model.weights(*embedded, given)[0]
    found = model(given)[-1].start[0].exp()
    for t in range(6):
        assert found[t].item() == pytest.approx(s[passage[0] == passage[0, t]].sum().item())
    answers, counts = torch.tensor([[[1, 1]]]), torch.tensor([1])
    assert right_words(passage, answers, counts).tolist() == [[False, True, False, False, True, False]]
    loss = model.loss(given, answers, counts).item()
    assert loss == pytest.approx(-math.log(found[1].item()))


def test_names_are_permuted_anew_for_each_example_and_alike_in_both_texts():
    model = reader("attention_sum", entities=(10, 11, 12, 13)).train()
    given = texts([5, 5, 5], [3, 3, 3])
    given = given._replace(
        passage=torch.tensor([[10, 11, 5, 12, 10]] * 3), question=torch.tensor([[6, 12, 10]] * 3)
    )
    torch.manual_seed(0)
    other = model.renamed(given)
    for i in range(3):
        names = dict(zip(given.passage[i].tolist(), other.passage[i].tolist(), strict=True))
        assert names[5] == 5 and set(names.values()) - {5} <= {10, 11, 12, 13}
        assert len(set(names.values())) == 4
        assert other.question[i].tolist() == [6, names[12], names[10]]
    assert len({tuple(row) for row in other.passage.tolist()}) > 1
    assert model.eval().renamed(given) is given


def test_marks_are_of_right_positions_alone():
    found = mark(torch.tensor([[2, 0], [1, 3]]), torch.tensor([1, 2]), 4)
    assert found.tolist() == [[False, False, True, False], [False, True, False, True]]


@every_reader
def test_it_learns_to_find_the_word_asked_for(name):
    torch.manual_seed(0)
    model = READERS[name].make(vocabulary=12, embedding=16, width=16, dropout=0.0, word_dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)

    def batch(size):
        passage = torch.stack([torch.randperm(8)[:5] + 4 for _ in range(size)])
        at, none = torch.randint(0, 5, (size, 1)), torch.zeros(size, 5, 0)
        lengths, one = torch.full((size,), 5), torch.ones(size, dtype=torch.long)
        return ReadTexts(passage, lengths, passage.gather(1, at), one, none, none[:, :1]), at

    for _ in range(80):
        given, right = batch(32)
        loss = model.loss(given, right[..., None].expand(-1, 1, 2), given.question_lengths) / 32
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    given, right = batch(200)
    last = model(given)[-1]
    assert (last.start.argmax(-1) == right[:, 0]).float().mean() > 0.9
    assert (last.end.argmax(-1) == right[:, 0]).float().mean() > 0.9
