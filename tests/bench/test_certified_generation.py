"""The bench of what a language model writes with a certified cache, on one with random weights."""

import pytest
import torch

from bridges.tiny_models import transformers
from regard.bench import certified_generation as bench
from regard.bench.timing import Effort


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=300, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=2048,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    return tmp_path


def test_rows(folder):
    found = [case.measure(Effort(0.01, 1, 1)) for case in bench.cases(folder, None, read=1030, written=4)]
    assert found[0].ratio == 0 and found[0].held
    assert len(found) == 6 and all(0 < row.ratio < 1 for row in found[3:])


def test_a_clock_counts_what_is_written_and_not_the_prompt():
    times = iter(range(100))
    clock = bench.Clock(now=lambda: next(times))
    clock.put(torch.tensor([[1, 2, 3]]))
    for token in (7, 8, 9):
        clock.put(torch.tensor([token]))
        clock.inside = 0.25
    assert clock.tokens == [7, 8, 9] and clock.token == 1 and clock.share == 0.25


def test_text_that_is_too_short_is_refused(folder, tmp_path):
    (tmp_path / "text").write_text("a b a")
    with pytest.raises(ValueError, match="tokens"):
        bench.cases(folder, tmp_path / "text", read=1030)[0].measure(Effort(0.01, 1, 1))
