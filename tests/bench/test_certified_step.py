"""The bench of certified steps: its rows say what they are; a file that is not as it should be is refused."""

from functools import partial

import pytest
import torch
from safetensors.torch import save_file

from commands import complaint
from regard.backends.key_codes import has_byte_products
from regard.bench import certified_step
from regard.bench.timing import Effort


@pytest.fixture
def file(tmp_path):
    torch.manual_seed(0)
    held = {"positions": torch.arange(1100, 1200, 13)}
    for layer in (3, 12):
        held[f"layer{layer}.keys"], held[f"layer{layer}.values"] = torch.randn(2, 2, 1200, 32).half()
        held[f"layer{layer}.queries"] = (8 * torch.randn(4, len(held["positions"]), 32)).half()
    save_file(held, tmp_path / "qkv.safetensors")
    return tmp_path / "qkv.safetensors"


def test_rows(file):
    cases = list(certified_step.cases(file))
    assert {case.n for case in cases} == {2**k for k in range(10, 17)} and all(
        "certified" in c.what for c in cases
    )
    assert sum("time" in c.what for c in cases) >= 7 and sum("bytes" in c.what for c in cases) >= 7
    assert [layer.positions[0] for layer in certified_step.layers(file.parent)] == [1100, 1100]


@pytest.mark.skipif(not has_byte_products(), reason="the machine has no AVX2")
def test_what_it_measures(file):
    some, effort = certified_step.layers(file), Effort(0.01, 1, 1)
    assert some[0].of_length(3000).keys.shape == (1, 2, 3000, 32)
    for measure in (
        partial(certified_step._time, some, 1200, True, 1),
        partial(certified_step._time, some, 1200, False, 2),
        partial(certified_step._bytes, some, 1200, True),
        partial(certified_step._memory, some, 1200),
        partial(certified_step._append, some, 1200),
    ):
        assert measure(effort).ratio > 0
    assert certified_step._lost(some, effort).ratio == 0
    assert 1 < certified_step._memory(some, 1200, effort).ratio < 1.2


def test_wrong_files_are_refused(file, tmp_path):
    assert "there is no file" in complaint("bench", "decoding", "--keys", tmp_path / "none")
    (tmp_path / "text").write_text("no tensors")
    assert "no safetensors file" in complaint("bench", "decoding", "--keys", tmp_path / "text")
    save_file({"layer1.keys": torch.zeros(1, 5, 32)}, tmp_path / "half.safetensors")
    assert "lacks layer1.values" in complaint("bench", "decoding", "--keys", tmp_path / "half.safetensors")
