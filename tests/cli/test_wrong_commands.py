"""Commands that are wrong, over all tasks: one sentence, exit code 2, nothing half made."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from commands import run

COMMAND = [sys.executable, "-c", "from regard.cli import main; main()"]
PAIRS = "--source {pairs} --target {pairs}"

TRAIN = [
    ("translation --source {none} --target {pairs}", "there is no such file"),
    ("translation --source {empty} --target {pairs}", "the file is empty"),
    ("translation --source {folder} --target {pairs}", "this is a folder"),
    ("translation --source {binary} --target {pairs}", "UTF-8"),
    ("translation --source {pipe} --target {pairs}", "this is a pipe"),
    ("translation --source {pairs}", ""),
    (f"translation {PAIRS} --valid-target {{pairs}}", "--valid-source must be given too"),
    ("translation --config {nul}", "NUL"),
    ("translation --config {pipe}", "not a regular file"),
    (f"translation {PAIRS} --map [red]", "[red]"),
    (f"translation {PAIRS} --seed -1", "at least 0"),
    ("alignment --source {pairs} --target {pipe}", "this is a pipe"),
    ("alignment --corpus nope", "nope"),
    ("classification --data {one}", ""),
    ("classification --data {bracket}", "[red]x[/nope].tsv"),
    ("classification --data {unicode}", "ünï—😀.tsv"),
    ("classification --data {labels} --deceive {pipe}", "this is a pipe"),
    ("classification --data {labels} --steps -1", "at least 1"),
    ("language --data {cut}", "gzip"),
    ("language --corpus grammar --seed 99999999999999999999999", "whole number"),
    ("image --images {binary}", ""),
    ("image --images {folder} --size -1", ""),
    ("caption --data {pipe}", "this is a pipe"),
    ("caption --data {empty}", ""),
    ("visual_question --data {pipe}", "this is a pipe"),
    ("visual_question --model nope", "nope"),
    ("answering --data {pipe}", "this is a pipe"),
    ("answering --data {binary}", ""),
    ("algorithm --corpus nope", "nope"),
    ("algorithm --bits 0", ""),
    ("pointing --data {one}", ""),
    ("pointing --shortest -1", ""),
    ("reading --data {deep}", ""),
    ("reading --data {list}", ""),
]
USE = [
    ("evaluate {run:translation} --source {none} --target {pairs}", "there is no such file"),
    ("evaluate {run:translation} --source {pipe} --target {pairs}", "and nothing was written into it"),
    ("evaluate {run:language} --data {pipe}", "and evaluation reads its files more than once"),
    ("evaluate {run:classification} --data {one}", ""),
    ("evaluate {run:algorithm} --sequences -3", ""),
    ("evaluate {run:language} --data {mark}", "there is no text in it"),
    ("evaluate {run:reading} --data {deep}", ""),
    ("answer {run:reading} --passage {folder} --question who", ""),
    ("answer {run:answering} --story {pipe} --question where", "not a regular file"),
    ("answer {run:pointing} --points nan,nan", ""),
    ("answer {run:translation} --question who", "answers no questions"),
    ("generate {run:language} --temperature inf", "1e-6 to 1e6"),
    ("generate {run:language} --top-p 0", "--top-p must be above 0 and at most 1; got 0.0"),
    (
        "translate {run:translation} --beam 100000",
        "regard translate: --beam must be at least 1 and less than 1025",
    ),
    ("translate {run:translation} --alpha nan", "regard translate: --alpha must be at least 0"),
    ("generate {run:translation}", ""),
    ("caption {run:caption} {binary}", ""),
    ("caption {run:caption} {pipe}", "not a regular file"),
    ("classify {run:image} {folder}", ""),
    ("classify {none}", ""),
    ("arena --tasks nope", "nope"),
    ("arena --tasks listops --mechanisms local:window=-1", ""),
    ("arena --tasks listops --data listops={binary}", ""),
    ("bench nope", "nope"),
    ("bench serving --clients 0", "--clients"),
    ("claims show [bold]", "[bold]"),
    ("claims run nope", "nope"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files that are not what a command needs, by name."""
    folder = tmp_path_factory.mktemp("wrong")
    contents = {
        "empty": b"", "binary": bytes(range(256)) * 20, "one": b"just a text\n" * 30, "pairs": b"a b\n" * 30,
        "labels": b"a b\tx\nc d\ty\n" * 30, "deep.json": b"[" * 100_000, "list.json": b"[1, 2, 3]",
        "cut.gz": b"no gzip", "mark": b"\xef\xbb\xbf",
        "nul.toml": b'[data]\nsource = "a\\u0000b"\ntarget = "b"\n',
    }  # fmt: skip
    found = {"folder": folder, "none": folder / "none", "bracket": folder / "[red]x[/nope].tsv"}
    found |= {"unicode": folder / "ünï—😀.tsv", "pipe": folder / "pipe"}
    for name, content in contents.items():
        found[name.partition(".")[0]] = folder / (name if "." in name else f"{name}.tsv")
        found[name.partition(".")[0]].write_bytes(content)
    os.mkfifo(found["pipe"])
    return found


@contextmanager
def at_most(seconds):
    """Fail where nothing happens for so long: a pipe that has no writer waits for ever."""

    def late(*_):
        raise AssertionError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused(arguments, says):
    with at_most(300):
        done = run(*arguments)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("regard")]
    assert line == done.stderr.splitlines()[-1] and "Traceback" not in done.output and says in line, line
    return line


@pytest.mark.parametrize(("text", "says"), TRAIN)
def test_wrong_training_is_one_sentence_and_leaves_no_folder(files, tmp_path, text, says):
    typed = [word.format(**files) for word in text.split()]
    refused(["train", *typed, "--out", tmp_path / "run"], says)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("text", "says"), USE)
def test_wrong_use_is_one_sentence(files, tiny_run, tmp_path, monkeypatch, text, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.data.text_lines.PATIENCE", 0.01)

    def typed(word):
        if word.startswith("{run:"):
            return tiny_run(word[5:-1]).folder
        return word.format(**files)

    refused(map(typed, text.split()), says)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("out", ["{labels}", "{labels}/x", "/dev/null", "/proc/none/run"])
def test_a_folder_that_cannot_be_made_is_one_sentence(files, out):
    refused(["train", "alignment", "--corpus", "copy", "--out", out.format(**files)], "")


@pytest.mark.parametrize(
    "arguments", [["generate", "run", "--prompt", "\udcff"], ["train", "alignment", "--out", "a\udce9"]]
)
def test_arguments_that_are_no_text_are_one_sentence(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert refused(arguments, "UTF-8").isascii()
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("where", [">/dev/full", "| head -0", ">&-"])
@pytest.mark.parametrize("command", ["settings language", "claims", "train reading --help", "arena --help"])
def test_an_output_that_takes_nothing_is_no_traceback(command, where):
    text = f"{sys.executable} -c '{COMMAND[-1]}' {command} {where}"
    done = subprocess.run(["sh", "-c", text], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 1, done.stderr
