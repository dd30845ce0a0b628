"""From settings to a trained classifier: tokenizer, classes, encoded texts, model, training, a page."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.core.errors import RunError, SettingsError
from regard.core.files import write_text
from regard.core.weights import load_tensors, put_tensors
from regard.data import Batches, Encoded, Tokenizer
from regard.data.classes import Classes, Targets, as_pair
from regard.models.classifiers import ClassifierModel as Model
from regard.runs.classifier import Classifier
from regard.runs.classifier_page import page
from regard.runs.classifier_settings import ClassifierSettings
from regard.runs.folder import CONFIG, MODEL, README, claim, read_config, write_settings
from regard.runs.resolve_classifier import begin_with_vectors, build, forbidden, resolved_classifier
from regard.runs.texts import Texts
from regard.tasks.classes import ClassQuality, class_quality
from regard.tasks.classification import Classification
from regard.training import ALONE, Report, Team, train
from regard.training.parts import Part

Say = Callable[[str], None]
SAMPLE = 1_000_000  # texts a vocabulary is made from
TOKENIZER, CLASSES = "tokenizer.json", "classes.json"


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A run that was trained to its end."""

    folder: Path
    system: Classifier
    quality: ClassQuality  # on validation texts


def fit_classifier(
    settings: ClassifierSettings,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    board: bool = False,
    listen: Callable[[Report], None] | None = None,
    say: Say = lambda _: None,
    team: Team = ALONE,
) -> FittedClassifier:
    """Train a run into a folder; one that was interrupted goes on, if `resume` allows it.

    Every process of a team calls it; the first makes what the others find.
    """
    team.led(lambda: begin(settings, folder, resume or team.again, say, team.size))
    model, task = prepare(settings, folder, device, team)
    progress = train(
        model, task, settings.training, folder, seed=settings.seed, listen=listen, board=board, team=team
    )
    system = Classifier(model, *read_parts(folder))

    def scored() -> dict[str, Any]:
        texts = Texts(settings.data, settings.seed).valid()
        encode, longest = system.tokenizer.encode, settings.data.longest
        scores = evaluate(system, (one for one in texts if len(encode(one[1].text)) <= longest))
        write_text(folder / README, page(settings, model, system.labels, scores, progress.step))
        return asdict(scores)

    return FittedClassifier(folder, system, ClassQuality(**team.led(scored)))


def evaluate(system: Classifier, texts: Iterator[tuple[str, Any]]) -> ClassQuality:
    """How well a system does on labelled texts, each with where it stands."""
    found = [system.classes.check(text, where) for where, text in texts]
    asked: list[Any] = [text.text if text.second is None else (text.text, text.second) for text in found]
    answers = system.classify(asked)
    return class_quality([answer.probabilities for answer in answers], [text.label for text in found])


def begin(settings: ClassifierSettings, folder: Path, resume: bool, say: Say, processes: int = 1) -> None:
    """Make the folder, its tokenizer, classes and encoded texts, where they are not there yet."""
    new = not (folder / CONFIG).exists()
    claim(folder, settings, resume=resume, resolve=resolved_classifier)
    try:
        texts = Texts(settings.data, settings.seed)
        tokenizer = make_parts(settings, folder, texts, say)
        count = encode(settings, folder, texts, tokenizer, say)
    except Exception:
        if new:  # nothing half-written stays
            shutil.rmtree(folder)
        raise
    if count < processes:
        raise RunError(f"there are more processes ({processes}) than training texts ({count}). Start fewer.")


def prepare(
    settings: ClassifierSettings, folder: Path, device: str, team: Team = ALONE
) -> tuple[Model, Classification]:
    """The model and its task, for a folder that was begun."""
    if not (folder / CONFIG).exists():
        raise RunError(
            f"process {team.rank} does not see {folder / CONFIG}, which process 0 has written: "
            "--out must be in a place that all machines share."
        )
    tokenizer, classes = read_parts(folder)
    model = build(settings, len(tokenizer), classes, tokenizer)
    if settings.data.vectors is not None:
        begin_with_vectors(model, settings.data.vectors, tokenizer)
    train, valid = (Encoded.open(folder / "cache" / part) for part in ("train", "valid"))
    tokens = settings.training.tokens
    task = Classification(
        Part(train, tokens, settings.seed, team),
        list(Batches(valid, tokens, 0).epoch(0)),
        settings.training.smoothing,
        device,
        pairs=classes.pairs,
    )
    return model.to(device), task


def make_parts(settings: ClassifierSettings, folder: Path, texts: Texts, say: Say) -> Tokenizer:
    """The tokenizer and the classes of the folder; made from the training texts if there are none."""
    data = settings.data
    if not (folder / CLASSES).exists():
        classes = Classes.of(texts.train())
        for where, text in texts.valid():
            classes.check(text, where)
        build(settings, 8, classes)  # a model that takes such texts
        classes.save(folder / CLASSES)
    if not (folder / TOKENIZER).exists():
        some = islice(texts.train(), SAMPLE)
        lines = (line for text in some for line in (text.text, text.second) if line is not None)
        with warnings.catch_warnings():  # that the texts have not so many words
            warnings.simplefilter("ignore")
            tokenizer = Tokenizer.train(lines, data.tokens, data.vocabulary)
        say(f"a vocabulary of {len(tokenizer):,} {data.tokens} tokens")
        if settings.remedy is not None and (words := settings.remedy.deceive):
            say(f"{len(set(forbidden(words, tokenizer))):,} of {len(words):,} forbidden words are in it")
        if data.vectors is not None:
            begin_with_vectors(
                build(settings, len(tokenizer), Classes.load(folder / CLASSES)), data.vectors, tokenizer, say
            )
        tokenizer.save(folder / TOKENIZER)
    return Tokenizer.load(folder / TOKENIZER)


def encode(settings: ClassifierSettings, folder: Path, texts: Texts, tokenizer: Tokenizer, say: Say) -> int:
    """Training and validation texts as ids on disk, made where they are missing; how many to train on."""
    classes = Classes.load(folder / CLASSES)
    targets, found = Targets(classes, tokenizer), {}
    pairs = {
        "train": (as_pair(classes.check(text, "a training text")) for text in texts.train()),
        "valid": (as_pair(classes.check(text, where)) for where, text in texts.valid()),
    }
    for part in pairs:
        cache = folder / "cache" / part
        if not cache.exists():
            Encoded.make(pairs[part], tokenizer, targets, cache, longest=settings.data.longest)  # type: ignore[arg-type]
        found[part] = Encoded.open(cache)
        try:
            Batches(found[part], settings.training.tokens)
        except ValueError as error:  # a text that fits into no batch
            raise SettingsError(f"training.{error} Or leave long texts out: data.longest.") from None
        if found[part].too_long:
            say(
                f"{found[part].too_long:,} {part} texts are longer than data.longest={settings.data.longest} "
                "tokens and left out"
            )
    known, fingerprint = read_config(folder)["data"].get("fingerprint"), found["train"].fingerprint
    if known is not None and known != fingerprint:
        shutil.rmtree(folder / "cache")
        raise RunError(f"the data of {folder} have changed since it was begun: it cannot go on with others.")
    if known is None:
        write_settings(folder, replace(settings, data=replace(settings.data, fingerprint=fingerprint)))
    return len(found["train"])


def read_parts(folder: Path) -> tuple[Tokenizer, Classes]:
    """The tokenizer and the classes in a folder."""
    return Tokenizer.load(folder / TOKENIZER), Classes.load(folder / CLASSES)


def is_classifier(folder: Path) -> bool:
    """Whether a folder holds the run of a classifier."""
    return (folder / CONFIG).exists() and read_config(folder).get("task") == "classification"


def load_classifier(folder: str | Path, device: str = "cpu") -> Classifier:
    """The trained classifier in a folder, ready to use."""
    folder = Path(folder)
    settings = resolved_classifier(read_config(folder))
    if not (folder / MODEL).exists():
        raise RunError(f"{folder} is not trained to its end: {MODEL} is missing. Go on with --resume.")
    tokenizer, classes = read_parts(folder)
    model = build(settings, len(tokenizer), classes, tokenizer)
    put_tensors(model, load_tensors(folder / MODEL), folder / MODEL)
    return Classifier(model.to(device), tokenizer, classes)
