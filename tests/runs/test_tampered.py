"""Run folders whose files are not as they were written: each is one sentence, wherever it is opened."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from regard.cli import app
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.settings import read_toml, toml
from regard.core.weights import load_tensors, save_tensors
from regard.data.text import DataError
from regard.runs import load
from regard.serve import open_runs

ERRORS = (RunError, SettingsError, UnknownNameError, WeightsError, DataError)
RUN = [sys.executable, "-c", "from regard.cli import main; main()"]
CONFIG, MODEL, TOKENS, LABELS, WORDS = (
    "config.toml", "model.safetensors", "tokenizer.json", "classes.json", "vocabulary.json",
)  # fmt: skip


def setting(path, value):
    """One setting of config.toml is another."""

    def change(folder):
        values = here = read_toml(folder / CONFIG)
        *groups, last = path.split(".")
        for group in groups:
            here = here[group]
        here[last] = value
        (folder / CONFIG).write_text(toml(values))

    return change


def content(name, text):
    """A file has this content."""
    raw = text if isinstance(text, bytes) else text.encode()
    return lambda folder: (folder / name).write_bytes(raw)


def instead(name, make):
    """Something else is in the place of a file."""

    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


def cut(name, share):
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * share))


def pipe(name):
    return instead(name, os.mkfifo)


def directory(name):
    return instead(name, os.mkdir)


def loop(name):
    return instead(name, lambda path: path.symlink_to(path))


def sparse(name):
    """A file of 100 GB, of which nothing is on the disk."""
    return lambda folder: os.truncate(folder / name, 100 << 30)


def document(name, change):
    """A JSON file is changed."""

    def apply(folder):
        what = json.loads((folder / name).read_text())
        what = change(what) or what
        (folder / name).write_text(json.dumps(what))

    return apply


def tensors(change, digest=True):
    """Weights are others, and their digest is that of the new ones, or there is none."""

    def apply(folder):
        held = load_tensors(folder / MODEL)
        held = change(held) or held
        (save_tensors if digest else save_file)(held, str(folder / MODEL))

    return apply


def one(kind):
    """Change the first tensor of floats that is a matrix."""

    def apply(held):
        name = next(n for n, t in held.items() if t.is_floating_point() and t.dim() == 2)
        held[name] = kind(held[name]).contiguous()

    return apply


def without(held, name):
    return {n: t for n, t in held.items() if n != name}


def flipped(folder):
    raw = bytearray((folder / MODEL).read_bytes())
    raw[-5] ^= 1
    (folder / MODEL).write_bytes(bytes(raw))


def header(text):
    """The header of the weights is this JSON."""
    return content(MODEL, len(text).to_bytes(8, "little") + text.encode())


def vocabulary(change):
    def apply(what):
        change(what["tokenizer"]["model"]["vocab"])

    return document(TOKENS, apply)


def gaps(vocab):
    word = max(vocab, key=vocab.get)
    vocab[word] = 10**6


def part(name, value):
    def apply(what):
        what["tokenizer"][name] = value

    return document(TOKENS, apply)


DEEP = 100_000
TRANSLATION = {
    "unknown map": setting("model.map", "sparsmax"),
    "a map of matrices": setting("model.map", "sinkhorn"),
    "unknown score": setting("model.score", "dots"),
    "unknown model": setting("model.name", "transfomer"),
    "another model": setting("model.name", "luong"),
    "unknown task": setting("task", "counting"),
    "another task": setting("task", "classification"),
    "width 0": setting("model.width", 0),
    "width -4": setting("model.width", -4),
    "width 1e9": setting("model.width", 10**9),
    "width 16 million": setting("model.width", 1 << 24),
    "width 34": setting("model.width", 34),
    "width text": setting("model.width", "wide"),
    "width list": setting("model.width", [32]),
    "width 1.5": setting("model.width", 1.5),
    "width 1e300": setting("model.width", 1e300),
    "width true": setting("model.width", True),
    "inner 1e9": setting("model.inner", 10**9),
    "heads 0": setting("model.heads", 0),
    "heads -1": setting("model.heads", -1),
    "heads 3": setting("model.heads", 3),
    "layers 1e9": setting("model.layers", 10**9),
    "layers 1000": setting("model.layers", 1000),
    "layers 0": setting("model.layers", 0),
    "dropout 7": setting("model.dropout", 7.0),
    "beam 1e9": setting("decoding.beam", 10**9),
    "alpha 1e300": setting("decoding.alpha", 1e300),
    "targets without end": setting("decoding.most", 10**12),
    "steps -1": setting("training.steps", -1),
    "an unknown setting": setting("model.widht", 3),
    "a group that is a number": content(CONFIG, 'data = 3\ntask = "translation"\n'),
    "a model that is a number": setting("model", 3),
    "no data": content(CONFIG, 'task = "translation"\n'),
    "empty config": content(CONFIG, ""),
    "config of no UTF-8": content(CONFIG, b"seed = 1\n\xff\xfe\n"),
    "config of no TOML": content(CONFIG, "seed = = 1\n"),
    "deep TOML": content(CONFIG, "a = " + "[" * DEEP + "]" * DEEP),
    "deep tables": content(CONFIG, "a = " + "{a = " * 5000 + "1" + "}" * 5000),
    "a key of many parts": content(CONFIG, "a" + ".a" * 200_000 + " = 1\n"),
    "a table of many parts": content(CONFIG, "[a" + ".a" * 200_000 + "]\n"),
    "config a pipe": pipe(CONFIG),
    "config a folder": directory(CONFIG),
    "config a loop": loop(CONFIG),
    "config of 100 GB": sparse(CONFIG),
    "weights a pipe": pipe(MODEL),
    "weights a folder": directory(MODEL),
    "weights a loop": loop(MODEL),
    "weights of 100 GB": sparse(MODEL),
    "weights a device": instead(MODEL, lambda path: path.symlink_to("/dev/zero")),
    "empty weights": content(MODEL, b""),
    "half the weights": cut(MODEL, 0.5),
    "weights without their end": cut(MODEL, 0.999),
    "no weights at all": lambda folder: (folder / MODEL).unlink(),
    "weights of no safetensors": content(MODEL, b"PK\3\4" * 1000),
    "deep header": header('{"a": ' + "[" * DEEP + "]" * DEEP + "}"),
    "header of a huge tensor": header('{"a":{"dtype":"F32","shape":[10000000],"data_offsets":[0,40000000]}}'),
    "a flipped bit": flipped,
    "a missing tensor": tensors(lambda held: without(held, next(iter(held)))),
    "a tensor more": tensors(lambda held: held.update(more=torch.zeros(3))),
    "a tensor transposed": tensors(one(lambda t: t[:, :-1])),
    "a tensor of whole numbers": tensors(one(lambda t: t.long())),
    "a tensor of NaN": tensors(one(lambda t: t * torch.nan)),
    "NaN without a digest": tensors(one(lambda t: t * torch.nan), digest=False),
    "infinite weights": tensors(one(lambda t: t / 0), digest=False),
    "tokenizer a pipe": pipe(TOKENS),
    "tokenizer a folder": directory(TOKENS),
    "tokenizer a loop": loop(TOKENS),
    "tokenizer of 100 GB": sparse(TOKENS),
    "half a tokenizer": cut(TOKENS, 0.5),
    "empty tokenizer": content(TOKENS, ""),
    "deep tokenizer": content(TOKENS, "[" * DEEP + "]" * DEEP),
    "tokenizer of no UTF-8": content(TOKENS, b"\xff" * 100),
    "gaps in token ids": vocabulary(gaps),
    "a token less": vocabulary(lambda vocab: vocab.pop(max(vocab, key=vocab.get)) and None),
    "a token more": vocabulary(lambda vocab: vocab.update(more=len(vocab))),
    "an id twice": vocabulary(lambda vocab: vocab.update({max(vocab, key=vocab.get): 5})),
    "special tokens elsewhere": vocabulary(lambda vocab: vocab.update({" pad": 3, " unk": 0})),
    "a pattern without an end": part(
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
    ),
    "truncation": part(
        "truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    ),
    "facts that are none": setting("run", 3),
}  # fmt: skip
CLASSIFICATION = {
    "labels a pipe": pipe(LABELS),
    "labels a folder": directory(LABELS),
    "deep labels": content(LABELS, "[" * DEEP),
    "labels that are a text": document(LABELS, lambda what: what.update(labels="ab")),
    "a label more": document(LABELS, lambda what: what["labels"].append("more")),
    "a label twice": document(LABELS, lambda what: what.update(labels=["a", "a"])),
    "pairs without": document(LABELS, lambda what: what.update(pairs=True)),
    "embedding 1e9": setting("model.embedding", 10**9),
    "unknown regularizer": setting("regularizers", {"tei": 1.0}),
    "a flipped bit": flipped,
}
ALIGNMENT = {
    "words a pipe": pipe(WORDS),
    "deep words": content(WORDS, '{"source": ' + "[" * DEEP),
    "a word less": document(WORDS, lambda what: what["source"].pop() and None),
    "a word twice": document(WORDS, lambda what: what["source"].append(what["source"][0])),
    "words that are numbers": document(WORDS, lambda what: what.update(target=[*range(len(what["target"]))])),
    "negative codes": tensors(lambda held: held.update(codes=-held["codes"] - 1)),
    "codes that are floats": tensors(lambda held: held.update(codes=held["codes"].float())),
    "tables of NaN": tensors(lambda held: held.update({"forward.table": held["forward.table"] * torch.nan})),
    "a table less": tensors(lambda held: without(held, "reverse.jumps")),
    "rounds -1": setting("alignment.rounds", -1),
    "a flipped bit": flipped,
}  # fmt: skip
SIZES, ANSWERS, POINTS = "images.json", "answers.json", "points.json"
PICTURES = {
    "sizes a pipe": pipe(SIZES),
    "sizes a folder": directory(SIZES),
    "deep sizes": content(SIZES, "[" * DEEP),
    "sizes of 100 GB": sparse(SIZES),
    "a width of 1e9": document(SIZES, lambda what: what.update(width=10**9)),
    "a height of 0": document(SIZES, lambda what: what.update(height=0)),
    "a mean less": document(SIZES, lambda what: what["mean"].pop() and None),
    "blocks 1e7": setting("model.blocks", [10**7, 0]),
    "widths without end": setting("model.widths", [4] * 2000),
    "unknown map": TRANSLATION["unknown map"],
    "weights a pipe": pipe(MODEL),
    "a flipped bit": flipped,
}
KINDS = {
    "translation": TRANSLATION,
    "classification": CLASSIFICATION,
    "alignment": ALIGNMENT,
    "language": {
        kind: TRANSLATION[kind]
        for kind in (
            "unknown map",
            "width 1e9",
            "layers 1e9",
            "layers 1000",
            "heads 3",
            "deep TOML",
            "weights a pipe",
            "NaN without a digest",
            "tokenizer a pipe",
            "gaps in token ids",
            "a flipped bit",
        )
    },
    "image": PICTURES,
    "caption": {
        **PICTURES,
        "half a tokenizer": cut(TOKENS, 0.5),
        "alpha 1e9": setting("decoding.alpha", 10**9),
    },
    "visual_question": {**PICTURES, "looks 1e7": setting("model.looks", 10**7)},
    "answering": {
        "hops 1e7": setting("model.hops", 10**7),
        "no answers": document(ANSWERS, lambda what: what.update(answers=[])),
        "an answer twice": document(ANSWERS, lambda what: what["answers"].append(what["answers"][0])),
        "answers that are numbers": document(ANSWERS, lambda what: what.update(answers=[1, 2])),
        "answers a pipe": pipe(ANSWERS),
        "a longest sentence without end": document(ANSWERS, lambda what: what.update(longest=10**13)),
        "1e300 questions": setting("data.held_out", 1e300),
        "a flipped bit": flipped,
    },
    "algorithm": {
        "sequences without end": setting("data.longest", 10**9),
        "bits 1e9": setting("data.bits", 10**9),
        "locations 1e9": setting("model.locations", 10**9),
        "reading 1e7": setting("model.reading", 10**7),
        "a flipped bit": flipped,
    },
    "pointing": {
        "a mean that is a text": document(POINTS, lambda what: what.update(mean="x")),
        "a mean more": document(POINTS, lambda what: what["mean"].append(0.0)),
        "scale 0": document(POINTS, lambda what: what.update(scale=0)),
        "no scale": document(POINTS, lambda what: what.update(scale=None)),
        "points a pipe": pipe(POINTS),
        "a flipped bit": flipped,
    },
    "reading": {
        "iterations 1e7": setting("model.iterations", 10**7),
        "tokenizer a folder": directory(TOKENS),
        "vectors a pipe": pipe("vectors.safetensors"),
        "a flipped bit": flipped,
    },
}
EVERY = [(task, kind) for task, kinds in KINDS.items() for kind in kinds]


@pytest.fixture
def folder(tiny_run, tmp_path, request):
    def make(task, kind):
        shutil.copytree(
            tiny_run(task).folder, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints", "cache")
        )
        KINDS[task][kind](tmp_path / "run")
        return tmp_path / "run"

    return make


def test_there_are_at_least_sixty_kinds():
    assert len(EVERY) >= 60


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("task", "kind"), EVERY)
def test_a_tampered_folder_is_one_sentence(folder, tmp_path, task, kind):
    run, began = folder(task, kind), time.process_time()
    (tmp_path / "in").write_text("ba be\nbe ba\n")
    (tmp_path / "in.tsv").write_text("the film was exquisite\tpositive\ndull\tnegative\n")
    files = ["--source", tmp_path / "in", "--target", tmp_path / "in"]
    if kind == "facts that are none":
        assert load(run).answer(["ba be"])
        return
    with pytest.raises(ERRORS) as caught:
        load(run)
    assert str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(ERRORS):
        open_runs([run])
    use = {
        "translation": ["translate", run],
        "classification": ["classify", run],
        "alignment": ["align", run, *files],
        "language": ["generate", run],
        "image": ["classify", run, tmp_path / "in.png"],
        "caption": ["caption", run, tmp_path / "in.png"],
        "visual_question": ["classify", run, tmp_path / "in.png", "--second", "what ?"],
        "answering": ["answer", run, "--story", tmp_path / "in", "--question", "where ?"],
        "algorithm": ["view", run, "--text", "010"],
        "pointing": ["answer", run, "--points", "0,1 1,0"],
        "reading": ["answer", run, "--passage", tmp_path / "in", "--question", "where ?"],
    }[task]
    data = files[:2] if task in ("translation", "alignment") else ["--data", tmp_path / "in.tsv"]
    audit = ["audit", run, "--quick", *data]
    for command in (use, audit):
        done = CliRunner().invoke(app, list(map(str, command)), input="ba be\n", prog_name="regard")
        assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.output
        assert done.stderr.startswith(f"regard {command[0]}: ") and "Traceback" not in done.output
    assert time.process_time() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["weights a pipe", "layers 1000", "deep tables", "a flipped bit"])
def test_so_it_is_in_a_process_of_its_own(folder, kind):
    done = subprocess.run(
        [*RUN, "translate", str(folder("translation", kind))],
        input="ba be\n", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


def test_nothing_as_large_as_the_settings_is_made(folder, monkeypatch):
    made = []
    real = torch.nn.Linear.__init__

    def init(self, *args, **settings):
        real(self, *args, **settings)
        made.append(self.weight.device.type)

    monkeypatch.setattr(torch.nn.Linear, "__init__", init)
    with pytest.raises(WeightsError, match="holds the weights of another model"):
        load(folder("translation", "width 16 million"))
    assert set(made) == {"meta"}


def test_weights_without_a_digest_still_load(tiny_run, tmp_path):
    shutil.copytree(tiny_run("translation").folder, tmp_path / "run")
    save_file(load_file(tmp_path / "run" / MODEL), tmp_path / "run" / MODEL)
    assert (
        load(tmp_path / "run").translate(["ba be"])[0].text
        == load(tiny_run("translation").folder).translate(["ba be"])[0].text
    )


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_answers_that_are_no_numbers_are_refused(tiny_run, task):
    system = load(tiny_run(task).folder)
    with torch.no_grad():
        for parameter in system.model.parameters():
            parameter.fill_(torch.nan)
    for options in ({"beam": 1}, {"beam": 2}) if task == "translation" else ({},):
        with pytest.raises(WeightsError, match="the model's answer is not a number"):
            system.answer(["ba be bi"], **options)
