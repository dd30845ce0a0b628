"""The experiments in examples/ run from end to end, on very little."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from regard.data import LABELLED

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


@pytest.mark.parametrize("forbid", [["--blocks"], ["--words", "great", "awful"]])
def test_deception_is_measured(files, forbid):
    train, test = (files[split].with_suffix(".txt") for split in ("train", "test"))
    lines = run("deceive.py", "--train", train, "--test", test, *forbid, "--steps", 3).splitlines()
    assert len(lines) == 4
    assert all(0 <= float(line.split()[-2]) <= 1 for line in lines[1:])
