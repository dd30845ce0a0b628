"""One temperature per head: fitted, kept in a folder, and opened again."""

import gzip
import json

import pytest
import torch
from typer.testing import CliRunner

import regard
from bridges.tiny_folders import WORDS, folder
from bridges.tiny_models import tiny, tokens
from regard.cli.app import app
from regard.core.errors import RunError


def test_temperatures_are_fitted_to_a_text():
    from regard.bridges.huggingface.fitting import fit_temperatures

    model = tiny("llama")
    with torch.no_grad():  # a text that the model itself finds likely: what another map loses can show
        text = model.generate(tokens(1, 4), max_new_tokens=90, min_new_tokens=90, do_sample=True, top_k=3)[0]
    heard = []
    found = fit_temperatures(
        model, text, "entmax15", test=text, window=24, steps=20,
        say=lambda what, done, of: heard.append((what, done, of)),
    )  # fmt: skip
    assert found.after < found.matched
    assert set(found.temperatures) == set(regard.attentions(model).values())
    assert all(len(one) == 4 and min(one) > 0 for one in found.temperatures.values())
    assert 0 < found.support_share < 1 <= found.support < 24
    assert ("fitting", 20, 20) in heard


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_support_is_a_share_of_the_keys_that_a_query_sees(name):
    """Softmax gives each of them weight, in a window of 4 keys as well."""
    from regard.bridges.huggingface.fitting import mean_support

    support, share = mean_support(regard.swap(tiny(name), "softmax"), tokens(2, 12))
    want = sum(min(i, 4) if name == "mistral" else i for i in range(1, 13)) / 12
    assert (support, share) == (pytest.approx(want), pytest.approx(1))


def test_softmax_is_matched_with_itself():
    from regard.bridges.huggingface.fitting import match_heads

    model = regard.swap(tiny("llama"), "softmax")
    found = match_heads(model, tokens(2, 12), "softmax", lambda done, of: None)
    assert all(one.tolist() == [1.0] * 4 for one in found.values()) and len(found) == 2


def test_every_head_has_a_gradient():
    """Also in the first layer, whose queries depend on nothing that is learned."""
    from regard.bridges.huggingface.head_settings import CHILD

    for name in ("llama", "t5", "gpt_oss"):
        model = regard.swap(tiny(name).requires_grad_(False), "softmax", temperature=2.0)
        learned = {}
        for module, path in regard.attentions(model).items():
            learned[path] = torch.full((4,), 2.0, requires_grad=True)
            module._modules[CHILD]._buffers["temperature"] = learned[path]
        given = {"input_ids": tokens(2, 9)} | ({"decoder_input_ids": tokens(2, 5)} if name == "t5" else {})
        fixed = regard.swap(tiny(name), "softmax", temperature=2.0)
        with torch.no_grad():
            want = fixed(**given).logits
        logits = model(**given).logits
        torch.testing.assert_close(logits, want, atol=1e-4, rtol=1e-4)
        logits.square().sum().backward()
        assert all(bool((one.grad != 0).all()) for one in learned.values()), name


def test_a_folder_of_swap_is_a_path(tmp_path):
    base, text = folder("language", tmp_path), tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:]) * 12)
    command = [
        "swap",
        f"hf:{base}",
        "--map",
        "entmax15",
        "--fit",
        str(text),
        "--steps",
        "2",
        "--window",
        "16",
    ]
    found = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "light")])
    assert found.exit_code == 0, found.output
    assert "× softmax" in found.output and "mean support" in found.output
    said = json.loads((tmp_path / "light" / "regard.json").read_text())
    assert sorted(path.name for path in (tmp_path / "light").iterdir()) == ["regard.json"]
    system = regard.load(f"hf:{tmp_path / 'light'}")
    settings = system.model.theirs.model.layers[1].self_attn.regard
    assert settings.temperature.tolist() == pytest.approx(said["temperatures"]["model.layers.1.self_attn"])
    assert settings.maps[0] is regard.maps.entmax15
    assert "entmax15" in system.settings.model["map"]
    again = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "light")])
    assert again.exit_code == 2 and "is there already" in again.output
    command = ["swap", f"hf:{base}", "--map", "sparsemax", "--temperature", "2", "--full"]
    found = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "full")])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "full" / "model.safetensors").exists()
    whole = regard.load(f"hf:{tmp_path / 'full'}")
    assert whole.model.theirs.model.layers[0].self_attn.regard.temperature.tolist() == [2.0] * 4


def test_alpha_and_the_weights_of_q_and_k_are_learned_and_kept(tmp_path):
    base, text = folder("language", tmp_path), tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:]) * 12)
    command = ["swap", f"hf:{base}", "--fit", str(text), "--steps", "3", "--window", "16", "--learn-alpha"]
    found = CliRunner().invoke(app, [*command, "--tune", "--out", str(tmp_path / "light")])
    assert found.exit_code == 0, found.output
    assert "α from" in found.output
    found = CliRunner().invoke(app, [*command, "--tune", "--full", "--out", str(tmp_path / "full")])
    assert found.exit_code == 0, found.output
    before, light, full = (
        regard.load(f"hf:{path}").model.theirs for path in (base, tmp_path / "light", tmp_path / "full")
    )
    for name, one in light.named_parameters():
        torch.testing.assert_close(one, full.get_parameter(name), atol=0, rtol=0)
        changed = bool((one != before.get_parameter(name)).any())
        assert changed == any(part in name for part in ("q_proj", "k_proj")), name
    said = json.loads((tmp_path / "light" / "regard.json").read_text())["alphas"]
    alphas = light.model.layers[0].self_attn.regard.map.alpha
    assert alphas.tolist() == pytest.approx(said["model.layers.0.self_attn"]) and 1 < min(alphas) < 1.5001
    assert not any("regard" in name for name in full.state_dict())
    with torch.no_grad():
        a, b = (model(input_ids=tokens(1, 9)).logits for model in (light, full))
    torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_a_folder_of_swap_is_swapped_again(tmp_path):
    """Its tuned weights stay, its map and temperatures go."""
    from regard.bridges.huggingface.opening import load_model

    base, text = folder("language", tmp_path), tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:]) * 12)
    first, second, full = (tmp_path / name for name in ("first", "second", "full"))
    fit = ("--fit", str(text), "--steps", "2", "--window", "16", "--tune")
    for of, out, more in ((base, first, fit), (first, second, ()), (second, full, ("--full",))):
        command = ["swap", f"hf:{of}", "--map", "sparsemax", "--out", str(out), *more]
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
    assert regard.load(f"hf:{second}").answer(["the key"])
    models = [load_model(path) for path in (first, second, full)]
    for one in models[1:]:
        assert one.model.layers[0].self_attn.regard.temperature is None
        for name, weights in models[0].named_parameters():
            assert torch.equal(one.get_parameter(name), weights), name
    said = json.loads((second / "regard.json").read_text())
    (second / "regard.json").write_text(json.dumps({**said, "base": str(second)}))
    with pytest.raises(RunError, match="which is this folder"):
        load_model(second)


def test_what_cannot_be_learned_is_refused(tmp_path):
    base, text = folder("language", tmp_path), tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[4:]) * 12)
    for more, sentence in (
        (["--learn-alpha"], "--fit FILE"),
        (["--learn-alpha", "--fit", str(text), "--map", "sparsemax"], "map must be entmax15"),
    ):
        found = CliRunner().invoke(app, ["swap", f"hf:{base}", *more, "--out", str(tmp_path / "out")])
        assert found.exit_code == 2 and sentence in found.output and not (tmp_path / "out").exists()


def test_texts_may_be_gzip_and_only_their_beginnings_are_used(tmp_path):
    base, text = folder("language", tmp_path), tmp_path / "text.txt.gz"
    words = " ".join(WORDS[4:]) + "\n"
    text.write_bytes(gzip.compress((words * 2_000).encode()))
    command = ["swap", f"hf:{base}", "--fit", str(text), "--test", str(text), "--tokens", "70"]
    command += ["--steps", "1", "--window", "16", "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert "on 60 tokens" in found.output  # four windows of 16, the first token of each not predicted
    (tmp_path / "latin.txt").write_bytes("schön".encode("latin-1"))
    command[3], command[-1] = str(tmp_path / "latin.txt"), str(tmp_path / "other")
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 2 and "invalid UTF-8" in found.output and not (tmp_path / "other").exists()


def test_only_language_models_are_fitted(tmp_path):
    base, text = folder("encoder", tmp_path), tmp_path / "text.txt"
    text.write_text("the key to the cabinet")
    command = ["swap", f"hf:{base}", "--fit", str(text), "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 2 and "--fit is for language models" in found.output
