"""The experiments in examples/ run from end to end, on very little."""

import importlib.util
import io
import json
import re
import runpy
import sys
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path

import pytest

from regard.data import LABELLED

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        patch.syspath_prepend(EXAMPLES)
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return said.getvalue()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("texts"), {}
    for split, count in (("train", 120), ("valid", 20), ("test", 20)):
        texts = list(islice(LABELLED["sentiment"](seed=1, split=split), count))
        found[split] = folder / f"{split}.tsv"
        found[split].write_text("".join(f"{one.text}\t{one.label}\n" for one in texts), encoding="utf-8")
        by_label = folder / f"{split}.txt"
        by_label.write_text("".join(f"{one.label}\t{one.text}\n" for one in texts), encoding="utf-8")
        marks = (" ".join(str(int(mark)) for mark in one.highlighted) for one in texts)
        Path(f"{by_label}.block").write_text("".join(f"{row}\n" for row in marks), encoding="utf-8")
    return found


def test_remedies_are_audited_and_what_is_known_is_not_trained_again(files, tmp_path):
    out = tmp_path / "remedies.json"
    given = [*(part for split in files for part in (f"--{split}", files[split])), "--seeds", 1, "--steps", 2]
    first = run("audit_of_remedies.py", *given, "--name", "few", "--out", out, "--only", "softmax", "tied")
    assert "| few | softmax |" in first and "| few | tied |" in first
    found = json.loads(out.read_text(encoding="utf-8"))
    assert set(found["few"]) == {"softmax", "tied"}
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    again = run("audit_of_remedies.py", *given, "--name", "few", "--out", out, "--only", "softmax")
    assert again.startswith("| data |")


def marks(*texts):
    return ["--words", *(f"{file}.block" for file in texts)]


@pytest.mark.parametrize("blocks", [True, False])
def test_deception_is_measured(files, blocks, tmp_path):
    train, test = (files[split].with_suffix(".txt") for split in ("train", "test"))
    (tmp_path / "words").write_text("great\nawful\n")
    forbid = marks(train, test) if blocks else ["--words", tmp_path / "words"]
    lines = run("deceive.py", "--train", train, "--test", test, *forbid, "--steps", 3).splitlines()
    assert len(lines) == 4
    assert all(0 <= float(line.split()[-2]) <= 1 for line in lines[1:])


def test_the_price_of_deceiving_is_chosen_on_other_texts(files):
    train, valid, test = (files[split].with_suffix(".txt") for split in files)
    given = ["--train", train, "--valid", valid, "--test", test, *marks(train, test, valid), "--steps", 3]
    lines = run("deceive.py", *given, "--penalty", 0.5, 50).splitlines()
    tried = {line.split()[3].rstrip(","): line.split()[-2:] for line in lines[2:4]}  # λ: accuracy, weight
    chosen = lines[4].split()[4]
    assert "deceiving" in lines[4] and set(tried) == {"0.5", "50"}
    shares = {price: [float(cell) for cell in cells] for price, cells in tried.items()}
    hiding = [price for price in shares if shares[price][1] < 0.01]
    if hiding:
        assert chosen in hiding and shares[chosen][0] == max(shares[price][0] for price in hiding)
    else:
        assert shares[chosen][1] == min(weight for _, weight in shares.values())


def test_those_that_hide_come_before_those_that_are_accurate():
    spec = importlib.util.spec_from_file_location("deceive", EXAMPLES / "deceive.py")
    deceive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(deceive)
    found = [(0.9, 0.5), (0.7, 0.2), (0.6, 0.009), (0.8, 0.002)]  # accuracy, weight
    assert sorted(found, key=lambda pair: deceive.rank(*pair)) == found


def test_highlights_of_people_are_compared_and_no_text_is_printed(tmp_path):
    """Posts of two sentences, of which one has a marked word."""
    for name, count in (("train", 60), ("test", 12)):
        rows = ["spans,text"]
        for i in range(count):
            text = f"You are a fool{i % 3}! The road goes on to town{i % 5}."
            marked = list(range(text.index("fool"), text.index("!")))
            rows.append(f'"{marked}","{text}"')
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    out = tmp_path / "found.json"
    given = ["--train", tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--out", out]
    said = run("human_highlights.py", *given, "--seeds", 1, "--steps", 30)
    assert "fool" not in said and "road" not in said
    found = json.loads(out.read_text(encoding="utf-8"))
    assert len(found) == 4
    for by_seed in found.values():
        row = by_seed["0"]
        assert row["sentences"] == 12 and row["usual class"] == 0.5 and row["F1 at random"] == 0.25
        assert all(0 <= row[f"AUC of {what}"] <= 1 for what in ("attention", "leaving out"))
    assert found["MLP"]["0"]["accuracy"] == 1


def test_agreement_says_which_methods_find_the_subject(tmp_path):
    """One sentence with each number: whatever an untrained model prefers, it is right once."""
    pytest.importorskip("transformers")
    from bridges.tiny_folders import folder

    texts = [
        "the keys to the cabinet are",
        "the key to two keys is",
        "the key to two keys is",
        "the film was dull",
    ]
    (tmp_path / "linzen.text").write_text("".join(f"{text} here <eos>\n" for text in texts))
    (tmp_path / "linzen.gold").write_text("5\tare\tis\t1\n5\tis\tare\t1\n5\tis\tare\t2\n2\twas\twere\t0\n")
    rows = [("key", "Sing"), ("cabinet", "Sing"), ("keys", "Plur"), ("film", "Sing")]
    lines = "".join(f"1\t{word}\t_\tNOUN\t_\tNumber={number}\t_\t_\t_\t_\n" for word, number in rows)
    (tmp_path / "nouns.conllu").write_text(lines)
    out, some = tmp_path / "table.md", ["attention", "leave_one_out", "integrated_gradients"]
    given = ["--data", tmp_path, "--nouns", tmp_path / "nouns.conllu", "--out", out, "--only", *some]
    run("agreement.py", f"hf:{folder('language', tmp_path)}", *given, "--steps", 200)
    said = out.read_text(encoding="utf-8")
    assert "of 2 usable sentences" in said and "of the weight" in said
    off = re.search(r"Integrated gradients: 200 steps; their sums are off by (\d+\.\d)% \(median\)", said)
    assert float(off[1]) < 1
    cell = r"[01]\.\d\d \([01]\.\d\d–[01]\.\d\d\)"
    for name in some:
        assert re.search(rf"\| {name} \| {cell} \| {cell} \| {cell} \|", said)
    assert re.search(r"\(the first noun\) \| 1\.00 .* \| 1\.00 .* \| 1\.00 \(", said)
    assert re.search(r"\(the last noun\) \| 0\.00 .* \| 0\.00 .* \| 0\.00 \(", said)
    assert re.search(r"\(a word at random\) \| 0\.20 .* \| 0\.25 .* \| 0\.50 \(", said)


def test_receptive_fields_are_audited_and_what_is_known_is_not_trained_again(tmp_path):
    out = tmp_path / "receptive.json"
    given = ["--out", out, "--seeds", 0, "--steps", 2, "--pictures", 130, "--audited", 10]
    first = run("audit_receptive_field.py", *given, "--only", "17")
    assert "| 17 |" in first and "comprehensiveness" in first
    found = json.loads(out.read_text(encoding="utf-8"))["17"]["0"]
    assert found["accuracy"] is not None and found["permutation"] is not None
    assert run("audit_receptive_field.py", *given, "--only", "17").startswith("| pixels a cell sees |")


def test_the_review_of_the_lecture_has_two_weights_and_one_prediction(files, tmp_path):
    data = tmp_path / "reviews.tsv"
    data.write_text("text\tlabel\n" + files["train"].read_text(encoding="utf-8"), encoding="utf-8")
    out = tmp_path / "pair.html"
    said = run("review_of_the_lecture.py", "--data", data, "--steps", 3, "--out", out)
    assert said.count("p(") == 2 and "waste" in out.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        run("review_of_the_lecture.py", "--data", tmp_path / "nowhere.tsv")


def test_longer_texts_than_in_training_are_asked_of_every_task(tmp_path):
    run("longer_than_trained.py", "--steps", "2", "--texts", "4", "--out", str(tmp_path / "table.md"))
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        [f"| {task}", kind] for task in ("copy", "reverse", "recall") for kind in ("softmax", "asentmax")
    ]
