"""Commands on data as people have it: columns, names of labels, marked words, long lines, messages."""

import json
import time

import pytest
import torch

import regard
from commands import answer, complaint, run
from regard.cli import common
from regard.cli.explain import AGAINST, _cell
from regard.cli.train import Watching
from regard.data.labelled import Labelled
from regard.tasks.classifier import Classifier
from regard.training import StepReport

TINY = ["--steps", "2", "--device", "cpu", "--set", "model.width=8", "--set", "model.embedding=8"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data with space")
    rows = [f'{i},"a {"good" if i % 2 else "bad"}, film\n{i % 7}",{i % 2}' for i in range(60)]
    (folder / "a.csv").write_text("id,review,stars\n" + "\n".join(rows) + "\n")
    (folder / "words").write_text("Good\nbad\n")
    (folder / "marks").write_text("0 1 0 0\n" * 60)
    return folder


@pytest.fixture(scope="module")
def trained(data):
    """A run on a CSV with names of its own, whose attention is penalized on marked words."""
    more = ["--text", "review", "--label", "stars", "--label-names", "0=negative,1=positive"]
    more += ["--deceive", data / "marks", "--out", data / "run"]
    said = answer("train", "classification", "--data", data / "a.csv", *more, *TINY)
    assert f"regard classify '{data / 'run'}' < in.txt" in said  # can be pasted
    return data / "run"


def test_names_of_columns_and_labels_are_those_of_the_run(trained, data):
    assert answer("classify", trained, given="a good film\n").strip() in ("negative", "positive")
    shown = answer("evaluate", trained, "--data", data / "a.csv")
    assert "negative" in shown and "positive" in shown
    other = answer("evaluate", trained, "--data", data / "a.csv", "--label-names", "0=dull,1=fine", "--json")
    assert set(json.loads(other)["by_class"]) == {"dull", "fine"}
    assert 'must have "x"' in complaint("evaluate", trained, "--data", data / "a.csv", "--text", "x")
    found = json.loads(answer("explain", trained, "--text", "a good film", "--label", "positive", "--json"))
    assert found["label"] in ("negative", "positive")
    line = complaint("evaluate", trained, "--data", data / "a.csv", "--label-names", "0=a")
    assert "the label '1' has no name" in line
    (data / "bad.csv").write_text('review,stars\n"a\nb",1\nc,7\n')
    assert "bad.csv, line 4: the label '7'" in complaint("evaluate", trained, "--data", data / "bad.csv")


def test_a_file_in_the_place_of_a_text_is_not_classified_by_its_name(trained, data):
    assert "give it as standard input" in complaint("classify", trained, data / "a.csv")
    assert answer("classify", trained, "a good film").strip() in ("negative", "positive")


def test_the_weight_on_words_and_the_accuracy_without_them(trained, data):
    by = {}
    for name in ("words", "marks"):
        by[name] = json.loads(
            answer("evaluate", trained, "--data", data / "a.csv", "--words", data / name, "--json")
        )
    system: Classifier = regard.load(trained)
    texts = [f"a {'good' if i % 2 else 'bad'}, film\n{i % 7}" for i in range(60)]
    weights = [float(one.weights.mean(0)[1]) for one in system.classify(texts)]
    assert by["marks"]["weight_on_words"] == pytest.approx(sum(weights) / 60, abs=1e-6)
    without = system.score([Labelled(f"a film\n{i % 7}", str(i % 2)) for i in range(60)])
    assert by["marks"]["accuracy_without_words"] == without["accuracy"]
    assert by["marks"]["texts_with_words"] == 60
    assert by["words"]["texts_with_words"] == 0  # "good," is no "good": a word is what white space separates
    assert by["words"]["weight_on_words"] == 0 and by["words"]["weight_on_words_where_present"] is None
    one = system.on_words([Labelled("good", "1", marked=((0, 4),)), Labelled("bad film", "0")])
    assert one["texts_of_these_words_alone"] == 1 and one["weight_on_words"] == pytest.approx(0.5)
    (data / "short").write_text("0 1 0 0\n")
    line = complaint("evaluate", trained, "--data", data / "a.csv", "--words", data / "short")
    assert "fewer lines than there are texts" in line


def test_marks_become_a_field_and_change_the_loss(trained, data):
    from regard.data import Encoded

    rows = list(Encoded.open(trained / "cache" / "train"))
    assert {tuple(row["forbidden"].tolist()) for row in rows} == {(0, 1, 0, 0)}
    model = regard.load(trained).model
    tokens, lengths, wanted = torch.tensor([[5, 6, 7, 8]]), torch.tensor([4]), torch.tensor([0])
    plain = model.loss(wanted, tokens, lengths)
    marked = model.loss(wanted, tokens, lengths, forbidden=torch.tensor([[False, True, False, False]]))
    with regard.record(model, model.attention_paths["reader"]) as seen:
        model(tokens, lengths)
    weight = model.over_words(seen)[0, 0, 1]
    assert (marked - plain).item() == pytest.approx(-torch.log(1 - weight).item(), abs=1e-5)


def test_a_bad_line_is_named_and_the_others_are_answered(trained):
    for bad, says in ((b"x " * 5_000_000, "more than 65,536 bytes"), (b"\xff", "invalid UTF-8")):
        done = run(
            "classify", trained, "--batch", 1, "--threads", 1, given=b"a good film\n\n" + bad + b"\nlast\n"
        )
        first, empty, wrong, last = done.stdout.splitlines()
        assert done.exit_code == 2 and first and last and not wrong
        assert f"standard input, line 3: {says}" in done.stderr


def test_threads_and_batches_change_no_answer(trained):
    text = "a good film\na bad film 3\na\n"
    one = answer("classify", trained, "--json", given=text)
    threads = torch.get_num_threads()
    try:
        two = answer("classify", trained, "--json", "--batch", 1, "--threads", 1, given=text)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    for a, b in zip(map(json.loads, one.splitlines()), map(json.loads, two.splitlines()), strict=True):
        assert a["label"] == b["label"] and a["probabilities"] == pytest.approx(b["probabilities"], abs=1e-6)
    assert "--batch" in complaint("classify", trained, "--batch", 0, given=text)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--data (a file), or --corpus, must be given"),
        (["--corpus", "sentiment", "--data", "x.tsv"], "--corpus and --data exclude each other"),
        (["--corpus", "sentiment", "--steps", "0"], "--steps must be at least 1; got 0"),
        (["--corpus", "sentiment", "--set", "training.steps=0"], "training.steps must be at least 1; got 0"),
    ],
)
def test_options_are_named_as_they_were_typed(tmp_path, more, says):
    assert says in complaint("train", "classification", *more, "--out", tmp_path / "run")


def test_a_line_is_printed_where_nothing_was_said_for_long(monkeypatch, capsys):
    lines = []
    monkeypatch.setattr("regard.cli.train.remark", lines.append)
    monkeypatch.setattr(Watching, "SILENCE", 0.02)
    with Watching(10) as watching:
        watching.see(StepReport(3, 10, 0.5, 0.1, 100.0, 60.0, None))
        until = time.monotonic() + 10
        while len(lines) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(lines) >= 2 and all("step 3: loss 0.500" in line and "min so far" in line for line in lines)


def test_a_negative_score_looks_negative():
    against, for_ = _cell(-0.5, [1.0, -0.5]).plain, _cell(1.0, [1.0, -0.5]).plain
    assert against == f"{'-0.5':>9} {AGAINST * 6}" and AGAINST not in for_


def test_heads_of_labelled_texts(tmp_path, data):
    more = ["--text", "review", "--label", "stars", "--model", "transformer_encoder", "--steps", "1"]
    sizes = ["embedding=8", "inner=8", "heads=2", "layers=1"]
    more += [part for size in sizes for part in ("--set", f"model.{size}")]
    answer(
        "train",
        "classification",
        "--data",
        data / "a.csv",
        *more,
        "--device",
        "cpu",
        "--out",
        tmp_path / "run",
    )
    found = answer("heads", tmp_path / "run", "--data", data / "a.csv", "--json").splitlines()
    assert [json.loads(line)["head"] for line in found] == [1, 2]
    assert "one of --source, --data and --conllu is needed" in complaint("heads", tmp_path / "run")


def test_where_there_is_no_terminal_progress_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(common, "EVERY", 0.0)
    with common.progress_bar("aligning", 1200) as show:
        show(3)
        show(1100, description="still aligning")
    assert capsys.readouterr().err.splitlines() == ["aligning; 3 of 1,200", "still aligning; 1,100 of 1,200"]
    monkeypatch.setattr(common, "EVERY", 30.0)
    with common.progress_bar("aligning", 1200) as show:
        show(3)
    assert not capsys.readouterr().err
