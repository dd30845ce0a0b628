"""What someone meets who points the commands at a model for the first time: every failure is one sentence."""

import pytest
import torch
from typer.testing import CliRunner

import regard
from bridges.tiny_folders import WORDS, folder, tokenizer
from bridges.tiny_models import STACKS, TEXT, inputs, tiny, tokens, transformers
from regard.cli.app import app
from regard.core.errors import RunError

LONG = " ".join(["the"] * 200)  # the tiny models have 128 positions


def save(name, where, special=None):
    """A folder with a tiny model of any kind, and a tokenizer unless it reads pictures or sound."""
    path = where / name
    tiny(name).save_pretrained(path)
    if special is not None:
        tokenizer(special).save_pretrained(path)
    return path


def pictures(where):
    """A folder with a classifier of pictures."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=8,
        patch_size=4, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(where / "pictures")
    transformers.ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(where / "pictures")
    return where / "pictures"


def run(*command):
    return CliRunner().invoke(app, [str(part) for part in command], env={"COLUMNS": "400"})


def refused(says, *command):
    """The command ends with code 2 and one line that has these words."""
    found = run(*command)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    said = [line for line in found.output.splitlines() if line.strip()]
    assert found.exit_code == 2 and len(said) == 1 and says in said[0], found.output


@pytest.mark.parametrize("kind", ["classifier", "gpt2", "bart"])
def test_a_text_that_is_too_long_or_empty_is_refused(kind, tmp_path):
    path = save("gpt2", tmp_path, "$A") if kind == "gpt2" else folder(kind, tmp_path)
    refused("128 positions: shorten it", "explain", f"hf:{path}", "--text", LONG)
    refused("empty" if kind == "classifier" else "no token", "explain", f"hf:{path}", "--text", "")


def test_an_encoder_decoder_without_a_table_of_positions_reads_any_length(tmp_path):
    path = save("t5", tmp_path, "$A [EOS]")
    assert run("explain", f"hf:{path}", "--text", LONG).exit_code == 0
    refused("no token", "explain", f"hf:{path}", "--text", "")
    refused("are for language models", "explain", f"hf:{path}", "--text", "the key", "--target", "is")


def test_an_encoder_decoder_that_says_nothing_of_its_start_begins_as_generate_does(tmp_path):
    torch.manual_seed(0)
    config = transformers.LongT5Config(
        d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4, vocab_size=40, pad_token_id=0, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    assert not hasattr(config, "decoder_start_token_id")
    transformers.LongT5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer("$A [EOS]").save_pretrained(tmp_path)
    system = regard.load(f"hf:{tmp_path}")
    (answer,) = system.answer(["the key"], tokens=3)
    assert len(answer.log_probs) == len(answer.written) <= 3
    case = system.case(["the key"])
    assert float(case.probabilities[0, 0].log()) == pytest.approx(answer.log_probs[0], abs=1e-4)


def test_positions_of_models_that_count_from_their_padding():
    from regard.bridges.huggingface.model_facts import positions

    config = transformers.RobertaConfig(**{**TEXT, "pad_token_id": 1, "max_position_embeddings": 34})
    model = transformers.RobertaModel(config).eval()
    assert positions(model) == 32
    model(input_ids=torch.full((1, 32), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, 33), 5))
    assert positions(tiny("llama")) is None and positions(tiny("t5")) is None
    assert positions(tiny("gpt2")) == positions(tiny("marian")) == 128


def test_a_language_model_writes_as_far_as_its_positions_go(tmp_path):
    system = regard.load(f"hf:{save('gpt2', tmp_path, '$A')}")
    (found,) = system.answer([" ".join(["the"] * 120)], eos_token_id=None)
    assert len(found.written) == 8
    with pytest.raises(ValueError, match="fills all 128 positions"):
        system.answer([" ".join(["the"] * 128)])


def test_a_model_of_pictures_is_checked_and_swapped_and_asked_nothing(tmp_path):
    path = f"hf:{pictures(tmp_path)}"
    found = run("check", path)
    assert found.exit_code == 0 and "it agrees" in found.output
    refused("reads pixel_values, not texts", "explain", path, "--text", "the key")
    refused("reads pixel_values", "swap", path, "--fit", __file__, "--out", tmp_path / "no")
    for more in ([], ["--full"]):
        out = tmp_path / f"out{len(more)}"
        assert run("swap", path, "--map", "sparsemax", "--out", out, *more).exit_code == 0
        assert run("check", f"hf:{out}").exit_code == 0
    assert (tmp_path / "out1" / "preprocessor_config.json").is_file()
    kept = transformers.ViTForImageClassification.from_pretrained(tmp_path / "out1")
    own = transformers.ViTForImageClassification.from_pretrained(tmp_path / "pictures")
    assert torch.equal(kept.classifier.weight, own.classifier.weight)


def test_a_model_of_sound_is_checked_and_what_it_writes_too(tmp_path):
    path = f"hf:{save('whisper', tmp_path)}"
    found = run("check", path, "--tokens", 3)
    assert found.exit_code == 0 and "all 4 agree" in found.output and "3 tokens, beams" in found.output
    refused("reads input_features", "view", path, "--text", "a", "--out", tmp_path / "a.html")


def test_a_model_without_tokenizer_says_so(tmp_path):
    path = f"hf:{save('gpt2', tmp_path)}"
    assert run("check", path, "--tokens", 2).exit_code == 0
    refused("no tokenizer that can be opened", "explain", path, "--text", "the key")


def test_a_model_that_cannot_be_swapped_or_called_is_refused_in_one_sentence(tmp_path):
    config = transformers.GPTJConfig(n_embd=16, n_layer=1, n_head=2, vocab_size=len(WORDS), rotary_dim=4)
    transformers.GPTJForCausalLM(config).save_pretrained(tmp_path / "gptj")
    tokenizer("$A").save_pretrained(tmp_path / "gptj")
    gptj, says = f"hf:{tmp_path / 'gptj'}", "GPTJForCausalLM does not call its attention through"
    refused(says, "check", gptj)
    refused(says, "swap", gptj, "--map", "sparsemax", "--out", tmp_path / "no")
    refused(says, "explain", gptj, "--text", "the key")
    parts = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**parts, "vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={**parts, "image_size": 8, "patch_size": 4},
    )
    transformers.CLIPModel(config).save_pretrained(tmp_path / "clip")
    refused("CLIPModel cannot be called with input_ids alone", "check", f"hf:{tmp_path / 'clip'}")


@pytest.mark.parametrize("name", ["BertForNextSentencePrediction", "BartForSequenceClassification"])
def test_a_model_that_reads_whole_texts_is_checked(name, tmp_path):
    """Its output has no positions; an encoder–decoder among them reads where the text ends."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    kind(kind.config_class(**(TEXT if "Bert" in name else STACKS))).save_pretrained(tmp_path / "model")
    found = run("check", f"hf:{tmp_path / 'model'}")
    assert found.exit_code == 0 and "all 3 agree" in found.output, found.output


def test_a_name_that_nobody_knows():
    refused("no folder nowhere/model, and no model of that name", "check", "hf:nowhere/model")


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForTokenClassification"])
def test_a_model_with_a_head_for_words_is_an_encoder_and_keeps_its_head(head, tmp_path):
    torch.manual_seed(0)
    model = getattr(transformers, f"Bert{head}")(transformers.BertConfig(**TEXT)).eval()
    model.save_pretrained(tmp_path / "model")
    tokenizer("[BOS] $A [EOS]").save_pretrained(tmp_path / "model")
    path = f"hf:{tmp_path / 'model'}"
    found = run("check", path)
    assert found.exit_code == 0 and "MISSING" not in found.output and "UNEXPECTED" not in found.output
    (one,) = regard.load(path).answer(["the key"])
    ids = torch.tensor([[1, *one.tokens, 2]])
    with torch.no_grad():
        own = model.base_model(input_ids=ids).last_hidden_state[0].mean(0)
    torch.testing.assert_close(one.vector, own, atol=1e-5, rtol=1e-5)
    refused("has no decision", "explain", path, "--text", "the key")
    refused("predicts nothing", "explain", path, "--text", "the key", "--target", "is")
    assert run("swap", path, "--map", "sparsemax", "--out", tmp_path / "out", "--full").exit_code == 0
    kept = type(model).from_pretrained(tmp_path / "out")
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), model.parameters(), strict=True))


def test_a_score_below_zero_is_evidence_against_what_was_asked_about(tmp_path):
    """The model prefers "is"; asked about "are", scores below 0 are evidence against that."""
    path, text = f"hf:{folder('language', tmp_path)}", "the key to the cabinet"
    given = ["--target", "are", "--against", "is", "--method", "leave_one_out"]
    found = run("explain", path, "--text", text, *given)
    assert "is  0." in found.output and "evidence against are" in found.output
    refused("give --target", "explain", path, "--text", text, "--against", "is")


def test_heads_by_labelled_texts_and_no_pruning(tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("a very good film\tgood\nthe plot was dull\tbad\n")
    for kind in ("classifier", "encoder", "language", "stacked"):
        path = f"hf:{folder(kind, tmp_path)}"
        found = run("heads", path, "--data", file)
        assert found.exit_code == 0 and "2 sentences" in found.output
        refused("is trained elsewhere", "heads", path, "--prune", 0.01)


def test_a_step_that_is_not_there_is_said(tmp_path):
    system = regard.load(f"hf:{folder('stacked', tmp_path)}")
    with pytest.raises(ValueError, match="has no token"):
        system.case([""])
    with pytest.raises(ValueError, match="numbered from 0: there is no step 500"):
        system.case(["the key"], step=500)


def test_a_compiled_model_is_explained_as_it_is():
    model, cut, text = tiny("llama"), tokenizer("[BOS] $A"), "the key to the cabinet"
    compiled = torch.compile(tiny("llama"), backend="eager")
    asked = {"target": "is", "against": "are", "method": "leave_one_out"}
    found = [regard.explain(one, cut, text, **asked).scores for one in (model, compiled)]
    assert found[1] == pytest.approx(found[0], abs=1e-5)
    with pytest.raises(RunError, match="reads pixel_values"):
        regard.explain(tiny("vit"), cut, text)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "vit", "gemma2"])
def test_bfloat16_is_as_near_to_float32_as_their_own(name):
    half = {k: v.bfloat16() if v.is_floating_point() else v for k, v in inputs(name).items()}
    with torch.no_grad():
        exact = tiny(name)(**inputs(name))[0]
        theirs, ours = (
            one(**half)[0] for one in (tiny(name).bfloat16(), regard.swap(tiny(name).bfloat16(), "softmax"))
        )
    assert ours.dtype == torch.bfloat16
    off = [float((one.float() - exact).abs().mean()) for one in (theirs, ours)]
    assert off[1] <= 1.5 * off[0]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_gradient_checkpointing_in_training_changes_no_gradient(map, reentrant):
    given, found = tokens(2, 9), []
    for checkpoints in (False, True):
        model = regard.swap(tiny("llama"), map).train()
        if checkpoints:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
            model.enable_input_require_grads()
        model(input_ids=given, labels=given).loss.backward()
        found.append({path: one.grad for path, one in model.named_parameters()})
    for path, slope in found[0].items():
        torch.testing.assert_close(found[1][path], slope, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_a_text_padded_on_the_left_is_continued_as_it_is_alone(name, map):
    model, short = regard.swap(tiny(name), map), tokens(1, 5)
    padded = torch.cat([torch.cat([torch.zeros(1, 4, dtype=torch.long), short], 1), tokens(1, 9, seed=5)])
    mask = torch.ones_like(padded)
    mask[0, :4] = 0
    how = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    both = model.generate(padded, attention_mask=mask, **how)[0, 9:]
    alone = model.generate(short, attention_mask=torch.ones_like(short), **how)[0, 5:]
    assert both.tolist() == alone.tolist()
