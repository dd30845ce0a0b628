"""From settings to a trained run: tokenizers, encoded pairs, model, training, and a page about it."""

import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.errors import RunError
from regard.core.files import write_text
from regard.core.weights import load_tensors, put_tensors
from regard.data import Batch, Batches, Encoded, Tokenizer
from regard.runs.folder import CONFIG, LOG, MODEL, README, claim, read_settings, write_settings
from regard.runs.resolve import build, copies, system_of
from regard.runs.sentences import Sentences
from regard.runs.settings import Settings
from regard.runs.translator import Translator
from regard.tasks import Quality, Translation, quality
from regard.training import ALONE, Report, Team, train
from regard.training.parts import Part

Say = Callable[[str], None]
SAMPLE = 1_000_000  # pairs a vocabulary is made from
GENERATED = 20_000  # of a corpus that is generated: all of it is alike


@dataclass(frozen=True, eq=False)
class Fitted:
    """A run that was trained to its end."""

    folder: Path
    system: Translator
    quality: Quality  # on validation pairs


def fit(
    settings: Settings,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    board: bool = False,
    listen: Callable[[Report], None] | None = None,
    say: Say = lambda _: None,
    team: Team = ALONE,
    sharded: bool = False,
) -> Fitted:
    """Train a run into a folder; one that was interrupted goes on, if `resume` allows it.

    Every process of a team calls it; the first makes what the others find.
    """
    team.led(lambda: begin(settings, folder, resume or team.again, say, team.size))
    model, task = prepare(settings, folder, device, team, sharded)
    progress = train(
        model,
        task,
        settings.training,
        folder,
        seed=settings.seed,
        listen=listen,
        board=board,
        team=team,
        sharded=sharded,
    )
    source, target = load_tokenizers(folder)
    if sharded:  # whole again
        model = build(settings, len(source), len(target)).to(device)
        put_tensors(model, load_tensors(folder / MODEL), folder / MODEL)
    system = system_of(model, source, target, settings)

    def scored() -> dict[str, Any]:
        sources, targets = _validation(settings)
        say(f"translating {len(sources):,} validation sentences")
        scores = quality(sources, [t.text for t in system.translate(sources)], targets)
        write_text(folder / README, page(settings, system.model, scores, progress.step))
        return asdict(scores)

    return Fitted(folder, system, Quality(**team.led(scored)))


def begin(settings: Settings, folder: Path, resume: bool, say: Say, processes: int = 1) -> None:
    """Make the folder, its tokenizers and its encoded pairs, where they are not there yet."""
    claim(folder, settings, resume=resume)
    sentences = Sentences(settings.data, settings.seed)
    pairs = encode(settings, folder, sentences, tokenizers(settings, folder, sentences, say), say)["train"]
    if len(pairs) < processes:
        raise RunError(
            f"there are more processes ({processes}) than training pairs ({len(pairs)}). Start fewer."
        )


def prepare(
    settings: Settings, folder: Path, device: str, team: Team = ALONE, sharded: bool = False
) -> tuple[nn.Module, Translation]:
    """The model and its task, for a folder that was begun."""
    if not (folder / CONFIG).exists():
        raise RunError(
            f"process {team.rank} does not see {folder / CONFIG}, which process 0 has written: "
            "--out must be in a place that all machines share."
        )
    source, target = load_tokenizers(folder)
    train, valid = (Encoded.open(folder / "cache" / part) for part in ("train", "valid"))
    model = build(settings, len(source), len(target))
    if not sharded:  # one that is shared out may not fit on a device before
        model = model.to(device)
    tokens = settings.training.tokens
    batches = Part(train, tokens, settings.seed, team)
    held_out: list[Batch] = list(Batches(valid, tokens, 0).epoch(0))
    task = Translation(batches, held_out, settings.training.smoothing, device)
    return model, task


def tokenizers(
    settings: Settings, folder: Path, sentences: Sentences, say: Say
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, the same one if they are joint; made from the training pairs."""
    data = settings.data
    names = ["tokenizer.json"] if data.joint else ["source.json", "target.json"]
    for side, name in enumerate(names):
        if (folder / name).exists():
            continue
        say(f"making a vocabulary of {data.vocabulary:,} {data.tokens} tokens")
        some = islice(sentences.train(), GENERATED if data.corpus else SAMPLE)
        lines = (line for pair in some for line in (pair if data.joint else pair[side : side + 1]))
        with warnings.catch_warnings(record=True) as remarks:  # that the text has not so many pieces
            warnings.simplefilter("always")
            Tokenizer.train(lines, data.tokens, data.vocabulary).save(folder / name)
        for remark in remarks:
            say(str(remark.message))
    return load_tokenizers(folder)


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target in a folder."""
    if (folder / "tokenizer.json").exists():
        both = Tokenizer.load(folder / "tokenizer.json")
        return both, both
    return Tokenizer.load(folder / "source.json"), Tokenizer.load(folder / "target.json")


def encode(
    settings: Settings, folder: Path, sentences: Sentences, two: tuple[Tokenizer, Tokenizer], say: Say
) -> dict[str, Encoded]:
    """Training and validation pairs as ids on disk; made anew where they are missing, never changed."""
    found = {}
    for part, pairs in (("train", sentences.train), ("valid", sentences.valid)):
        cache = folder / "cache" / part
        if not cache.exists():
            say(f"encoding the {'training' if part == 'train' else 'validation'} pairs")
            Encoded.make(pairs(), *two, cache, longest=settings.data.longest, copying=copies(settings))
        found[part] = Encoded.open(cache)
        if not len(found[part]):
            raise RunError(
                f"no {part} pair is left: all are empty or longer than {settings.data.longest} tokens."
            )
    known = read_settings(folder).data.fingerprint
    fingerprint = found["train"].fingerprint
    if known is not None and known != fingerprint:
        shutil.rmtree(folder / "cache")
        raise RunError(f"the data of {folder} have changed since it was begun: it cannot go on with others.")
    if known is None:
        write_settings(folder, replace(settings, data=replace(settings.data, fingerprint=fingerprint)))
    return found


def _validation(settings: Settings) -> tuple[list[str], list[str]]:
    some = list(islice(Sentences(settings.data, settings.seed).valid(), settings.data.held_out))
    return [source for source, _ in some], [target for _, target in some]


def page(settings: Settings, model: nn.Module, scores: Quality, steps: int) -> str:
    """README.md of a run."""
    data, name = settings.data, settings.model["name"]
    what = data.corpus or f"{data.source}" + (f" → {data.target}" if data.target else "")
    size = sum(p.numel() for p in model.parameters())
    rows = "\n".join(
        f"| {words} | {group['sentences']} | {group['bleu']:.1f} | {group['exact_match']:.3f} |"
        for words, group in scores.by_length.items()
    )
    return f"""# A translator

A `{name}` of {size:,} parameters, score `{settings.model.get("score", "scaled_dot")}`, map
`{settings.model.get("map", "softmax")}`, trained for {steps:,} steps on {what} (seed {settings.seed}).

On {scores.sentences:,} validation sentences, beam {settings.decoding.beam}: BLEU {scores.bleu:.1f}, chrF
{scores.chrf:.1f}, exact match {scores.exact_match:.3f} ({scores.signature}).

| words of the source | sentences | BLEU | exact match |
|---|---|---|---|
{rows}

    regard translate DIR < in.txt > out.txt
    regard evaluate DIR --source test.src --target test.trg

`config.toml` has all that is needed to repeat it, `{LOG}` how it went. It has seen only what it was trained
on: before anyone relies on it, measure it on sentences like theirs. Attention weights shown with it say where
the model looked, not why it answered as it did.
"""
