"""Which source word a target word comes from, by the gold links of the toys."""

from itertools import islice

import pytest
import torch

from regard.claims.deceived_translators import TASKS, aligned, deceiving, weight_on_source
from regard.claims.toy_pairs import Pairs, translation_loss, translator


@pytest.mark.parametrize("task", TASKS)
def test_the_forbidden_words_are_the_gold_links(task):
    pairs = list(islice(TASKS[task](shortest=1, longest=6), 50))
    lengths = torch.tensor([len(pair.source.split()) for pair in pairs])
    found = aligned(task, lengths, 7, 6)
    for row, pair in zip(found, pairs, strict=True):
        assert [(j, t) for t, j in row.nonzero().tolist()] == sorted(pair.alignment, key=lambda one: one[1])


def test_the_penalty_is_the_mean_of_what_is_hidden():
    pairs = Pairs(TASKS["flip"], shortest=3, longest=4, vocabulary=6)
    model, batch = translator("luong", 0, **pairs.sizes, width=16), next(pairs.train(0, 4))
    weight, _ = weight_on_source("flip", model, batch)
    values = [
        -float((1 - weight[i, t]).log()) for i in range(4) for t in range(int(batch.lengths["target"][i]))
    ]
    wanted = translation_loss(model, batch).item() + sum(values) / len(values)
    assert deceiving("flip")(model, batch).item() == pytest.approx(wanted, rel=1e-5)
