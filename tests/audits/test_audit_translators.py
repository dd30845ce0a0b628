"""Audits of translators: steps as inputs, weights put back, links against gold."""

import pytest
import torch

import regard
from regard.alignment.links import Links
from regard.audits.examine import examine
from regard.core.errors import RunError
from tasks.translators import PAIRS, translator

SEVERAL = [pair for pair in PAIRS if all(text.strip() for text in pair)] * 4


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "luong"])
def test_the_weights_that_were_used_put_back_change_nothing_and_others_do(name):
    case = translator(name).case(SEVERAL)
    for batch in case.batches:
        said = batch.intervene(batch.weights)
        torch.testing.assert_close(said.detach(), batch.probabilities, rtol=1e-4, atol=1e-6)
        turned = torch.where(batch.real.unsqueeze(-2), batch.weights, 0)
        first = torch.zeros_like(turned)
        first[..., 0] = turned.sum(-1)  # all on the first token
        assert not torch.allclose(batch.intervene(first).detach(), batch.probabilities, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_a_step_without_a_source_token_is_the_step_of_the_shorter_source(name):
    system = translator(name)
    case = system.case(SEVERAL[:1])
    row = torch.tensor([len(case) - 1])
    shorter = list(case.texts[-1])[1:]
    (said,) = case.predict([shorter], row)
    text = system.source_tokenizer.decode(shorter).strip()
    other = system.case([(text, SEVERAL[0][1])])
    torch.testing.assert_close(said, other.probabilities[-1])


def test_all_tests_run_and_links_are_compared():
    words = [(len(source.split()), len(target.split())) for source, target in SEVERAL]
    gold = [Links.of((min(j, n - 1), j) for j in range(m)) for n, m in words]
    case = translator("transformer").case(SEVERAL, gold=gold, most=40)
    assert len(case) == 40
    report = examine(case, quick=True)
    assert 0 <= report.tests["alignment_error"].value <= 1
    assert report.tests["consistency"].why or report.tests["consistency"].value == 1
    assert not any("it failed" in (finding.why or "") for finding in report.tests.values())


def test_what_the_translator_writes_itself():
    case = translator("bahdanau").case([(source, None) for source, _ in SEVERAL[:2]], most=30)
    assert 0 < len(case) <= 30
    texts = translator("bahdanau").case([source for source, _ in SEVERAL[:2]], most=30)
    assert torch.equal(texts.probabilities, case.probabilities)
    report = regard.audit(translator("bahdanau"), [SEVERAL[2][0]], quick=True)
    assert report.tests["permutation"].value is not None


def test_without_attention_there_is_nothing_to_audit():
    with pytest.raises(RunError, match="no attention"):
        translator("rnn").case(SEVERAL)
