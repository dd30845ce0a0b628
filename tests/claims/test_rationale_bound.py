"""Correction 15: the expected loss of a rationalizer bounds its loss from above."""

import pytest
import torch

from regard.models.classifiers import CLASSIFIERS


def test_15_the_expected_loss_is_an_upper_bound_of_the_loss():
    """−E log p(y | z) ≥ −log E p(y | z), over all z of five words; equal if z does not matter."""
    torch.manual_seed(0)
    own = {"embedding": 8, "width": 8, "dropout": 0.0, "word_dropout": 0.0}
    model = CLASSIFIERS["rationalizer_reinforce"].make(vocabulary=11, classes=2, **own).double()
    torch.nn.init.normal_(model.words.E.weight)
    model.level.fill_(0.0)
    embedded, lengths = model.embed(torch.tensor([[4, 7, 9, 5, 10]])), torch.tensor([5])
    chance = model.selection(embedded, lengths).chance  # (1, 5)
    z = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 5).double()  # (32, 5)
    likely = torch.where(z > 0, chance, 1 - chance).prod(-1)
    assert likely.sum().item() == pytest.approx(1)
    for equal in (False, True):
        if equal:  # no answer depends on what is seen
            torch.nn.init.zeros_(model.read.weight)
        p = model.from_selected(embedded.expand(32, -1, -1), lengths.expand(32), z).softmax(-1)[:, 0]
        gap = -(likely * p.log()).sum() + (likely * p).sum().log()
        assert gap.item() == pytest.approx(0, abs=1e-12) if equal else gap > 1e-4
