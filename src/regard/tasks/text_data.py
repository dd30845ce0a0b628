"""What tasks on text share: where examples come from, held out or not, and how text is cut into tokens."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

from regard.core.settings import file_setting, setting
from regard.data.splits import Part, held_out
from regard.data.tokenizer import Kind, Tokenizer
from regard.tasks.task import Located, Say, TaskData

SAMPLE = 1_000_000  # texts a vocabulary is made from
SOURCE = "Sentences, one per line (.gz too); or pairs in one .tsv, .csv or .jsonl."
SOURCE_COLUMN = 'The column of the sentences in one file of pairs; "source" unless given.'
TARGET_COLUMN = 'The column of their translations; "target" unless given.'


@dataclass(frozen=True)
class TextData(TaskData):
    """A generated corpus or files of texts."""

    needed = True

    corpus: str | None = setting(None, "A generated corpus instead of files.", option="--corpus")
    held_out: int = setting(
        1000, "Examples to validate on, where no file is given (at most a tenth of all).", least=1
    )
    tokens: Literal["bpe", "word", "lowercase", "character"] = setting("bpe", "How text is cut into tokens.")
    vocabulary: int = setting(8000, "Different tokens.", least=1)
    longest: int = setting(256, "Tokens of a text; examples with longer ones are left out.", least=1)


@dataclass(frozen=True)
class PairFiles:
    """Options of commands that read sentence pairs, with or without gold word links."""

    source: str | None = file_setting(SOURCE)
    target: str | None = file_setting("Their translations.")
    gold_alignments: str | None = file_setting(
        "Gold links between the words of source and target, in Pharaoh's or NAACL's format: adds aer."
    )
    base: int | None = setting(None, "What gold links count from, 0 or 1, if they do not tell.")


@dataclass(frozen=True)
class PairEvaluation(PairFiles):
    """What `regard evaluate` asks of a system that aligns words."""

    out_of_range: Literal["refuse", "skip"] = setting(
        "refuse", "Gold links beyond the end of a sentence: refuse the file, or skip and count them."
    )


def located(where: str, examples: Iterable[Any], what: str) -> Iterator[Located]:
    """Examples, each with where it stands: "train.tsv, text 3"."""
    return ((f"{where}, {what} {i}", example) for i, example in enumerate(examples, 1))


def examples(
    data: TextData,
    corpora: Mapping[str, Any],
    seed: int,
    count: int,
    read: Callable[..., Iterator[Located]],
    train: tuple[str | None, ...],
    valid: tuple[str | None, ...],
    part: Part,
    what: str,
) -> Iterator[Located]:
    """Generated examples, `count` to learn from, or what `read` finds in files, each with where it stands.

    Without files to validate on some of the training examples are held out.
    """
    if data.corpus is not None:
        made = corpora[data.corpus](seed, part)
        return located(data.corpus, islice(made, count if part == "train" else data.held_out), what)
    files = train if part == "train" or valid[0] is None else valid

    if valid[0] is not None:
        return read(*files)
    return held_out(
        lambda: read(*files), [file for file in files if file is not None], part, data.held_out, what
    )


class TokenSettings(Protocol):
    """Settings of data that say how texts are cut into tokens."""

    @property
    def tokens(self) -> Kind:
        """The kind of tokens."""
        ...

    @property
    def vocabulary(self) -> int:
        """Different tokens at most."""
        ...


def make_tokenizer(texts: Iterable[str], data: TokenSettings, say: Say) -> Tokenizer:
    """A tokenizer of the settings for texts, which may have fewer different tokens than are asked for."""
    say(f"making a vocabulary of at most {data.vocabulary:,} {data.tokens} tokens")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how many there are is said here
        tokenizer = Tokenizer.train(texts, data.tokens, data.vocabulary)
    say(f"a vocabulary of {len(tokenizer):,} {data.tokens} tokens")
    return tokenizer
