"""hf:PATH as a system: answers, weights, explanations, audits, commands."""

import json

import pytest
import torch
from typer.testing import CliRunner

import regard
from bridges.tiny_folders import WORDS, folder, tokenizer
from bridges.tiny_models import STACKS, tiny, tokens, transformers
from bridges.tiny_models import TEXT as TEXT_CONFIG
from regard.analyses.read_weights import states_of
from regard.analyses.tokenized import tokenize
from regard.cli.app import app
from regard.core.errors import RunError
from regard.inspection import controls, inspect, resolve_options, word_scores
from regard.inspection.inspected import showing
from regard.inspection.pictures import draw, picture_data
from regard.serve.served_run import ServedRun

KINDS = ("classifier", "encoder", "language", "stacked")
TEXT = "the key to the cabinet"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    where, found = tmp_path_factory.mktemp("models"), {}

    def system(kind):
        if kind not in found:
            found[kind] = regard.load(f"hf:{folder(kind, where)}")
        return found[kind]

    return system


@pytest.mark.parametrize("kind", KINDS)
def test_it_answers_and_shows_where_it_looked(kind, opened):
    system = opened(kind)
    found = inspect(system, TEXT)
    assert found.source == TEXT.split()
    assert all(layer.shape[-1] == 5 and len(layer) == 4 for layer in found.weights)
    draw(found)
    draw(found, "heads")
    masked = inspect(system, TEXT, words=[1], how="mask")
    assert all(float(layer[..., 1].abs().max()) == 0 for layer in masked.weights[-1:])
    deleted = inspect(system, TEXT, words=[1], how="delete")
    assert deleted.source == ["the", "to", "the", "cabinet"]


def test_a_classifier_is_what_the_model_says(opened):
    system = opened("classifier")
    texts = ["the film was good", "it was a very dull and bad film , in the plot"]
    given = system.tokenizer.theirs(texts, padding=True, return_tensors="pt")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(system.name).eval()
    with torch.no_grad():
        want = model(**{k: v for k, v in given.items() if k != "token_type_ids"}).logits.softmax(-1)
    found = torch.tensor([list(one.probabilities.values()) for one in system.answer(texts)])
    torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


def test_weights_put_back_give_the_same_answer(opened):
    choices = [(TEXT, "is", "are"), ("the keys on the table", "are", "is")]
    for kind, items in (("classifier", ["a dull film", "the plot was not good ."]), ("language", choices)):
        case = opened(kind).case(items)
        for batch in case.batches:
            torch.testing.assert_close(batch.intervene(batch.weights), batch.probabilities, atol=1e-5, rtol=0)
            other = batch.weights.roll(1, -1)
            assert float((batch.intervene(other).detach() - batch.probabilities).abs().max()) > 1e-6
            assert batch.weights.shape[1] == 4


@pytest.mark.parametrize("kind", ["classifier", "language"])
def test_other_weights_at_one_position_are_those_of_a_whole_pass(kind, opened):
    from regard.bridges.huggingface.replaying import Replay

    model = opened(kind).model
    texts, lengths = tokens(3, 6), torch.tensor([6, 3, 5])
    second = () if kind == "classifier" else (tokens(3, 2, seed=5), torch.tensor([2, 2, 2]))
    with torch.no_grad():
        condition = model.condition(texts, lengths, *second)
        replay = Replay(model, model.embed(texts), lengths, condition)
        weights = torch.rand(3, 4, 6).softmax(-1)
        with model.looking_with(weights, condition):
            short, whole = replay(), replay._whole()
    assert replay.short and replay.kept is not None
    torch.testing.assert_close(short, whole, atol=1e-5, rtol=1e-5)
    assert float((replay().detach() - whole).abs().max()) > 1e-4


def test_a_choice_is_that_of_the_next_token(opened):
    system = opened("language")
    case = system.case([(TEXT, "is", "are"), ("the keys on the table were", "are", "is")])
    ids = system.tokenizer.theirs([TEXT, "the keys on the table were"], padding=True, return_tensors="pt")
    model = transformers.AutoModelForCausalLM.from_pretrained(system.name).eval()
    with torch.no_grad():
        logits = model(input_ids=ids["input_ids"], attention_mask=ids["attention_mask"]).logits
    last = ids["attention_mask"].sum(-1) - 1
    words = system.tokenizer.theirs.convert_tokens_to_ids(["is", "are"])
    want = logits[torch.arange(2), last][:, words].double().softmax(-1)
    torch.testing.assert_close(case.probabilities[0], want[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(case.probabilities[1], want[1].flip(0), atol=1e-5, rtol=0)
    best = system.case([TEXT])
    assert float(best.probabilities[0, 0]) == pytest.approx(
        float(logits[0, last[0]].double().softmax(-1).max()), abs=1e-5
    )


@pytest.mark.parametrize(
    "method", [m for m in regard.explanations.METHODS if m not in ("integrated_gradients",)]
)
@pytest.mark.parametrize("kind", ["classifier", "language"])
def test_every_explanation(kind, method, opened):
    system = opened(kind)
    target = {"classifier": "good", "language": "is"}[kind]
    found = regard.explain(system.model.theirs, system.tokenizer.theirs, TEXT, method=method, target=target)
    assert found.words == TEXT.split() and len(found.scores) == 5
    assert any(found.scores)


@pytest.mark.parametrize("special", [None, "[BOS] $A"])
def test_integrated_gradients_of_a_decoder_begin_at_the_mean_vector_behind_its_sink(special, tmp_path):
    """The sink is the token that begins a text, or else the first of the text, which keeps its vector."""
    from regard.bridges.huggingface.opening import system_of

    pytest.importorskip("captum", reason="the extra explain is not installed")
    model = tiny("llama")
    system = system_of(model, tokenizer(special))
    found = regard.explain(
        model, system.tokenizer.theirs, TEXT, method="integrated_gradients", target="is", against="are"
    )
    ends = system.model.embed(torch.tensor([system.tokenizer.encode(TEXT)]))
    start = model.get_input_embeddings().weight.mean(0).expand_as(ends).clone()
    if special is None:
        start[:, 0] = ends[:, 0]
    case = system.case([(TEXT, "is", "are")])
    asked = case.subject(case.texts, torch.arange(1))
    with torch.no_grad():
        torch.testing.assert_close(system.model.path_start(ends), start, atol=1e-6, rtol=0)
        one, other = (asked.value(asked.outputs(v), torch.zeros(1).long()) for v in (ends, start))
    assert sum(found.scores) == pytest.approx(float(one - other), rel=0.02)
    assert (found.scores[0] == 0) == (special is None) and any(found.scores)


def test_integrated_gradients_of_an_encoder_begin_at_vectors_of_zero(opened):
    for case in (opened("classifier").case([TEXT]), opened("stacked").case([TEXT])):
        model = case.subject(case.texts, torch.arange(1)).model
        assert not model.path_start(torch.ones(1, 3, 16)).any()


def test_rollout_of_a_language_model_reads_the_last_position(opened):
    system = opened("language")
    found = regard.explain(
        system.model.theirs, system.tokenizer.theirs, TEXT, method="attention", target="is"
    )
    answer = system.answer([TEXT], tokens=1)[0]
    want = system.weights(answer)[-1][:, 0].mean(0)
    torch.testing.assert_close(torch.tensor(found.scores), want, atol=1e-5, rtol=1e-5)


def test_the_first_token_is_said_first_and_can_be_left_out(opened):
    system = opened("language")
    texts = [TEXT, "the keys on the table"]
    share, weights = system.sink(texts), []
    for text in texts:
        layers, _ = system.self_weights(system.answer([text], tokens=1)[0])
        weights += [layer[:, 1:, 0].flatten() for layer in layers]
    assert share == pytest.approx(float(torch.cat(weights).mean()), abs=1e-5)
    assert system.case([(text, "is", "are") for text in texts]).preamble.startswith(
        f"{share:.1%} of the weight"
    )
    found = inspect(system, TEXT)
    (matrix,) = draw(found, sink=False).matrices
    torch.testing.assert_close(torch.as_tensor(matrix.weights).sum(-1), torch.ones(len(found.rows)))
    shown, _ = regard.inspection.pictures.picture_data(found, {"sink": "left out", "layer": 1, "head": None})
    assert "left out" in shown["matrices"][-1]["caption"]
    with pytest.raises(ValueError, match="no sink to leave out"):
        draw(inspect(opened("classifier"), TEXT), sink=False)


@pytest.mark.parametrize(("kind", "step"), [("stacked", 0), ("stacked", 2), ("bart", 0)])
def test_a_step_of_what_is_written(kind, step, opened):
    system = opened(kind)
    texts = [TEXT, "the film was very good and witty"]
    case = system.case(texts, step=step)
    for i, answer in enumerate(system.answer(texts, tokens=step + 1)):
        torch.testing.assert_close(
            float(case.probabilities[i, 0].log()), answer.log_probs[step], atol=1e-4, rtol=1e-4
        )
        want = system.weights(answer)[-1][:, step].mean(0)
        torch.testing.assert_close(case.shown[i].float(), want / want.sum(), atol=1e-4, rtol=1e-4)
    (batch,) = case.batches
    torch.testing.assert_close(batch.intervene(batch.weights), batch.probabilities, atol=1e-5, rtol=0)
    assert (
        float((batch.intervene(batch.weights.roll(1, -1)).detach() - batch.probabilities).abs().max()) > 1e-6
    )
    for method in ("rollout", "norms", "gradient", "leave_one_out"):
        found = regard.explanations.explain_texts(system, texts, method=method, asked={"step": step})
        assert [len(one.scores) for one in found] == [5, 7]


def test_a_target_against_another(opened):
    system = opened("language")
    pair = (system.model.theirs, system.tokenizer.theirs, TEXT)
    one = regard.explain(*pair, method="leave_one_out", target="is", against="are")
    other = regard.explain(*pair, method="leave_one_out", target="are", against="is")
    torch.testing.assert_close(torch.tensor(one.scores), -torch.tensor(other.scores), atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="nothing to choose"):
        regard.explain(*pair, target="is", against="is")
    with pytest.raises(ValueError, match="give target="):
        regard.explain(*pair, against="is")


def test_a_target_that_the_tokenizer_does_not_know_is_refused(opened):
    system = opened("language")
    for given in (("zebra", "is"), ("is", "zebra"), ("zebra", None)):
        with pytest.raises(ValueError, match="'zebra' is unknown to the tokenizer"):
            system.case([TEXT], target=given[0], against=given[1])
    assert len(system.case([TEXT], target="[UNK]", against="is")) == 1


@pytest.mark.parametrize("kind", ["language", "stacked"])
def test_a_second_text_is_refused(kind, opened):
    with pytest.raises(ValueError, match="reads one text at a time"):
        opened(kind).case([(TEXT, "a second one")])


@pytest.mark.parametrize("method", ["leave_one_out", "gradient_x_input"])
def test_without_a_target_the_likeliest_token_is_explained_however_unlikely(method, opened):
    """Not that it is another one, which is likelier still."""
    system = opened("language")
    pair = (system.model.theirs, system.tokenizer.theirs, TEXT)
    (answer,) = system.answer([TEXT], tokens=1)
    (best,) = system.tokenizer.pieces(answer.written)
    found = regard.explain(*pair, method=method)
    assert found.label == best and found.probability < 0.5
    assert found.probability == pytest.approx(float(torch.tensor(answer.log_prob).exp()), abs=1e-5)
    asked = regard.explain(*pair, method=method, target=best)
    assert found.scores == pytest.approx(asked.scores, abs=1e-5) and any(found.scores)
    assert word_scores(inspect(system, TEXT), method).tolist() == pytest.approx(found.scores, abs=1e-5)
    (one, other) = regard.explanations.explain_texts(system, [TEXT, "very good"], method=method)
    assert one.scores == pytest.approx(found.scores, abs=1e-4) and "another" not in one.label + other.label


def test_the_token_that_is_written_is_explained_however_unlikely(opened):
    system = opened("stacked")
    for step in (0, 1):
        (answer,) = system.answer([TEXT], tokens=step + 1)
        (found,) = regard.explanations.explain_texts(
            system, [TEXT], method="leave_one_out", asked={"step": step}
        )
        assert found.label == system.tokenizer.pieces(answer.written)[step]
        assert found.probability == pytest.approx(float(torch.tensor(answer.log_probs[step]).exp()), abs=1e-4)
        case = system.case([TEXT], step=step)
        without = TEXT.split()[1:]
        other = case.predict([system.tokenizer.encode(" ".join(without))], torch.tensor([0]))
        fall = case.probabilities[0, 0].logit() - other[0, 0].logit()
        assert found.scores[0] == pytest.approx(float(fall), abs=1e-4)


@pytest.mark.parametrize("kind", ["language", "stacked"])
def test_a_text_is_not_a_list_of_texts(kind, opened):
    for wrong in (TEXT, []):
        with pytest.raises(ValueError, match="a list of at least one"):
            opened(kind).case(wrong)


def test_a_token_that_the_tokenizer_does_not_have_is_a_number(opened):
    tokenizer = opened("language").tokenizer
    assert tokenizer.pieces([4, len(tokenizer) + 7]) == ["a", f"[{len(tokenizer) + 7}]"]


def test_an_audit_of_an_encoder_names_the_model_that_was_given(opened, tmp_path):
    path = opened("encoder").name
    found = CliRunner().invoke(app, ["audit", f"hf:{path}", "--data", str(tmp_path / "no.tsv")])
    assert found.exit_code == 2 and "runs/" not in found.output
    assert "is a text encoder: it decides nothing" in " ".join(found.output.split())


def test_an_audit(opened):
    system = opened("classifier")
    texts = [
        f"{a} was {b} {c}"
        for a in ("the film", "it")
        for b in ("good", "bad", "dull")
        for c in ("", "and witty")
    ]
    report = regard.audit(system.model.theirs, system.tokenizer.theirs, texts, labels=[0, 1] * 6, quick=True)
    made = [name for name, one in report.tests.items() if one.value is not None]
    assert {"removal", "permutation", "gradient_correlation"} & set(made), report.tests
    assert report.answer


def test_heads_and_states(opened, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("the key to the cabinet is on the table\nthe film was very good\n")
    for kind in ("encoder", "language"):
        name = opened(kind).name
        found = CliRunner().invoke(app, ["heads", f"hf:{name}", "--source", str(file), "--json"])
        assert found.exit_code == 0, found.output
        assert len(found.stdout.splitlines()) == 8


@pytest.mark.parametrize("kind", ["encoder", "classifier", "language"])
def test_states_are_those_of_the_layers(kind, opened):
    system = opened(kind)
    written = [TEXT, "the film was very good and witty"]
    texts = tokenize(system.tokenizer, written)
    found = dict(states_of(system, texts))
    for i, text in enumerate(written):
        given = system.tokenizer.theirs(text, return_tensors="pt")
        with torch.no_grad():
            want = system.model.theirs(input_ids=given["input_ids"], output_hidden_states=True).hidden_states
        first, n = system.ahead, len(texts[i].tokens)
        assert found[i].shape == (3, n, 16)
        for layer in (0, 1, 2) if kind != "language" else (0, 1):  # transformers norms the last of a decoder
            torch.testing.assert_close(
                found[i][layer], want[layer][0, first : first + n], atol=1e-4, rtol=1e-4
            )


@pytest.mark.parametrize("kind", ["classifier", "language", "stacked"])
def test_the_page(kind, opened):
    pytest.importorskip("fastapi")
    from regard.serve import ServedRun

    run = ServedRun("model", opened(kind))
    facts = run.facts()
    assert facts["changes"] == ["mask", "delete"] and json.dumps(facts)
    whole, masked = run.answers([{"text": TEXT}, {"text": TEXT, "words": [1], "how": "mask"}])
    assert json.dumps(whole) and json.dumps(masked)
    names = [control["name"] for control in facts["controls"]]
    assert ("sink" in names) == (kind == "language") and ("method" in names) == (kind != "encoder")


def test_commands(opened, tmp_path):
    language, classifier = opened("language").name, opened("classifier").name
    out = tmp_path / "weights.html"
    found = CliRunner().invoke(app, ["view", f"hf:{language}", "--text", TEXT, "--out", str(out)])
    assert found.exit_code == 0 and out.exists(), found.output
    command = ["explain", f"hf:{language}", "--text", TEXT, "--target", "is", "--against", "are", "--json"]
    found = CliRunner().invoke(app, command)
    assert json.loads(found.stdout)["words"] == TEXT.split(), found.output
    found = CliRunner().invoke(app, ["explain", f"hf:{classifier}", "--text", TEXT, "--method", "rollout"])
    assert found.exit_code == 0, found.output
    found = CliRunner().invoke(app, ["view", "hf:nowhere/at-all", "--text", "a", "--out", str(out)])
    assert found.exit_code == 2 and "no model of that name" in found.output


@pytest.mark.parametrize("kind", ["encoder", "language", "stacked"])
def test_checked_by_command(kind, opened):
    found = CliRunner().invoke(app, ["check", f"hf:{opened(kind).name}", "--json", "--tokens", "3"])
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert found.exit_code == 0, found.output
    assert all(line["difference"] is not None for line in lines) and len(lines) >= 3
    found = CliRunner().invoke(app, ["check", str(opened(kind).name)])
    assert found.exit_code == 2 and "hf:PATH is needed" in found.output


def test_a_model_that_differs_is_found(opened, monkeypatch):
    """And the command says so, and exits with 1."""
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    from regard.bridges.huggingface.checking import check_model

    model = transformers.AutoModelForCausalLM.from_pretrained(opened("language").name).eval()
    mapping = AttentionMaskInterface._global_mapping
    monkeypatch.setitem(mapping, "regard", lambda **named: sdpa_mask(**{**named, "attention_mask": None}))
    wrong = [one.what for one in check_model(model, tokens=2) if not one.holds]
    assert "padded left" in wrong and "padding is not seen" in wrong
    found = CliRunner().invoke(app, ["check", f"hf:{opened('language').name}", "--tokens", "1"])
    assert found.exit_code == 1 and "differ: " in found.output


def small(kind, **changes):
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForSequenceClassification")(
        getattr(transformers, f"{kind}Config")(**{**TEXT_CONFIG, **changes})
    ).eval()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_labels": 1}, "one number"),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "any number of labels"),
    ],
)
def test_a_classifier_without_several_classes_is_shown_and_not_explained(changes, says, opened, tmp_path):
    small("Bert", **changes).save_pretrained(tmp_path / "model")
    opened("classifier").tokenizer.theirs.save_pretrained(tmp_path / "model")
    path = f"hf:{tmp_path / 'model'}"
    for command in (["explain", path, "--text", TEXT], ["audit", path, "--data", str(tmp_path / "no.tsv")]):
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 2 and says in " ".join(found.output.split()), found.output
    assert inspect(regard.load(path), TEXT).source == TEXT.split()


def test_a_classifier_that_reads_several_positions_is_not_explained_by_one(opened):
    from regard.bridges.huggingface.opening import system_of

    words = opened("classifier").tokenizer.theirs
    more = {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 4}
    system = system_of(small("ModernBert", classifier_pooling="mean", **more), words)
    with pytest.raises(RunError, match="decides by several positions"):
        system.case([TEXT])
    first = system_of(small("ModernBert", classifier_pooling="cls", **more), words)
    assert not first.model.reads_elsewhere() and first.case([TEXT]).shown[0].sum() > 0
    for name in ("Llama", "GPT2"):
        theirs = small(name, **({"num_key_value_heads": 2} if name == "Llama" else {}))
        assert not system_of(theirs, words).model.reads_elsewhere()


def test_a_decoder_without_a_head_looks_from_its_last_token(opened):
    """From its first there is nothing to see."""
    from regard.bridges.huggingface.opening import system_of

    theirs = tiny("llama").model
    system = system_of(theirs, opened("language").tokenizer.theirs)
    with regard.record(theirs, "layers.1.*") as seen, torch.no_grad():
        ids = torch.tensor([system.model.before.tolist() + system.tokenizer.encode(TEXT)])
        states = theirs(input_ids=ids).last_hidden_state
    want = seen["layers.1.self_attn"][0].weights[0, :, -1, 1:]
    (found,) = system.weights(system.answer([TEXT])[0])
    torch.testing.assert_close(found[:, 0], want, atol=1e-5, rtol=1e-5)
    tokens, lengths = ids[:, 1:], torch.tensor([ids.shape[1] - 1])
    with torch.no_grad():
        torch.testing.assert_close(system.model(tokens, lengths)[0], states[0, -1], atol=1e-5, rtol=1e-5)


def test_models_whose_attentions_cannot_be_told_are_refused_by_name(opened):
    """Never explained wrongly: no interface, one attention for all layers, a head that would be lost."""
    from regard.bridges.huggingface.opening import system_of

    words = opened("classifier").tokenizer.theirs
    with pytest.raises(RunError, match="DebertaV2ForSequenceClassification does not call its attention"):
        system_of(small("DebertaV2"), words)
    with pytest.raises(RunError, match=r"calls albert\.encoder.* for several layers"):
        system_of(small("Albert", embedding_size=16), words)
    bart = transformers.BartForSequenceClassification(transformers.BartConfig(**STACKS))
    with pytest.raises(RunError, match="BartForSequenceClassification is an encoder–decoder that"):
        system_of(bart, words)


def test_the_head_of_an_encoder_decoder_that_classifies_is_not_lost(tmp_path):
    from regard.bridges.huggingface.opening import load_model

    transformers.BartForSequenceClassification(transformers.BartConfig(**STACKS)).save_pretrained(tmp_path)
    assert type(load_model(tmp_path)) is transformers.BartForSequenceClassification


def test_a_decoder_that_classifies_is_checked():
    """Where its text ends it sees by the number of the padding, which is no leak of the attention."""
    from regard.bridges.huggingface.checking import check_model

    for name, more in (("Llama", {}), ("Gemma2", {"sliding_window": 4})):  # a window full of padding
        model = small(name, num_key_value_heads=2, **more)
        found = {one.what: one.holds for one in check_model(model, tokens=2)}
        assert found == {"one pass": True, "padded right": True, "padding is not seen": True}


def test_a_cache_that_a_model_cannot_have_is_said(monkeypatch):
    from regard.bridges.huggingface import checking

    def refused(self, **options):
        if options.get("cache_implementation") == "quantized":
            raise ValueError("only supported for models with only full attention layers")
        return 0.0

    monkeypatch.setattr(checking, "is_optimum_quanto_available", lambda: True)
    monkeypatch.setattr(checking.Both, "written", refused)
    *_, last = checking.check_model(tiny("mistral"), tokens=2)
    assert (last.what, last.difference, last.holds) == ("2 tokens, quantised cache", None, True)
    assert "only full attention" in last.note


def test_claims_are_asked_of_a_classifier_from_elsewhere(tmp_path):
    data = tmp_path / "texts.tsv"
    rows = [
        f"the {w} film is {v}\t{label}"
        for w in WORDS[22:36]
        for v, label in (("dull", "bad"), ("witty", "good"))
    ]
    data.write_text("\n".join(rows * 2) + "\n")
    given = ["--model", f"hf:{folder('classifier', tmp_path)}", "--data", str(data), "--quick"]
    found = CliRunner().invoke(app, ["claims", "run", "C65", "C69", *given])
    assert found.exit_code == 0 and "C69: it runs, 4 figures" in found.output, found.output
    found = CliRunner().invoke(app, ["claims", "run", "C71", *given])
    assert found.exit_code == 2 and "was trained elsewhere" in found.output
    given[1] = f"hf:{folder('language', tmp_path)}"
    found = CliRunner().invoke(app, ["claims", "run", "C69", *given])
    assert found.exit_code == 2 and "is no classifier" in found.output


def test_every_attention_of_an_encoder_decoder_is_shown(opened, tmp_path):
    system = opened("stacked")
    found = inspect(system, TEXT)
    tables = {name: {c.name: c for c in controls(opened(name))} for name in ("stacked", "classifier")}
    assert [value for value, _ in tables["stacked"]["attention"].options] == ["cross", "encoder", "decoder"]
    for name, rows, columns in (
        ("cross", found.rows, found.source),
        ("encoder", found.source, found.source),
        ("decoder", found.rows, ["(first)", *found.rows]),
    ):
        options = resolve_options(controls(system), {"attention": name})
        data, complete = picture_data(found, options)
        assert complete and (data["target"], data["source"]) == (rows, columns)
        assert len(data["matrices"]) == 2 * (4 + 1) and data["matrices"][0]["options"]["attention"] == name
    for weights in system.answer_weights(found.answer):  # no token of the answer sees itself or what follows
        assert bool((weights.triu(1) == 0).all())
    for weights in showing(found, "decoder").weights:
        torch.testing.assert_close(weights.sum(-1), torch.ones(4, len(rows)))
    (answer,) = ServedRun("marian", system).answers([{"text": TEXT, "options": {"attention": "decoder"}}])
    assert (
        answer["columns"] == []
        and "among the words of the answer" in answer["view"]["matrices"][0]["caption"]
    )
    out = tmp_path / "heads.html"
    command = ["view", f"hf:{system.name}", "--text", TEXT, "--attention", "encoder", "--kind", "heads"]
    said = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert said.exit_code == 0 and "2 layers of 4 heads" in out.read_text(encoding="utf-8"), said.output
    said = CliRunner().invoke(app, [*command[:5], "nothing", "--out", str(tmp_path / "no.html")])
    assert said.exit_code == 2 and "Known: cross, encoder, decoder" in said.output


def test_layers_of_a_classifier_are_shown(opened):
    system = opened("classifier")
    found = inspect(system, TEXT)
    known = {control.name: control for control in controls(system)}
    assert len(known["layer"].options) == 2 and known["layer"].when["attention"] == ["text"]
    options = resolve_options(controls(system), {"attention": "text", "layer": 0, "head": 1})
    data, _ = picture_data(found, options)
    assert data["kind"] == "heat_map" and data["target"] == data["source"] == found.source
    assert any(one["options"] == options for one in data["matrices"])
    usual, _ = picture_data(found, resolve_options(controls(system), {"head": 1}))
    assert usual["kind"] == "words" and any(one["options"]["head"] == 1 for one in usual["matrices"])


def test_a_token_that_an_encoder_decoder_writes_is_audited(opened, tmp_path):
    system, file = opened("stacked"), tmp_path / "texts.txt"
    file.write_text(f"{TEXT}\n\nthe plot is dull\n")
    case, what = system.audited(system.task.Audit(data=str(file), step=1))
    assert len(case) == 2 and case.probabilities.shape == (2, 2) and "the plot is dull" in what
    assert case.batches[0].with_weights is not None
    found = CliRunner().invoke(app, ["audit", f"hf:{system.name}", "--quick"])
    assert found.exit_code == 2 and "one per line" in found.output
