"""Word alignment: which source word each target word translates, learned from sentence pairs without links.

Two hidden Markov models, one in each direction, trained by expectation–maximisation to agree
(`regard.alignment`). It is no neural network: the task brings its own `fit`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.alignment.aligner import Aligner, AlignerSettings
from regard.alignment.bitext import Vocabulary
from regard.alignment.direction import Direction
from regard.alignment.error_rate import score
from regard.alignment.expectation import train
from regard.alignment.forced_alignment import Aligned, align_by_aligner, matched
from regard.alignment.formats import read, said_skipped, write
from regard.alignment.links import Links
from regard.core.errors import RunError, SettingsError, WeightsError
from regard.core.files import read_json, write_text
from regard.core.registry import Table
from regard.core.settings import file_setting, from_dict, setting
from regard.data import CORPORA
from regard.data.context_lines import last_lines
from regard.data.segments import Segments, Span, split_words
from regard.data.text import DataError, pairs
from regard.tasks.system import Scores, System
from regard.tasks.task import Say, Task
from regard.tasks.text_data import SOURCE, PairEvaluation

WORDS = "vocabulary.json"
TABLES = ("table", "empty", "jumps", "first")
GENERATED = 2000  # pairs of a generated corpus


@dataclass(frozen=True)
class AlignmentData:
    """Where the sentence pairs come from."""

    files: ClassVar[tuple[str, ...]] = ("source", "target")

    corpus: str | None = setting(None, "A generated corpus instead of files.", option="--corpus")
    source: str | None = file_setting(SOURCE, "--source")
    target: str | None = file_setting("Their translations, line by line.", "--target")
    pairs: int = setting(GENERATED, "Pairs of the generated corpus.")


@dataclass(frozen=True)
class AlignmentSettings:
    """All that is needed to repeat a run."""

    data: AlignmentData = setting(factory=AlignmentData)
    task: Literal["alignment"] = "alignment"
    seed: int = 1
    alignment: AlignerSettings = setting(factory=AlignerSettings)


@dataclass(frozen=True)
class Vocabularies:
    """The words of both languages."""

    source: Vocabulary
    target: Vocabulary

    def save(self, folder: Path) -> None:
        """Write vocabulary.json."""
        words = {"source": list(self.source.numbers), "target": list(self.target.numbers)}
        write_text(folder / WORDS, json.dumps(words, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path) -> "Vocabularies":
        """Those in a folder."""
        try:
            words = read_json(folder / WORDS)
            found = [Vocabulary(words[side]) for side in ("source", "target")]
            wrong = any(len(one) != len(words[side]) for one, side in zip(found, words, strict=False))
            if wrong or not all(isinstance(word, str) for one in found for word in one.numbers):
                raise ValueError
            return cls(*found)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            raise WeightsError(f"{folder}: {WORDS} is missing or broken.") from None


class AlignmentTask(Task):
    """From sentence pairs to a word aligner."""

    name = "alignment"
    makes, examples, unit = "word aligner", "pairs", "pairs"
    Settings, Evaluation = AlignmentSettings, PairEvaluation
    models, default_model = Table("model", {}), ""
    corpora, Parts = CORPORA, Vocabularies
    model_options: Mapping[str, str] = {}
    command_examples = ("regard train alignment --source train.en --target train.fr --out runs/aligner",)
    usage = (
        "regard align DIR --source test.src --target test.trg > out.pharaoh",
        "regard align DIR --source test.src --target test.trg --gold-alignments first.links > out.pharaoh",
    )
    aliases: Mapping[str, str] = {"aligner": "alignment"}

    def resolve(self, values: Mapping[str, Any]) -> AlignmentSettings:
        own = {one.name for one in fields(AlignerSettings)}
        named = self.named({key: value for key, value in values.items() if key not in own})
        alone = {key: value for key, value in values.items() if key in own}  # --set rounds=3
        named["alignment"] = {**named.get("alignment", {}), **alone}
        settings = from_dict(AlignmentSettings, {**named, "task": self.name})
        data = settings.data
        if data.corpus is not None and data.source is not None:
            raise SettingsError("data.corpus and data.source exclude each other; give one of them.")
        return settings

    def fit(self, settings: AlignmentSettings, say: Say) -> "WordAligner":
        """Train by expectation–maximisation; `say` hears of each round."""
        data = settings.data
        if data.corpus is None and data.source is None:
            raise SettingsError("data.source and data.target (files), or data.corpus, must be given.")
        if data.corpus is not None:
            made = CORPORA[data.corpus](settings.seed, "train")
            bitext = [(last_lines(pair.source, 0), pair.target) for pair in islice(made, data.pairs)]
        else:
            assert data.source is not None
            bitext = list(pairs(data.source, data.target))
        found = train(bitext, settings.alignment, say=say)
        say(f"{len(bitext):,} pairs, {len(found.source):,} and {len(found.target):,} different words")
        return WordAligner(found, Vocabularies(found.source, found.target), settings)

    def tensors(self, model: Aligner) -> dict[str, Tensor]:
        tensors = {"codes": torch.from_numpy(model.codes)}
        for name, direction in (("forward", model.forward), ("reverse", model.reverse)):
            for table in TABLES:
                tensors[f"{name}.{table}"] = torch.from_numpy(getattr(direction, table)).float()
        return tensors

    def check_weights(
        self, settings: AlignmentSettings, parts: Vocabularies, found: Mapping[str, Any], source: Path
    ) -> None:
        """`restore` does it: the tables are as large as their file."""

    def restore(
        self, settings: AlignmentSettings, parts: Vocabularies, tensors: dict[str, Tensor], source: Path
    ) -> Aligner:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        try:
            codes = arrays["codes"]
            floats = [array for name, array in arrays.items() if name != "codes"]
            if codes.dtype != np.int64 or codes.ndim != 1 or codes.min(initial=0) < 0:
                raise ValueError
            if not all(np.isfinite(one).all() and one.min(initial=0) >= 0 for one in floats):
                raise ValueError
            given, word = np.divmod(codes, max(len(parts.target), 1))
            sizes = len(parts.source), len(parts.target)
            directions = []
            for name, two in (("forward", (given, word)), ("reverse", (word, given))):
                direction = Direction(*two, sizes, arrays[f"{name}.table"].astype(np.float64))
                for table in TABLES[1:]:
                    value = arrays[f"{name}.{table}"].astype(np.float64)
                    if value.shape != getattr(direction, table).shape:
                        raise ValueError
                    setattr(direction, table, value)
                if direction.table.shape != codes.shape or given.max(initial=-1) >= len(parts.source):
                    raise ValueError
                directions.append(direction)
                sizes = sizes[::-1]
        except (ValueError, KeyError, TypeError):
            raise WeightsError(f"{source} and {WORDS} do not belong together, or are broken.") from None
        return Aligner(settings.alignment, parts.source, parts.target, codes, *directions)

    def system(
        self, model: Any, parts: Any, settings: AlignmentSettings, folder: Path | None = None
    ) -> "WordAligner":
        return WordAligner(model, parts, settings, folder)


ALIGNMENT = AlignmentTask()


@dataclass(frozen=True)
class Alignment:
    """The links of one sentence pair."""

    source: str
    target: str
    links: Links

    @property
    def said(self) -> str:
        """The links in Pharaoh's format."""
        return next(iter(write([self.links])))

    @property
    def log_prob(self) -> None:
        """Links are chosen by a rule, not by their probability."""
        return None

    @property
    def probabilities(self) -> dict[str, float]:
        """None: there are too many possible alignments."""
        return {}


class WordAligner(System):
    """A trained aligner."""

    task = ALIGNMENT
    model: Aligner
    settings: AlignmentSettings

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        """None: it is no neural network."""
        return {}

    @property
    def heads(self) -> int:
        return 0

    def align(self, pairs: Sequence[tuple[str, str]], **options: Any) -> Aligned:
        """Word links of sentence pairs; options as those of `alignment.forced_alignment.align`."""
        if options.pop("reverse", None) is not None or options.pop("head", None) is not None:
            raise ValueError(
                "an aligner has no heads and aligns both ways: reverse and head are for translators."
            )
        return align_by_aligner(self.model, pairs, **options)

    def answer(self, inputs: Sequence[tuple[str, str]], **options: Any) -> list[Alignment]:
        found = self.align(inputs, **options).links
        return [Alignment(*pair, links) for pair, links in zip(inputs, found, strict=True)]

    def segments(self, text: str, spans: Sequence[Span] | None = None) -> Segments:
        """Its tokens are words."""
        spans = split_words(text) if spans is None else list(spans)
        words = [text[a:b] for a, b in spans]
        return Segments(text, self.parts.source.of(words), spans, words, spans, list(range(len(words))))

    def score(self, examples: Sequence[Any], **options: Any) -> Scores:
        """What is known without gold links: the sizes of its vocabularies."""
        sizes = {"source_words": len(self.parts.source), "target_words": len(self.parts.target)}
        return Scores(sizes, f"{sizes['source_words']:,} and {sizes['target_words']:,} different words")

    def evaluate(self, options: PairEvaluation, progress: Callable[[int, int], None] | None = None) -> Scores:
        if options.source is None or options.gold_alignments is None:
            raise RunError(
                f"{self.folder} holds a word aligner: --source, --target and --gold-alignments are needed."
            )
        wanted = list(pairs(options.source, options.target))
        return alignment_scores(self, wanted, options)


def alignment_scores(system: Any, wanted: Sequence[tuple[str, str]], options: PairEvaluation) -> Scores:
    """How good the links are that `system.align` finds by default, against the gold links of a file."""
    gold = options.gold_alignments
    assert gold is not None
    sizes = [(len(one.split()), len(other.split())) for one, other in wanted]
    skipped: list[str] = []
    skip = options.out_of_range == "skip"
    links = read(gold, sizes, base=options.base, gold=True, skipped=skipped if skip else None)
    if len(links) != len(wanted):
        raise DataError(f"{gold} ends with sentence {len(links):,}, and there are {len(wanted):,}.")
    found = system.align(wanted)
    scores, known = score(found.links, links), score(found.links, links, aligned_words=True)
    looked: dict[str, float] = {}
    if found.view is not None:
        match = matched(system, wanted, found.view, links)
        looked = {"match": match.match, "weight_on_links": match.mass}
    figures = {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "aer_aligned_words": known.aer,
        **looked,
        "alignment": found.remarks,
        **({"gold_links_skipped": len(skipped)} if skip else {}),
    }
    line = (
        f"alignment error rate {scores.aer:.3f}, precision {scores.precision:.3f}, recall "
        f"{scores.recall:.3f}; without words that gold leaves unaligned {known.aer:.3f}"
    )
    if looked:
        line += f"; match score {looked['match']:.3f}, weight on linked words {looked['weight_on_links']:.3f}"
    return Scores(figures, line, notes=(*found.remarks, *said_skipped(skipped)))
