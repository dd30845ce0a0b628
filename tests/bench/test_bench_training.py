"""Training and decoding benchmarks compare what they say they compare."""

import pytest
import torch

from regard.bench import decoding, drawing, training
from regard.bench.attention_of_run import of_run
from regard.bench.timing import Effort
from regard.bench.training_peers import Trainer, ours, plain
from regard.data.batches import Batch
from regard.runs import fit, resolve
from runs.tiny import SETTINGS

ONCE = Effort(seconds=0.0, least=1, most=1)


def test_similar_batches_pad_less_and_hold_the_same_pairs():
    similar, random = training.similar(), training.random()
    assert training.padding(similar) < 0.05 < 0.4 < training.padding(random)
    for batch in [*similar, *random]:
        assert max(batch["source"].shape[1], batch["target"].shape[1]) * len(batch) <= training.TOKENS
        pair, number = 0, int(batch.indices[0])
        wanted = training._corpus().encoded.lengths[number]
        assert [int(batch.lengths[name][pair]) for name in ("source", "target")] == wanted.tolist()


def small(batch: Batch) -> Batch:
    """The first pair of a batch."""
    fields, lengths = (
        {name: one[:1] for name, one in part.items()} for part in (batch.fields, batch.lengths)
    )
    return Batch(fields, lengths, batch.indices[:1])


@pytest.mark.parametrize("made", [ours, plain])
def test_every_side_learns_the_same_loss(made):
    torch.manual_seed(0)
    batch = small(training.similar()[0])
    model, loss = made()
    trainer = Trainer((model, loss), [batch])
    tokens = int(batch.lengths["target"].sum())
    assert trainer.tokens == tokens
    before = float(loss(batch).detach()) / tokens
    for _ in range(3):
        trainer()
    after = float(loss(batch).detach()) / tokens
    assert after < before < 20  # it learns, and begins near a blind guess


def test_the_cases_say_what_must_hold():
    limits = {(case.claim.against, round(case.claim.limit, 3)) for case in training.cases()}
    assert {("torch.nn.Transformer, plain loop", 1.031), ("torch.nn.Transformer, plain loop", 0.4)} <= limits


def test_marian_with_our_weights_writes_what_we_write():
    pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
    torch.manual_seed(0)
    model = decoding.TRANSLATORS["transformer"].make(
        source_vocabulary=decoding.WORDS, target_vocabulary=decoding.WORDS, width=32, inner=64, norm="post"
    )
    source = torch.randint(4, 100, (3, 7))
    source[1, 5:] = 0
    lengths = torch.tensor([7, 5, 7])
    found = decoding.generate(decoding.marian(model.eval()), source)
    assert found == decoding.search(model, source, lengths)


def test_attention_on_the_scores_of_a_run(tmp_path):
    fit(resolve(SETTINGS), tmp_path / "run")
    rows = [case.measure(ONCE) for case in of_run(tmp_path / "run")]
    assert {row.what.split(",")[0] for row in rows} == {
        "encoder.attention",
        "decoder.attention",
        "decoder.cross",
    }
    assert all(1 <= row.support <= row.n and row.ratio > 0 and row.held is None for row in rows)


def test_drawing_is_measured_in_a_browser(apart):
    if drawing.missing():
        pytest.skip(f"TESTS IN A BROWSER ARE SKIPPED: {'; '.join(drawing.missing())}")
    (row,) = (apart(case.measure, ONCE) for case in drawing.cases([20]))
    assert 0 < row.seconds < 60 and row.n == 20 and row.held is None
