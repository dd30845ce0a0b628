"""`torchrun … -m regard train`: the same run as by one process, through the death of a process too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.core.errors import RunError, WeightsError
from regard.core.weights import load_tensors
from regard.runs import fit, load, resolve
from regard.training import Ended, Team
from regard.training.log import read
from runs.tiny import SETTINGS, options
from training.together import together

CALM = {**SETTINGS, "model": {**SETTINGS["model"], "dropout": 0.0}}
STEADY = ["--set", "model.dropout=0.0"]


def torchrun(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*start, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def curve(folder: Path) -> list[dict[str, float]]:
    return [
        {name: value for name, value in line.items() if name != "tokens_per_second"}
        for line in read(folder / "log.jsonl")
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A run by two processes, with the command users type."""
    folder = tmp_path_factory.mktemp("two") / "run"
    done = torchrun("-m", "regard", *options(folder, *STEADY))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("BLEU") == 1  # one process speaks
    assert done.stderr.count("step 10:") == 1
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "run"
    fit(resolve(CALM), folder)
    return folder


def same_to_rounding(folder: Path, other: Path) -> None:
    lines = list(zip(curve(folder), curve(other), strict=True))
    assert len(lines) == 7
    for line, wanted in lines:
        assert line == pytest.approx(wanted, rel=1e-4)


def test_two_processes_have_the_curve_of_one(one, two):
    same_to_rounding(two, one)
    sources = ["a b c", "b a"]
    assert len(load(two).translate(sources)) == 2
    assert sorted(f.name for f in two.iterdir()) == sorted(f.name for f in one.iterdir())


def test_a_process_is_killed_and_the_run_goes_on_from_the_last_checkpoint(tmp_path, two):
    steps, folder = tmp_path / "steps", tmp_path / "run"
    script = Path(__file__).with_name("fragile.py")
    restarts = ["--max-restarts", "1", "--monitor-interval", "0.1"]
    done = torchrun(*restarts, script, *options(folder, *STEADY), STEPS=str(steps))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lives = [tuple(map(int, line.split())) for line in steps.read_text().splitlines()]
    assert lives[:8] == [(0, step) for step in range(1, 9)]
    assert lives[8:] == [(1, step) for step in range(7, 31)]  # a checkpoint was made after step 6
    assert curve(folder) == curve(two)
    assert (folder / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


def fitted(team: Team, values, folder: Path, sharded: bool, resume: bool):
    return fit(resolve(values), folder, team=team, sharded=sharded, resume=resume).scores


def test_a_sharded_run_leaves_what_any_other_leaves(tmp_path, one):
    folder = tmp_path / "run"
    found = together(2, fitted, CALM, folder, True, False)
    assert found[0] == found[1] and found[0]["sentences"] == 40
    same_to_rounding(folder, one)
    names = load_tensors(one / "model.safetensors").keys()
    assert load_tensors(folder / "model.safetensors").keys() == names


def test_more_processes_than_data_is_an_end(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("a b\nb a\n")
    data = {"source": str(tmp_path / "a"), "target": str(tmp_path / "b"), "tokens": "word"}
    first, other = together(2, fitted, {**CALM, "data": data}, tmp_path / "run", False, False)
    assert isinstance(first, RunError)
    assert str(first) == "there are more processes (2) than training pairs (1). Start fewer."
    assert isinstance(other, Ended)


def test_batches_smaller_than_the_number_of_processes_are_no_obstacle(tmp_path):
    training = {**CALM["training"], "tokens": 32, "steps": 6, "validate": 3, "report": 1}
    values = {**CALM, "training": training}  # a batch has 1 to 4 pairs
    fit(resolve(values), tmp_path / "one")
    together(3, fitted, values, tmp_path / "three", False, False)
    for line, wanted in zip(curve(tmp_path / "three"), curve(tmp_path / "one"), strict=True):
        assert line == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_checkpoint_of_another_model_is_an_end(tmp_path, one, sharded):
    folder = tmp_path / "run"
    narrow = {**CALM, "model": {**CALM["model"], "width": 16}}
    fit(resolve({**narrow, "training": {**CALM["training"], "steps": 3}}), folder)
    for name in ("config.toml", "cache", "tokenizer.json"):
        copy = shutil.copytree if (one / name).is_dir() else shutil.copy
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
        copy(one / name, folder / name)
    first, other = together(2, fitted, CALM, folder, sharded, True)
    assert isinstance(first, WeightsError) and "holds the weights of another model" in str(first)
    assert isinstance(other, Ended)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_is_left_alone_says_so_in_a_line(tmp_path, rank):
    code = """
from datetime import timedelta
from regard.training import processes
processes.TIMEOUT = timedelta(seconds=2)
from regard.cli import main
main()
"""
    there = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29399"}
    done = subprocess.run(
        [sys.executable, "-c", code, *options(tmp_path / "run")],
        env={**os.environ, **there},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 1
    assert f"regard train translation: process {rank} of 2: not all came up within 2 seconds" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_model_is_shared_out_among_several_processes_only(tmp_path):
    done = CliRunner().invoke(app, options(tmp_path / "run", "--shard"), prog_name="regard")
    assert done.exit_code == 2
    assert "--shard" in done.stderr and "torchrun" in done.stderr
