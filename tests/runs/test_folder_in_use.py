"""One process per folder, full disks, more steps, other weights to begin with: nothing is lost."""

import errno
import fcntl
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from commands import run
from regard.core import files, weights
from regard.core.errors import RunError, SettingsError
from regard.core.weights import load_tensors
from regard.runs import fit, load, resolve
from regard.runs.folder import finished, read_config
from regard.runs.lock import LOCK, locked
from regard.tasks import TASKS
from regard.training import Interrupted, loop
from runs.tiny import CLASSIFIER, EVERY, SETTINGS, changed, forked, options, settings_of

LAST = "checkpoints/00000012/model.safetensors"
COMMAND = [sys.executable, "-c", "from regard.cli import main; main()"]
SHORT = changed(
    SETTINGS, training={"steps": 6, "validate": 3, "save": 2, "report": 1, "schedule": "constant"}
)


def final(folder):
    return (folder / "model.safetensors").read_bytes()


# The lock


def test_a_folder_is_held_by_one_and_given_back(tmp_path):
    with locked(tmp_path / "run") as made:
        assert made
        with pytest.raises(RunError, match=rf"in use: process {os.getpid()} on .* trains into it since"):
            fit(resolve(SHORT), tmp_path / "run")
        assert os.listdir(tmp_path / "run") == [LOCK]
    assert not (tmp_path / "run").exists()
    (tmp_path / "own").mkdir()
    with locked(tmp_path / "own") as made:
        assert not made
    assert (tmp_path / "own").is_dir()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    (tmp_path / LOCK).write_text(json.dumps({"pid": 1, "host": socket.gethostname(), "since": "then"}))
    with locked(tmp_path):  # nobody holds it, whatever it says
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_a_finished_run_does_not_keep_the_lock_of_a_dead_process(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run("alignment").folder, tmp_path / "run")
    (folder / LOCK).write_text("killed when all was done")
    assert "nothing to resume" in run(*options(folder, "--resume", task="alignment")).stdout
    assert not (folder / LOCK).exists()
    with locked(folder):
        run(*options(folder, "--resume", task="alignment"))
        assert (folder / LOCK).exists()


@pytest.mark.parametrize(
    ("pid", "host", "free"), [(1, None, False), (2**22 + 1, None, True), (1, "far", False)]
)
def test_without_locks_of_the_file_system_its_content_decides(tmp_path, monkeypatch, pid, host, free):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    facts = {"pid": pid, "host": host or socket.gethostname(), "since": "then"}
    (tmp_path / LOCK).write_text(json.dumps(facts))
    if free:
        with locked(tmp_path):
            pass
    else:
        with pytest.raises(RunError, match=f"process {pid} on"), locked(tmp_path):
            pass


def two_at_once(folder, task, *more):
    """Exit codes and last lines of two commands in one folder, begun together."""
    files = [folder.with_name(f"said{k}") for k in range(2)]
    both = [forked(options(folder, *more, task=task), file) for file in files]
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in both]
    said = [file.read_text() for file in files]
    assert not any("Traceback" in text for text in said), said
    return sorted(zip(codes, said, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2 * len(TASKS)))
def test_two_processes_in_one_folder(tiny_run, tmp_path, number):
    """Two fresh starts, or two that go on where one was stopped; each task in turn."""
    folder, task = tmp_path / "run", list(TASKS)[number // 2]
    if number % 2 and TASKS[task].models:
        stopped(folder, task)
    (first, one), (second, two) = two_at_once(folder, task, *(["--resume"] if number % 2 else []))
    assert first == 0 and (second == 0 or "is in use: process" in two or "already holds a run" in two), (
        one,
        two,
    )
    assert final(folder) == final(tiny_run(task).folder)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def stopped(folder, task):
    """A run that was interrupted after its fifth step."""

    def stop(report):
        if report.step >= 5:
            raise Interrupted("here")

    with pytest.raises(Interrupted):
        fit(resolve(settings_of(task)), folder, listen=stop)


# A failed start


def test_a_failed_start_leaves_what_is_not_its_own(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()

    def fail(*_):
        (folder / "mine.txt").write_text("a user put it here meanwhile")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys.modules["regard.runs.fit"], "encode", fail)
    with pytest.raises(OSError, match="No space left"):
        fit(resolve(SHORT), folder)
    assert os.listdir(folder) == ["mine.txt"]


# Full disks


class Full:
    """The disk is full from the n-th write on: of weights, texts or the log, or when they are flushed."""

    def __init__(self, monkeypatch, n):
        self.left, self.hit = n, None
        for holder, name, at in (
            (weights, "save_file", 1), (Path, "write_text", 0), (files, "_flush", 0), (loop.Log, "write", 0),
        ):  # fmt: skip
            monkeypatch.setattr(holder, name, self.wrapped(getattr(holder, name), at))

    def wrapped(self, real, at):
        def write(*args, **settings):
            self.left -= 1
            if self.left < 0:
                self.hit = args[at]
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **settings)

        return write


def full_disk(folder, task, whole, n):
    """A run that a full disk ends at the n-th write: one sentence, no half of a file, then the same run."""
    with pytest.MonkeyPatch.context() as patch:
        full = Full(patch, n)
        done = run(*options(folder, task=task))
    if full.hit is None:
        assert done.exit_code == 0
        return False
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("regard train")]
    assert "No space left on device" in line and ("kept" in line or "nothing was left behind" in line)
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    done = run(*options(folder, "--resume", task=task))
    assert done.exit_code == 0, done.output
    assert final(folder) == final(whole)
    return True


@pytest.mark.parametrize(("task", "n"), [("alignment", 0), ("alignment", 4), ("classification", 30)])
def test_a_full_disk(tiny_run, tmp_path, task, n):
    assert full_disk(tmp_path / "run", task, tiny_run(task).folder, n)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(2 * len(TASKS)))
def test_a_full_disk_at_twenty_two_places(tiny_run, tmp_path, place):
    task = list(TASKS)[place % len(TASKS)]
    with pytest.MonkeyPatch.context() as patch:
        counted = Full(patch, 1 << 30)
        assert run(*options(tmp_path / "counted", task=task)).exit_code == 0
    n = random.Random(place).randrange((1 << 30) - counted.left)
    assert full_disk(tmp_path / "run", task, tiny_run(task).folder, n)


@pytest.mark.slow
def test_files_that_may_not_grow_are_one_sentence(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
    done = subprocess.run(
        [sys.executable, "-c", limit + COMMAND[-1], *options(tmp_path / "run")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "File too large" in done.stderr.splitlines()[-1]


# Standard streams


@pytest.mark.parametrize(
    "command",
    [
        ["maps", "1", "2"],
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in (["scores"], ["train", "--help"], ["--version"])
        ),
    ],
)
def test_a_full_or_closed_standard_output_is_one_sentence(command):
    text = " ".join([sys.executable, "-c", f"'{COMMAND[-1]}'", *command])
    for where, says in ((">/dev/full", "No space left on device"), (">&-", "standard output is closed")):
        done = subprocess.run(["sh", "-c", f"{text} {where}"], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.splitlines()) == 1 and says in done.stderr


# More steps, and damage between


def test_a_finished_run_says_what_has_changed(tiny_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(tiny_run("classification").folder, folder)
    done = run(*options(folder, "--resume", task="classification"))
    assert done.exit_code == 0 and "there is nothing to resume" in done.stdout
    done = run(*options(folder, "--resume", "--set", "training.rate=0.5", task="classification"))
    assert done.exit_code == 2 and "training.rate was 0.02, now 0.5" in done.stderr
    done = run("train", "classification", "--out", folder, "--resume", "--steps", 20)
    assert done.exit_code == 2 and "has done 24 steps: --steps must be more; got 20" in done.stderr


def test_changed_files_are_noticed_when_the_run_is_finished(tmp_path):
    file, out = tmp_path / "texts.tsv", tmp_path / "run"
    file.write_text("".join(f"word {i}\t{'ab'[i % 2]}\n" for i in range(60)))
    given = ["train", "classification", "--data", file, "--out", out, "--steps", 2, "--set", "model.width=8"]
    assert run(*given).exit_code == 0
    file.write_text(file.read_text() + "one more\ta\n")
    done = run(*given, "--resume")
    assert done.exit_code == 2 and "have changed since it was begun (--data)" in done.stderr


@pytest.mark.parametrize("task", ["translation", "classification"])
@pytest.mark.parametrize("first", [6, 7])  # a validation at the end that a longer run has not, too
def test_more_steps_are_the_run_that_had_them_from_the_start(tmp_path, task, first):
    training = {"steps": 12, "validate": 3, "save": 2, "schedule": "constant", "rate": 0.001, "warmup": 0}
    values = changed(EVERY[task], training=training)
    fit(resolve(values), tmp_path / "whole")
    fit(resolve(changed(values, training={"steps": first})), tmp_path / "run")
    assert finished(tmp_path / "run") and not (tmp_path / "run" / LAST).exists()
    said = []
    fit(resolve(values), tmp_path / "run", resume=True, say=said.append)
    assert f"going on from step {first} to 12; the schedule, constant, does not depend" in "\n".join(said)
    assert final(tmp_path / "run") == final(tmp_path / "whole")
    assert (tmp_path / "run" / LAST).read_bytes() == (tmp_path / "whole" / LAST).read_bytes()
    assert read_config(tmp_path / "run")["training"]["steps"] == 12


def test_more_steps_by_the_command_and_their_schedule(tiny_run, tmp_path):
    shutil.copytree(tiny_run("classification").folder, tmp_path / "run")
    done = run("train", "classification", "--out", tmp_path / "run", "--steps", 30, "--resume")
    assert done.exit_code == 0, done.output
    assert "from step 24 to 30; the learning rate now follows the cosine of 30 steps" in done.stderr
    assert "30 steps" in (tmp_path / "run" / "README.md").read_text()


def test_patience_is_said_to_have_ended_a_run(tmp_path):
    values = changed(
        CLASSIFIER, training={"rate": 1e-9, "validate": 1, "patience": 2, "schedule": "constant"}
    )
    fit(resolve(values), tmp_path / "run")
    with pytest.raises(RunError, match=r"without improvement. To train longer also give"):
        fit(resolve(changed(values, training={"steps": 90})), tmp_path / "run", resume=True)


DAMAGE = {
    "log of no UTF-8": ("log.jsonl", b"\xff\xfe\n"),
    "log of numbers": ("log.jsonl", b'3\n[1]\n{"step": "x"}\n"a"\n'),
    "deep log": ("log.jsonl", b"[" * 100_000 + b"\n"),
    "state of no JSON": ("checkpoints/00000006/state.json", b"{"),
    "state without progress": ("checkpoints/00000006/state.json", b"{}"),
    "state of a number": ("checkpoints/00000006/state.json", b"3"),
    "deep state": ("checkpoints/00000006/state.json", b"[" * 100_000),
    "progress of texts": ("checkpoints/00000006/state.json", b'{"progress": {"step": "six"}}'),
    "no checkpoint whole": ("checkpoints/*/optimiser.safetensors", b"x"),
    "cache": ("cache/train/*.bin", b"\xff\xff"),
    "about the cache": ("cache/train/about.json", b'{"format": 2}'),
    "weights": ("model.safetensors", b"x"),
}


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return fit(resolve(SHORT), tmp_path_factory.mktemp("short") / "run").folder


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_passed_over_when_a_run_goes_on(short, tmp_path, kind):
    folder = tmp_path / "run"
    shutil.copytree(short, folder)
    name, raw = DAMAGE[kind]
    for file in folder.glob(name):
        file.write_bytes(raw)
    fit(resolve(SHORT), folder, resume=True)
    assert final(folder) == final(short)


@pytest.mark.parametrize("name", ["log.jsonl", "checkpoints", "cache"])
def test_a_pipe_in_the_place_of_a_file_does_not_wait(short, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(short, folder)
    shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    os.mkfifo(folder / name)
    began = time.monotonic()
    with pytest.raises((OSError, ValueError)):
        fit(resolve(SHORT), folder, resume=True)
    assert time.monotonic() - began < 60


# Threads


def test_a_run_goes_on_with_as_many_threads_as_it_was_begun_with(tmp_path):
    torch.set_num_threads(2)
    fit(resolve(SHORT), tmp_path / "run")
    assert read_config(tmp_path / "run")["run"]["threads"] == 2
    torch.set_num_threads(1)
    said, seen = [], []
    longer = resolve(changed(SHORT, training={"steps": 7}))
    fit(
        longer, tmp_path / "run", resume=True, say=said.append,
        listen=lambda _: seen.append(torch.get_num_threads()),
    )  # fmt: skip
    assert set(seen) == {2} and torch.get_num_threads() == 1
    assert any("computing with 2 threads, as when the run was begun" in line for line in said)


# The weights of another run


def test_a_run_begins_with_the_weights_and_the_tokenizer_of_another(tiny_run, tmp_path):
    other, out = tiny_run("translation").folder, tmp_path / "run"
    given = ["train", "translation", "--corpus", "reverse", "--init", other, "--out", out, "--device", "cpu"]
    small = ["data.pairs=100", "data.held_out=10", "training.tokens=256", "training.rate=1e-30"]
    done = run(*given, "--steps", 1, *(word for one in small for word in ("--set", one)))
    assert done.exit_code == 0, done.output
    assert "tensors come from" in done.stderr and "100.0% of the parameters" in done.stderr
    facts, held = read_config(out), load_tensors(other / "model.safetensors")
    assert facts["run"]["init"] == str(other) and facts["model"]["width"] == 32
    assert (out / "tokenizer.json").read_text() == (other / "tokenizer.json").read_text()
    for name, tensor in load_tensors(out / "model.safetensors").items():
        torch.testing.assert_close(tensor, held[name])


def test_other_labels_and_other_tokens(tiny_run, tmp_path):
    other, said = tiny_run("classification").folder, []
    file = tmp_path / "texts.tsv"
    file.write_text("".join(f"the film {i}\t{('up', 'down')[i % 2]}\n" for i in range(60)))
    model = read_config(other)["model"]
    values = changed(
        CLASSIFIER, model=model, data={"corpus": None, "train": str(file)}, training={"steps": 1}
    )
    fit(resolve(values), tmp_path / "run", init=other, say=said.append)
    (line,) = [line for line in said if "tensors come from" in line]
    assert "new are" in line and "of its tensors are left" in line
    assert load(tmp_path / "run").labels == ("down", "up")
    wrong = changed(values, data={"corpus": None, "train": str(file), "tokens": "character"})
    with pytest.raises(SettingsError, match="cuts into 'word': leave data.tokens out"):
        fit(resolve(wrong), tmp_path / "wrong", init=other)
    assert not (tmp_path / "wrong").exists()
    with pytest.raises(RunError, match="no tensor of .* has the name and the shape"):
        fit(resolve(changed(values, model={"name": "attentive_bilstm", "width": 6, "embedding": 6})),
            tmp_path / "none", init=other)  # fmt: skip
    assert not (tmp_path / "none").exists()
    done = run(*options(tmp_path / "aligner", "--init", other, task="alignment"))
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "a word aligner is not trained in steps: --init is not for it" in done.stderr


def test_settings_of_another_model_are_taken_where_they_have_a_meaning(tiny_run, tmp_path):
    given = [
        "train",
        "classification",
        "--corpus",
        "sentiment",
        "--model",
        "attentive_mlp",
        "--device",
        "cpu",
    ]
    done = run(*given, "--init", tiny_run("translation").folder, "--out", tmp_path / "run")
    assert done.exit_code == 2 and "no tensor of" in done.stderr and "activation" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_goes_on_with_other_data_names_both(tiny_run, tmp_path):
    copy, file = tmp_path / "run", tmp_path / "texts.tsv"
    shutil.copytree(tiny_run("classification").folder, copy)
    file.write_text("the film\tup\nthe book\tdown\n")
    done = run("train", "classification", "--data", file, "--out", copy, "--resume")
    assert done.exit_code == 2
    assert "begun with other settings (--corpus was 'sentiment', now not given" in done.stderr
    assert f"--data was not given, now '{file}'" in done.stderr
