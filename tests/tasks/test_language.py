"""The language task: what is scored, written, refused, carried over a stop, explained."""

import gzip
import json
import math
from itertools import pairwise

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.core.errors import RunError
from regard.data.corpora import RUNNING
from regard.data.running_text import blocks, count_characters
from regard.data.text import DataError
from regard.data.text_codec import TextCodec
from regard.data.tokenizer import Tokenizer
from regard.runs import fit, resolve
from regard.tasks.language import LanguageAudit
from regard.tasks.language_scores import Windows, nats
from regard.tasks.language_system import OTHERS
from regard.training import Interrupted

TRAINING = {"steps": 8, "tokens": 64, "segment": 16, "validate": 4, "save": 3, "report": 2}
MODELS = {
    "gpt": {"width": 16, "inner": 16, "heads": 2, "layers": 2},
    "transformer_xl": {"width": 16, "inner": 16, "heads": 2, "layers": 1, "memory": 8},
    "recurrent": {"width": 16, "layers": 1},
    "compressive": {
        "width": 16,
        "inner": 16,
        "heads": 2,
        "layers": 1,
        "memory": 8,
        "compressed": 4,
        "rate": 2,
    },
    "adaptive_span": {"width": 16, "inner": 16, "heads": 2, "layers": 1, "most": 16, "ramp": 4},
    "bert": {"embedding": 16, "inner": 16, "heads": 2, "layers": 1},
}


def values(model="gpt", tokens="character", **more):
    data = {"sentences": 60, "tokens": tokens, **more.pop("data", {})}
    return {
        "task": "language",
        "data": data,
        "model": {"name": model, **MODELS[model], **more.pop("model", {})},
        "training": {**TRAINING, **more.pop("training", {})},
        **more,
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(model="gpt", tokens="character", **more):
        key = repr((model, tokens, more))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("runs") / "run"
            fit(resolve(values(model, tokens, **more)), made[key])
        return made[key]

    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="regard", env={"COLUMNS": "200"})


def refused(done):
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("regard")]
    return line


# Text


@pytest.mark.parametrize("kind", ["character", "bpe"])
def test_running_text_comes_back_as_it_was(kind):
    text = "  two  spaces\nthe end: ß\n\n and on"
    codec = TextCodec(Tokenizer.train([text], kind, 300))
    assert codec.decode(codec.encode(text)) == text
    assert codec.decode(codec.encode(" and")) == " and"


def test_words_keep_their_lines():
    codec = TextCodec(Tokenizer.train(["a b\nc d"], "word", 10))
    assert codec.decode(codec.encode("a b\n\nd")) == "a b\n\nd"
    assert codec.unknown("a x b y") == ["x", "y"]


@pytest.mark.parametrize("name", ["plain.txt", "packed.txt.gz"])
def test_a_file_is_read_in_blocks_of_any_size(name, tmp_path):
    text, file = "abc def\n" * 40 + "x" * 100 + "\n", tmp_path / name
    (gzip.open if name.endswith("gz") else open)(file, "wb").write(
        b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    )
    assert count_characters(file) == len(text)
    assert "".join(blocks(file, 30)) == text and max(map(len, blocks(file, 30))) <= 30
    assert "".join(blocks(file, 7, (5, 50))) == text[5:50]
    stretches = [(0, 3), (3, 4), (9, 60), (80, 81)]
    assert "".join(blocks(file, 7, *stretches)) == "".join(text[a:b] for a, b in stretches)


def test_what_is_no_text_is_said(tmp_path):
    for content, said in ((b"", "empty"), (b"ab\xff", "UTF-8"), (b"a\0b", "NUL")):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(DataError, match=said):
            list(blocks(tmp_path / "bad.txt"))
    with pytest.raises(DataError, match="no such file"):
        list(blocks(tmp_path / "none.txt"))


def test_in_the_grammar_verbs_agree_and_brackets_close():
    from regard.data.corpora.agreement import NOUNS
    from regard.data.corpora.grammar import TRANSITIVE, VERBS

    number = {word: k for pair in NOUNS for k, word in enumerate(pair)}
    verbs = {word: k for pair in [*VERBS, *TRANSITIVE] for k, word in enumerate(pair)}
    made = RUNNING["grammar"](3)
    for sentence in (next(made) for _ in range(200)):
        subjects, begins = [], True
        for word in sentence.split():
            if word == "which":
                begins = True
            elif begins and word in number:
                subjects.append(number[word])
                begins = False
            elif word in verbs:
                assert verbs[word] == subjects.pop(), sentence
        assert not subjects and sentence.count("(") == sentence.count(")") and sentence.endswith(".\n")


def test_brackets_close_in_order():
    made = RUNNING["brackets"](3)
    pairs = dict(zip(")]}>", "([{<", strict=True))
    for line in (next(made) for _ in range(50)):
        opened = []
        for one in line.split():
            if one in pairs.values():
                opened.append(one)
            elif one in pairs:
                assert opened.pop() == pairs[one]
        assert not opened


# Scores


@pytest.mark.parametrize("model", ["gpt", "recurrent", "transformer_xl"])
def test_sliding_windows_score_every_token_once_with_the_context_they_say(model, folders):
    system = regard.load(folders(model))
    ids = system.parts.codec.encode(next(RUNNING["grammar"](5)) * 3)[:90]
    found = nats(system.model, ids, Windows(8, 4, 4))
    assert len(found) == len(ids) - 1
    for t in (1, 5, 40, len(ids) - 1):  # the slow way: each window by itself
        start = 1 + (t - 1) // 4 * 4
        first, state, at = max(0, start - 9), None, 0
        read = torch.tensor([ids[first : start + 4]])[:, : t - first]
        while at < read.shape[1]:
            size = 4 if system.model.carries else read.shape[1]
            hidden, state = system.model(read[:, at : at + size], state)
            at += size
        p = system.model.logits(hidden[0, -1]).detach().double().log_softmax(-1)
        assert float(found[t - 1]) == pytest.approx(-float(p[ids[t]]), abs=1e-4)


def test_figures_follow_from_one_another(folders, tmp_path):
    text = next(RUNNING["grammar"](7)) * 4
    (tmp_path / "t.txt").write_text(text)
    done = run("evaluate", folders(), "--data", tmp_path / "t.txt", "--json")
    found = json.loads(done.stdout)
    assert found["tokens"] == found["characters"] == len(text)
    assert found["bits_per_character"] == pytest.approx(found["nats_per_token"] / math.log(2))
    words = len(text.split()) + text.count("\n")
    assert found["perplexity"] == pytest.approx(math.exp(found["nats_per_token"] * len(text) / words))
    assert found["context"] == 12
    assert "from 12 to 16 tokens before it" in run("evaluate", folders(), "--data", tmp_path / "t.txt").stdout
    scores = regard.load(folders()).score([text])
    assert scores["nats_per_token"] == pytest.approx(found["nats_per_token"])


def test_a_file_in_many_blocks_is_scored_as_one_text(folders, monkeypatch):
    from regard.tasks import language_scores

    system, text = regard.load(folders()), "".join(next(RUNNING["grammar"](s)) for s in range(8))
    whole = system.score([text])["nats_per_token"]
    monkeypatch.setattr(language_scores, "POSITIONS", 4)
    cut = [text[at : at + 37] for at in range(0, len(text), 37)]
    found = language_scores.text_quality(system.model, system.parts.codec, cut, Windows.of(system.model, 16))
    assert found.figures["nats_per_token"] == pytest.approx(whole, abs=1e-6)


# Writing


@pytest.mark.parametrize("model", ["gpt", "recurrent", "transformer_xl"])
def test_what_is_written_from_caches_is_what_whole_passes_would_write(model, folders):
    system = regard.load(folders(model))
    prompt = "the key"
    found = system.generate(prompt, steps=8, temperature=0)
    ids = system.parts.codec.encode(prompt)
    for token in found.tokens:
        with torch.no_grad():
            hidden, _ = system.model(torch.tensor([ids]))
        assert token == int(system.allowed(system.model.logits(hidden[0, -1]), unknown=False).argmax())
        ids.append(token)
    assert system.parts.codec.decode(ids) == prompt + found.text and found.log_prob < 0


def test_the_same_seed_writes_the_same_and_the_window_slides(folders):
    system = regard.load(folders())
    heard = []
    one = system.generate("the ", steps=50, seed=4, listen=heard.append)
    assert "".join(heard) == one.text and len(one.tokens) == 50
    assert system.generate("the ", steps=50, seed=4).text == one.text
    assert system.generate("the ", steps=50, seed=5).text != one.text
    assert (
        system.generate("the ", steps=9, top_k=1).text == system.generate("the ", steps=9, temperature=0).text
    )


def test_the_command_streams_text_or_prints_json(folders):
    done = run("generate", folders(), "--prompt", "the key", "--steps", 6)
    assert done.stdout.startswith("the key") and len(done.stdout) == len("the key") + 7
    found = json.loads(run("generate", folders(), "--prompt", "the key", "--steps", 6, "--json").stdout)
    assert "the key" + found["text"] + "\n" == done.stdout and len(found["tokens"]) == 6


def test_a_cache_makes_what_came_before_likelier(folders):
    from regard.decoding.cache_pointer import CachePointer

    system = regard.load(folders())
    plain = system.generate("key key key ", steps=12, temperature=0)
    cached = system.generate("key key key ", steps=12, temperature=0, cache=CachePointer(50, 0.9, 60.0))
    assert cached.text != plain.text and cached.text.startswith("key")
    assert run("generate", folders(), "--prompt", "key ", "--steps", 4, "--cache", 20).exit_code == 0


def test_bad_prompts_are_refused_in_a_sentence(folders):
    assert "'ß' is not among them" in refused(run("generate", folders(), "--prompt", "the ß"))
    assert "does not write" in refused(run("generate", folders("bert")))
    assert "--top-p" in refused(run("generate", folders(), "--top-p", 2))


def test_a_prompt_longer_than_learned_positions_is_refused(tmp_path):
    settings = values(model="gpt")
    settings["model"] |= {"positions": "learned", "longest": 16}
    system = fit(resolve(settings), tmp_path / "run").system
    with pytest.raises(ValueError, match="17 tokens, and the model has learned positions for 16"):
        system.generate("the key to the ke", steps=1)
    assert len(system.generate("the key to the k", steps=20).tokens) == 20


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty"), (b"short\n", "tokens, and at least 17 are needed"), (b"a\xff" * 99, "UTF-8")],
)
def test_bad_files_are_one_line_and_leave_nothing(content, said, tmp_path):
    (tmp_path / "t.txt").write_bytes(content)
    out = tmp_path / "run"
    line = refused(
        run("train", "language", "--data", tmp_path / "t.txt", "--out", out, "--set", "training.segment=16")
    )
    assert said in line and not out.exists()


def test_what_does_not_go_together_is_refused(tmp_path):
    for more, said in (
        (["--objective", "masked", "--model", "gpt"], "sees both sides"),
        (["--corpus", "grammar", "--data", "x.txt"], "exclude"),
        (["--set", "training.tokens=8", "--set", "training.segment=16"], "training.segment"),
        (["--set", "training.examples=8"], "training.examples"),
        (["--set", "model.positions=learned", "--set", "model.longest=4"], "model.longest"),
    ):
        assert said in refused(run("train", "language", "--out", tmp_path / "run", *more))


@pytest.mark.parametrize(("lines", "held_out"), [(100, 1), (1000, 1), (4000, 2), (20_000, 10), (100_000, 10)])
def test_stretches_from_all_over_a_text_are_held_out(lines, held_out, tmp_path):
    text = "".join(f"{i:05d}\n" for i in range(lines))
    (tmp_path / "t.txt").write_text(text)
    settings = resolve(values(data={"train": str(tmp_path / "t.txt"), "sentences": 1}))
    from regard.tasks.language import LANGUAGE

    train, valid = ("".join(text for _, text in LANGUAGE.read(settings, part)) for part in ("train", "valid"))
    assert len(train) + len(valid) == len(text) and len(valid) == min(len(text) // 10, 50_000)
    places = [int(line) for line in valid.split() if len(line) == 5]
    assert sum(after - before > 1 for before, after in pairwise(places)) == held_out - 1
    both = set(places) & {int(line) for line in train.split() if len(line) == 5}
    assert places[-1] == lines - 1 and len(both) <= 2 * held_out  # parts of lines that are cut in two


# Training


@pytest.mark.parametrize("model", ["transformer_xl", "recurrent", "bert"])
def test_a_stopped_run_that_carries_a_state_goes_on_to_the_same_bits(model, folders, tmp_path):
    whole, folder = folders(model), tmp_path / "run"

    def stop(report):
        if report.step >= 4:
            raise Interrupted("here")

    with pytest.raises(Interrupted):
        fit(resolve(values(model)), folder, listen=stop)
    fit(resolve(values(model)), folder, resume=True)
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("tokens", ["bpe", "word"])
def test_other_tokens_train_and_write(tokens, folders):
    system = regard.load(folders("gpt", tokens, data={"vocabulary": 300}))
    assert system.tokenizer.kind == tokens
    assert system.generate("the key", steps=5).text
    assert system.score(["the key opens ."])["tokens"] > 0


def test_an_encoder_of_hidden_tokens_starts_a_classifier(folders, tmp_path):
    system = regard.load(folders("bert"))
    assert system.settings.objective == "masked" and "hidden token" in system.score(["the key opens ."]).line
    done = run(
        "train", "classification", "--corpus", "agreement", "--model", "transformer_encoder",
        "--init", folders("bert"),
        "--out", tmp_path / "run", "--steps", 2, "--set", "data.texts=40", "--set", "data.held_out=8",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "tensors come from" in done.stderr


# Seeing and questioning


def test_the_next_token_has_bars_and_the_text_goes_on(folders):
    system = regard.load(folders())
    (found,) = system.answer(["the key"])
    assert list(found.probabilities)[-1] == OTHERS and sum(found.probabilities.values()) == pytest.approx(1)
    assert found.continued[found.said].startswith("the key")
    p = system.next_probabilities([system.parts.codec.encode("the key")])[0]
    assert math.exp(found.log_prob) == pytest.approx(float(p.max()))


def test_one_continuation_against_another(folders):
    system = regard.load(folders())
    case = system.case([("the key", " is", " are"), ("keys", " is", " are")])
    assert list(case.classes) == [" is", " are"] and case.probabilities.shape == (2, 2)

    def log_p(text, more):
        ids, read = system.parts.codec.encode(text + more), len(system.parts.codec.encode(text))
        return -float(nats(system.model, ids, Windows(99, 99, 99), read).sum())

    wanted = torch.tensor([log_p("the key", " is"), log_p("the key", " are")]).softmax(-1)
    torch.testing.assert_close(case.probabilities[0].float(), wanted, atol=1e-4, rtol=1e-3)
    for method in ("attention", "gradient", "leave_one_out"):
        (row,) = regard.explanations.explain_texts(system, ["the key to"], method=method)
        assert len(row.scores) == 3


def test_weights_of_the_last_token_decide_and_can_be_replaced(folders):
    system = regard.load(folders())
    case = system.case(["the key to", "the"])
    for batch in case.batches:
        torch.testing.assert_close(
            batch.with_weights(batch.weights), batch.probabilities, atol=1e-5, rtol=1e-4
        )
        moved = batch.weights.flip(-1) * batch.real.unsqueeze(1)
        assert batch.with_weights(moved).shape == batch.probabilities.shape


def test_what_has_no_meaning_is_refused(folders):
    for model, said in (("recurrent", "no attention"), ("bert", "no next token")):
        with pytest.raises(RunError, match=said):
            regard.load(folders(model)).case(["the key"])
    with pytest.raises(ValueError, match="at least one token"):
        regard.load(folders()).case([""])


def test_an_audit_asks_for_the_token_at_a_place_of_each_text(folders, tmp_path):
    system = regard.load(folders())
    text = [next(RUNNING["grammar"](s)) for s in range(3)]
    (tmp_path / "t.txt").write_text("".join(text))
    case, content = system.audited(LanguageAudit(data=str(tmp_path / "t.txt")))
    assert len(case) == 3 and content == repr([line.rstrip("\n") for line in text])
    for ids, label, line in zip(case.texts, case.known_labels.tolist(), text, strict=True):
        whole = system.parts.codec.encode(line)
        assert whole[: len(ids) + 1] == [*ids, label] and len(ids) >= len(whole) // 2 - 1
    assert sum(map(len, case.shown)) == sum(map(len, case.texts))


def test_spans_gates_and_memories_have_pictures(folders):
    from regard.tasks.language_views import gates_view, heads_view, memory_view

    spans = heads_view(regard.load(folders("adaptive_span")))
    assert spans.matrices[0].weights.shape == (1, 2) and "tokens" in spans.caption
    gates = gates_view(regard.load(folders("recurrent")), "the key")
    assert [one.name for one in gates.matrices] == ["input", "forget", "output"]
    text = "the old key to the cabinets opens the door"  # 42 characters: segments of 16, 16 and 10
    memory = memory_view(regard.load(folders("compressive")), text)
    assert len(memory.target) == 10 and len(memory.source) == 4 + 8 + 10
    assert list(memory.source[:4]) == ["c1", "c2", "c3", "c4"]
    for view in (heads_view, lambda system: gates_view(system, "a"), lambda system: memory_view(system, "a")):
        with pytest.raises(RunError, match="gpt has no"):
            view(regard.load(folders()))
