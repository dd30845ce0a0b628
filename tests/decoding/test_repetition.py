"""Endless repetitions are cut; nothing else is touched."""

import pytest
import torch
from toy import Table

from regard.core.tokens import EOS
from regard.decoding import Hypothesis, Limits, beam, cut_loops, greedy, penalty
from regard.decoding.repetition import loop_end, repeats

LENGTHS = torch.ones(4, dtype=torch.long)
SOURCE = torch.arange(4).unsqueeze(1)


@pytest.mark.parametrize(
    ("tokens", "cut"),
    [
        ([9, *[5] * 8], [9, 5]),
        ([9, *[5, 6] * 4], [9, 5, 6]),
        ([9, *[5, 6] * 4, 5], [9, 5, 6]),  # the limit may fall within a copy
        ([5, 5, 6, *[5, 5, 7] * 6, 5, 5], [5, 5, 6, 5, 5, 7]),
        ([9, *[5] * 7], None),  # too short
        ([9, *[5, 6, 7] * 3], None),  # three times only
        ([*[5] * 12, 9], None),  # it went on
        ([], None),
    ],
)
def test_what_a_loop_is(tokens, cut):
    end = loop_end(tokens)
    assert (None if end is None else tokens[:end]) == cut


def test_a_repetition_anywhere():
    assert repeats([1, 2, *[5, 6] * 4, 9]) and repeats([5] * 8)
    assert not repeats([1, 2, *[5, 6] * 3, 9, 5, 6]) and not repeats([5] * 7) and not repeats([])


def looping(seed=0):
    """A model of which source 0 never ends: after a letter comes the same letter."""
    model = Table(seed=seed)
    model.table[0] = -9.0
    for token in range(model.v):
        model.table[0, :, token, max(token, 5)] = 9.0
    return model


@pytest.mark.parametrize("decode", [greedy, lambda *given: beam(*given, width=3, alpha=0.6, best=3)])
def test_a_loop_is_cut_and_scored_and_the_rest_is_left_as_it_was(decode):
    model, limits, alpha = looping(), Limits(0, 30), 0.0 if decode is greedy else 0.6
    found = decode(model, SOURCE, LENGTHS, limits)
    assert len(found[0][0].tokens) == 29
    cut = cut_loops(model, SOURCE, LENGTHS, found, limits, alpha)
    assert cut[1:] == found[1:] and len(cut[0]) == len(found[0])
    for hypothesis in cut[0]:
        assert len(hypothesis.tokens) < 8 or hypothesis in found[0]
        assert hypothesis.log_prob == pytest.approx(model.log_prob(0, hypothesis.tokens))
        assert hypothesis.score == pytest.approx(
            hypothesis.log_prob / penalty(len(hypothesis.tokens) + 1, alpha)
        )
    assert [h.score for h in cut[0]] == sorted((h.score for h in cut[0]), reverse=True)
    assert EOS not in cut[0][0].tokens


def test_a_source_that_repeats_may_be_answered_so():
    model, limits = looping(), Limits(0, 30)
    source, lengths = torch.zeros(1, 12, dtype=torch.long), torch.tensor([12])
    found = greedy(model, source, lengths, limits)
    assert cut_loops(model, source, lengths, found, limits) == found
    source[0, 1:] = torch.arange(1, 12)
    (short,) = cut_loops(model, source, lengths, found, limits)
    assert len(short[0].tokens) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_the_model_ended_itself_is_left_alone(seed):
    """Long repetitions too: only the limit makes a loop endless."""
    model, limits = looping(seed), Limits(0, 30)
    model.table[0, 5, 5, EOS] = 8.5
    found = beam(model, SOURCE, LENGTHS, Limits(0, 200), width=4, best=4)
    ended = [[h for h in hypotheses if len(h.tokens) + 1 != 30] for hypotheses in found]
    assert cut_loops(model, SOURCE, LENGTHS, ended, limits) == ended


def test_a_translator_cuts_loops_and_leaves_the_rest_to_the_bit(tiny_run, monkeypatch):
    from regard.tasks import translator

    system = tiny_run("translation").system
    sources = [[5, 6, 7], [8, 9], [7, 5, 6, 9]]
    decoding = system.decoding
    found = system.decode(sources, decoding)
    source, lengths = translator.padded(sources, system.device)
    plain = beam(
        system.model, source, lengths, decoding.limits, width=decoding.beam, alpha=decoding.alpha, best=1
    )
    limits = decoding.limits.of(lengths).tolist()
    ended = [len(one[0].tokens) + 1 < limit for one, limit in zip(plain, limits, strict=True)]
    assert any(ended)
    assert all(a == b for a, b, own in zip(found, plain, ended, strict=True) if own)

    endless = [[Hypothesis([4] * (limit - 1), -1.0, -0.5)] for limit in limits]
    monkeypatch.setattr(translator, "beam", lambda *_, **__: endless)
    assert [one[0].tokens for one in system.decode(sources, decoding)] == [[4]] * 3
