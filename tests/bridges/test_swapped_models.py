"""Models of transformers with other maps: recorded, intervened on, saved, per layer and head."""

from copy import deepcopy

import pytest
import torch

import regard
from bridges.tiny_models import CAUSAL, MODELS, inputs, output, tiny, tokens, transformers
from regard.maps import entmax15, softmax


@pytest.mark.parametrize("name", MODELS)
def test_looking_changes_no_bit(name):
    model = regard.swap(tiny(name), "entmax15")
    before = output(model, **inputs(name))
    with regard.record(model) as seen:
        assert torch.equal(output(model, **inputs(name)), before)
    assert all(len(calls) == 1 for calls in seen.values()) and len(seen) in (2, 4, 6)
    for path, (one,) in seen.items():
        heads, m = (4, one.weights.shape[-2])
        assert one.weights.shape[:3] == (2, heads, m), path
        torch.testing.assert_close(one.weights @ one.values, one.context, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5", "gpt_oss"])
def test_weights_are_those_that_the_model_gives(name):
    theirs = tiny(name)
    theirs.set_attn_implementation("eager")
    given = {**inputs(name), "output_attentions": True}
    model = regard.swap(tiny(name), "softmax")
    with torch.no_grad(), regard.record(model) as seen:
        own, found = theirs(**given), model(**given)
    key = "encoder_attentions" if name == "t5" else "attentions"
    recorded = [calls[0].weights for path, calls in seen.items() if "decoder" not in path]
    for one, other, third in zip(own[key], found[key], recorded, strict=True):
        torch.testing.assert_close(other, one, atol=1e-5, rtol=1e-5)
        assert torch.equal(other, third)


def test_generation_is_recorded_step_by_step():
    model = regard.swap(tiny("llama"), "softmax")
    with regard.record(model, "model.layers.1.*") as seen:
        model.generate(tokens(1, 5), max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert [tuple(one.weights.shape) for one in seen["model.layers.1.self_attn"]] == [
        (1, 4, 5, 5), (1, 4, 1, 6), (1, 4, 1, 7), (1, 4, 1, 8),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "llama", "gpt_oss"])
def test_intervening(name):
    model, given = regard.swap(tiny(name), "softmax"), inputs(name)
    before = output(model, **given)
    with regard.intervene(model, lambda p: p):
        torch.testing.assert_close(output(model, **given), before, atol=1e-5, rtol=1e-5)
    shapes = []

    def without_head(p):
        shapes.append(p.shape)
        p = p.clone()
        p[:, 2] = 0
        return p

    with regard.intervene(model, without_head, "*1.*"), regard.record(model, "*1.*") as seen:
        assert float((output(model, **given) - before).abs().max()) > 1e-3
    ((one,),) = seen.values()
    assert shapes == [one.weights.shape] and one.weights[:, 2].abs().sum() == 0 < one.weights[:, 1].sum()


def test_maps_by_layer_and_head():
    model = regard.swap(tiny("llama"), "entmax15", paths="*layers.1.*", heads=[1, -1], temperature=[2.0, 3.0])
    first, second = (layer.self_attn for layer in model.model.layers)
    assert "regard" not in first._modules
    assert second.regard.maps == [softmax, entmax15, softmax, entmax15]
    assert second.regard.temperature.tolist() == [1, 2, 1, 3]
    with regard.record(model) as seen:
        output(model, **inputs("llama"))
    one = seen["model.layers.1.self_attn"][0]
    visible = torch.ones(9, 9).tril().bool()
    for head, (map_, temperature) in enumerate([(softmax, 1), (entmax15, 2), (softmax, 1), (entmax15, 3)]):
        scores = one.query[:, head] @ one.keys[:, head].mT / 2 / temperature  # heads of width 4
        want = map_(scores.masked_fill(~visible, float("-inf")))
        torch.testing.assert_close(one.weights[:, head], want)
    regard.swap(model, "softmax")
    assert (second.regard.maps, second.regard.temperature) == ([softmax] * 4, None)


@pytest.mark.parametrize("name", ["t5", "gemma2", "gpt_oss"])
def test_a_temperature_divides_all_that_the_map_gets(name):
    """Bias, cap and sink included: at a high temperature every visible key has the same weight."""
    model = regard.swap(tiny(name), "softmax", temperature=1e6)
    with regard.record(model) as seen:
        output(model, **inputs(name))
    one = next(iter(seen.values()))[0]
    visible = torch.ones(one.weights.shape[-2:], dtype=torch.bool)
    if one.visible is not None:
        visible = one.visible.expand(one.weights.shape)
    sink = 1 if name == "gpt_oss" else 0
    want = visible / (visible.sum(-1, keepdim=True) + sink)
    torch.testing.assert_close(one.weights, want.expand(one.weights.shape), atol=1e-4, rtol=1e-4)


def test_what_is_saved_is_the_model_as_it_was(tmp_path):
    model = regard.swap(tiny("llama"), "entmax15", temperature=2.0)
    assert model.state_dict().keys() == tiny("llama").state_dict().keys()
    assert type(model.model.layers[0].self_attn) is transformers.models.llama.modeling_llama.LlamaAttention
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(output(loaded, **inputs("llama")), output(tiny("llama"), **inputs("llama")))


def test_a_copy_has_its_own_temperatures():
    model = regard.swap(tiny("llama"), "entmax15", temperature=2.0)
    copied = deepcopy(model)
    regard.swap(copied, "softmax")
    assert model.model.layers[0].self_attn.regard.temperature.tolist() == [2.0] * 4
    assert len(regard.attentions(copied)) == 2


def test_a_map_that_learns_belongs_to_the_model():
    class Learned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, scores):
            return softmax(scores * self.scale)

    model = regard.swap(tiny("llama"), Learned(), heads=[0, 1])
    learned = [name for name, _ in model.named_parameters() if "regard" in name]
    assert len(learned) == 2
    model(**inputs("llama"), labels=tokens(2, 9)).loss.backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if name in learned)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_sparse_map_generates_alike_with_and_without_a_cache(name):
    model = regard.swap(tiny(name), "entmax15", temperature=0.5)
    found = [
        model.generate(tokens(1, 5), max_new_tokens=8, min_new_tokens=8, do_sample=False, use_cache=cached)
        for cached in (True, False)
    ]
    assert torch.equal(*found)


def test_adapters_of_peft():
    peft = pytest.importorskip("peft")
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, r=2)
        made.append(peft.get_peft_model(tiny("llama"), config).eval())
    regard.swap(made[1], "softmax")
    one, other = (output(m, **inputs("llama")) for m in made)
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-5)
    with regard.record(made[1], "*layers.1.*") as seen:
        output(made[1], **inputs("llama"))
    assert len(seen) == 1


def test_a_forward_pass_is_measured_in_turn(tmp_path, monkeypatch):
    import json

    from typer.testing import CliRunner

    from bridges.tiny_folders import WORDS, folder
    from regard.bench import swapped_model
    from regard.cli.app import app

    monkeypatch.setattr(swapped_model, "CASES", (("softmax", 12, 1.0, 1.05), ("entmax15", 16, 2.0, 0.9)))
    path, text = f"hf:{folder('language', tmp_path)}", tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:20]))
    found = CliRunner().invoke(
        app,
        ["bench", "swapped-model", path, "--text", str(text), "--quick", "--json"],
        catch_exceptions=False,
    )
    rows = json.loads(found.stdout)
    assert [(row["group"], row["n"], row["limit"]) for row in rows] == [
        ("softmax", 12, 1.05),
        ("entmax15", 16, 0.9),
    ]
    assert all(row["ratio"] > 0 and row["command"] == "regard bench swapped-model" for row in rows)
    command = ["bench", "swapped-model", path, "--quick", "--json", "--cpu-time", "--only", "entmax15"]
    (row,) = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    assert row["group"] == "entmax15" and row["command"].endswith(" --cpu-time")
    command = ["bench", "swapped-model", path, "--quick"]
    found = CliRunner().invoke(app, command, catch_exceptions=False, env={"COLUMNS": "150"})
    assert found.exit_code == 0 and "12 × 12" in found.output and "16 × 16" in found.output
    text.write_text("the key")
    found = CliRunner().invoke(app, ["bench", "swapped-model", path, "--text", str(text), "--quick"])
    assert found.exit_code == 2 and "are needed" in found.output
    assert CliRunner().invoke(app, ["bench", "swapped-model", "nowhere"]).exit_code == 2
