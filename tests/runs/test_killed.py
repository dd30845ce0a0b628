"""Killed at any moment and resumed: the same model, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.tasks import TASKS
from runs.tiny import forked, options

COMMAND = [sys.executable, "-c", "from regard.cli import main; main()"]


def finish(folder: Path, task: str = "translation") -> bytes:
    """Train, or go on, in this process: only what is killed needs one of its own."""
    done = CliRunner().invoke(app, options(folder, "--resume", task=task), prog_name="regard")
    assert done.exit_code == 0, done.output
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights of a run that is not killed, and its seconds, by task; made when they are asked for."""
    made: dict[str, tuple[bytes, float]] = {}

    def run(task: str) -> tuple[bytes, float]:
        if task not in made:
            started = time.monotonic()
            model = finish(tmp_path_factory.mktemp("whole") / "run", task)
            made[task] = model, time.monotonic() - started
        return made[task]

    return run


def killed(folder: Path, whole, moment: float, task: str = "translation") -> None:
    model, seconds = whole(task)
    process = forked(options(folder, task=task), folder.with_name("said"))
    deadline = time.monotonic() + 120
    if moment > 0.3:  # while it trains, whenever that begins
        sign = folder / ("config.toml" if task == "alignment" else "checkpoints")
        while not folder.with_name("said").exists() and time.monotonic() < deadline and not sign.exists():
            time.sleep(0.002)
        time.sleep((moment - 0.3) * 0.3 * seconds)
    else:
        time.sleep(moment * seconds)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert finish(folder, task) == model
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("moment", [0.31, 0.6])
def test_killed_twice(tmp_path, whole, moment):
    killed(tmp_path / "run", whole, moment)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_killed_at_fifty_random_moments(tmp_path, whole, seed):
    task = list(TASKS)[seed % len(TASKS)]
    killed(tmp_path / "run", whole, random.Random(seed).random(), task)


def test_an_interrupt_saves_and_exits_with_130(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, *options(folder, "--set", "training.steps=100000")], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (folder / "checkpoints").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped after step" in said and "Traceback" not in said
    assert list((folder / "checkpoints").iterdir())
