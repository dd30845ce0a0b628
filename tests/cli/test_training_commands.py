"""train, translate, evaluate and demo: what a newcomer types, and every wrong way to type it."""

import io
import json
import os
import shlex
import subprocess
import sys

import pytest
from rich.console import Console

from commands import complaint, run
from regard.cli import demo
from regard.cli.app import plain_table
from regard.cli.common import blocks
from regard.core.settings import read_toml
from regard.data.text import DataError
from regard.runs import resolve
from regard.training import Interrupted
from runs.tiny import options

RUN = [sys.executable, "-c", "from regard.cli import main; main()"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = run(*options(folder))
    assert done.exit_code == 0, done.output
    assert "BLEU" in done.stdout and "regard translate" in done.stdout
    return folder


def test_translate_is_a_filter(folder):
    text = "a b c\n\n  \nb a\r\nzzz \u00e9\x00 </s>\nc"
    done = run("translate", folder, given=text)
    assert done.exit_code == 0
    lines = done.stdout.split("\n")
    assert len(lines) == 7 and lines[-1] == ""  # one line for each, the last one without an end included
    assert lines[1] == lines[2] == ""
    assert run("translate", folder, given="").stdout == ""
    one = run("translate", folder, given="a b c\n").stdout
    assert one == lines[0] + "\n"


def test_translate_gives_the_best_few_as_json(folder):
    done = run("translate", folder, "--best", 3, given="a b\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3
    assert set(found[0]) == {"text", "score", "log_prob", "source_pieces", "target_pieces"}
    assert [f["score"] for f in found] == sorted((f["score"] for f in found), reverse=True)


def test_evaluate_prints_one_object(folder, tmp_path):
    (tmp_path / "s").write_text("a b c\nb a\n" + "a " * 15 + "\n")
    (tmp_path / "t").write_text("a b c\nb a\n" + "a " * 15 + "\n")
    done = run("evaluate", folder, "--source", tmp_path / "s", "--target", tmp_path / "t", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"bleu", "chrf", "exact_match", "by_length", "below_greedy"} <= set(found)
    assert [found["by_length"][g]["sentences"] for g in ("1-10", "11-20")] == [2, 1]
    shown = run("evaluate", folder, "--source", tmp_path / "s", "--target", tmp_path / "t", "--beam", 1)
    assert "BLEU" in shown.stdout and "11-20" in shown.stdout


def test_a_finished_run_is_not_trained_again(folder):
    done = run(*options(folder, "--resume"))
    assert done.exit_code == 0
    assert "there is nothing to resume" in done.stdout
    assert "already holds a run" in complaint(*options(folder))
    other = ["train", "classification", "--corpus", "sentiment", "--out", folder, "--resume"]
    assert "holds a run of translation, not of classification" in complaint(*other)
    for wrong in ("--beam", "--best"):
        assert f"'{wrong}'" in complaint("translate", folder, wrong, 0, given="a\n")


def test_a_file_of_settings_with_options_on_top(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'seed = 5\n[data]\ncorpus = "reverse"\npairs = 60\nheld_out = 2\n'
        "[decoding]\nmost = 4\n[training]\nsteps = 500\nvalidate = 2\n"
    )
    out = tmp_path / "run"
    small = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.layers=1"]
    done = run(
        "train", "translation", "--config", config, "--steps", 2, *small, "--map", "entmax15", "--out", out
    )
    assert done.exit_code == 0, done.output
    found = read_toml(out / "config.toml")
    assert found["seed"] == 5 and found["training"]["steps"] == 2
    assert found["model"]["map"] == "entmax15" and found["model"]["width"] == 16


def files(folder, source, target):
    for name, content in (("s", source), ("t", target)):
        (folder / name).write_bytes(content)
    return ["--source", folder / "s", "--target", folder / "t"]


BAD = {
    "different length": (b"a\nb\n", b"a\n", "line"),
    "empty": (b"", b"", "is empty"),
    "not UTF-8": (b"a\n\xff\xfe\nb\n", b"a\nb\nc\n", "line 2"),
    "a NUL byte": (b"a\nb\x00\nc\n", b"a\nb\nc\n", "line 2"),
    "a very long line": (b"a\n" + b"x" * 200_000 + b"\n", b"a\nb\n", "line 2"),
    "one pair": (b"a\n", b"b\n", "at least 2 are needed"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_named_and_leave_no_folder(tmp_path, what):
    source, target, says = BAD[what]
    out = tmp_path / "run"
    line = complaint("train", "translation", *files(tmp_path, source, target), "--out", out)
    assert says in line
    assert not out.exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--source", "nothing.txt", "--target", "nothing.txt"], "there is no such file"),
        ([], "--source (a file), or --corpus"),
        (["--corpus", "phrases-xx"], "phrases-"),
        (["--corpus", "copy", "--model", "transfomer"], "did you mean transformer"),
        (["--corpus", "copy", "--map", "sparsmax"], "did you mean sparsemax"),
        (["--corpus", "copy", "--map", "sinkhorn"], "sinkhorn"),
        (["--corpus", "copy", "--set", "training.rat=1"], "did you mean training.rate"),
        (["--corpus", "copy", "--set", "training.steps"], "key=value"),
        (["--corpus", "copy", "--steps", "0"], "--steps must be at least 1"),
        (["--corpus", "copy", "--device", "tpu"], "--device must be"),
        (["--config", "nothing.toml"], "there is no file nothing.toml"),
    ],
)
def test_wrong_options_are_named(tmp_path, more, says):
    assert says in complaint("train", "translation", *more, "--out", tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_wrong_runs_are_named(tmp_path):
    assert "there is no folder" in complaint("translate", tmp_path / "no", given="a\n")
    assert "holds no run" in complaint("translate", tmp_path, given="a\n")
    assert "holds no run" in complaint("evaluate", tmp_path, "--source", __file__, "--target", __file__)


def test_standard_input_that_is_not_text_is_named(folder):
    done = run("translate", folder, given=b"a\n\xff\n")
    assert done.exit_code == 2
    assert "standard input, line 2: invalid UTF-8 at byte 1" in done.stderr


def test_a_line_that_is_too_long_is_named_and_the_others_are_answered(folder):
    text = "a b c\n" + "a " * 50_000 + "\nb a\n"
    done = run("translate", folder, given=text)
    assert done.exit_code == 2 and "Traceback" not in done.output
    answers = run("translate", folder, given="a b c\n\nb a\n").stdout
    assert done.stdout == answers
    assert "standard input, line 2: more than 65,536 bytes" in done.stderr
    assert "1 of 3 lines could not be answered; their answers are empty" in done.stderr.splitlines()[-1]


def test_brackets_are_no_markup(tmp_path):
    folder = tmp_path / "[red]a[/x]"
    done = run(*options(folder, task="alignment"))
    assert done.exit_code == 0 and str(folder) in done.stdout
    table = plain_table("[/x]", "b")
    table.add_row("[/y]", "[bold]")
    screen = Console(file=io.StringIO(), width=80)
    screen.print(table)
    assert all(word in screen.file.getvalue() for word in ("[/x]", "[/y]", "[bold]"))


def test_a_reader_that_goes_away_is_no_traceback(folder):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*RUN, "translate", str(folder)],
        input=b"a b c\n" * 50,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    from regard.training import checkpoints

    real, saved = checkpoints.save_tensors, []

    def full(tensors, path):
        if len(saved) >= 6:
            raise OSError(28, "No space left on device", str(path))
        saved.append(path)
        real(tensors, path)

    monkeypatch.setattr(checkpoints, "save_tensors", full)
    done = run(*options(tmp_path / "run"))
    assert done.exit_code == 2
    assert "No space left on device; what was learned until step 9 is kept" in done.stderr
    assert "Traceback" not in done.output
    assert checkpoints.Checkpoints(tmp_path / "run" / "checkpoints").newest().step == 9


def test_the_demo_shows_translations_an_alignment_and_paths(tmp_path, monkeypatch):
    small = {
        **demo.SETTINGS,
        "data": {**demo.SETTINGS["data"], "pairs": 300, "held_out": 20, "vocabulary": 300},
        "model": {**demo.SETTINGS["model"], "width": 16, "inner": 16, "heads": 2, "layers": 1},
        "training": {**demo.SETTINGS["training"], "steps": 2, "validate": 2, "save": 2},
        "decoding": {"beam": 1, "most": 12},
    }
    monkeypatch.setattr(demo, "SETTINGS", small)
    for name, few in (("TESTED", 10), ("FRENCH", 60), ("ALIGNED", 20)):
        monkeypatch.setattr(demo, name, few)
    out = tmp_path / "my demo"
    first = run("demo", "--out", out)
    assert first.exit_code == 0, first.output
    assert "→" in first.stdout and "Where it looked" in first.stdout
    assert first.stdout.count("(wrong: ") == 6  # two steps teach nothing, and each example says so
    assert any(len(line) > 100 for line in first.stdout.splitlines())  # piped lines are not wrapped
    after = shlex.split(first.stdout.split("Next:")[1].splitlines()[0])
    assert after[:3] == ["regard", "serve", str(out)]  # can be pasted
    assert f"translate '{out}'" in first.stdout and f"(regard align '{out}')" in first.stdout
    assert (out / "alignment.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "model.safetensors").exists()
    again = run("demo", "--out", out)
    assert "trained already" in again.stdout
    (out / "model.safetensors").unlink()  # as if it had been stopped before its end
    assert "seconds\n" in first.stdout and "seconds since it went on\n" in run("demo", "--out", out).stdout


def test_a_demo_that_is_stopped_says_how_it_goes_on(tmp_path, monkeypatch):
    for error in (
        Interrupted("stopped after step 5; --resume goes on from there."),
        KeyboardInterrupt(),
        OSError(28),
    ):

        def stopped(*_, error=error, **__):
            raise error

        monkeypatch.setattr(demo, "fit", stopped)
        done = run("demo", "--out", tmp_path)
        assert done.exit_code == (2 if isinstance(error, OSError) else 130), done.output
        assert "the same command" in done.stderr and "--resume" not in done.stderr


def test_the_demo_shows_examples_by_a_rule_that_knows_no_answers():
    pairs = demo.unseen()[:50]
    shown = [pairs[k] for k in demo.examples(pairs)]
    lengths = [len(pair.source.split()) for pair in shown]
    every = sorted(len(pair.source.split()) for pair in pairs)
    assert len(shown) == 6 and lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (every[0], every[-1])
    assert demo.examples(pairs[:1]) == [0] and demo.examples([]) == []


def test_the_demo_names_a_command_that_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", [str(tmp_path / "my bin" / "regard")])
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    assert demo.command() == "'my bin/regard'"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/regard")
    assert demo.command() == "regard"


def test_the_demos_settings_are_those_of_the_example():
    from pathlib import Path

    file = Path(__file__).parents[2] / "examples" / "demo.toml"
    assert resolve(read_toml(file)) == resolve(demo.SETTINGS)
    for name in ("multi30k.toml", "large.toml"):
        assert resolve(read_toml(file.with_name(name))).model["name"] == "transformer"


def test_blocks_of_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n" * 4500 + b"y")))
    sizes = [len(block) for block in blocks()]
    assert sizes == [2000, 2000, 501]


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfone two\r\nthree\r\n")))
    assert list(blocks()) == [["one two", "three"]]


def test_a_line_of_megabytes_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n" + b"x" * 10_000_000)))
    with pytest.raises(DataError, match="standard input, line 2: more than 65,536 bytes"):
        list(blocks())
