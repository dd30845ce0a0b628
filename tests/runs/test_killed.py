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
from runs.tiny import options

COMMAND = [sys.executable, "-c", "from regard.cli import main; main()"]


def finish(folder: Path) -> bytes:
    """Train, or go on, in this process: only what is killed needs one of its own."""
    done = CliRunner().invoke(app, options(folder, "--resume"), prog_name="regard")
    assert done.exit_code == 0, done.output
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    started = time.monotonic()
    model = finish(tmp_path_factory.mktemp("whole") / "run")
    return model, time.monotonic() - started


def killed(folder: Path, whole: tuple[bytes, float], moment: float) -> None:
    model, seconds = whole
    process = subprocess.Popen(
        [*COMMAND, *options(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    if moment > 0.3:  # while it trains, whenever that begins
        while (
            process.poll() is None and time.monotonic() < deadline and not (folder / "checkpoints").exists()
        ):
            time.sleep(0.002)
        time.sleep((moment - 0.3) * 0.3 * seconds)
    else:
        time.sleep(moment * seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert finish(folder) == model


@pytest.mark.parametrize("moment", [0.31, 0.6])
def test_killed_twice(tmp_path, whole, moment):
    killed(tmp_path / "run", whole, moment)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_twenty_random_moments(tmp_path, whole, seed):
    killed(tmp_path / "run", whole, random.Random(seed).random())


def test_an_interrupt_saves_and_exits_with_130(tmp_path, whole):
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
