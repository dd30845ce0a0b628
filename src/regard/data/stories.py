"""Stories with questions: bAbI's files as they are, or .jsonl; plain or gzip.

bAbI    numbered lines; a number that is not larger than the one before begins a new story. A line with tabs
        is a question: question, answer, and the numbers of the lines that support the answer:

            1 Mary moved to the bathroom.
            2 John went to the hallway.
            3 Where is Mary? 	bathroom	1

.jsonl  {"story": ["…", …], "question": "…", "answer": "…", "facts": [0], "task": "…"}; the story may be one
        text, facts (numbers of sentences, from 0) and task may be missing.

Weston et al. (2015), "Towards AI-Complete Question Answering", arXiv:1502.05698.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.splits import Part
from regard.data.tables import kind_of, objects
from regard.data.text_lines import DataError, located_lines

KINDS = (".txt", ".jsonl")
LINE = re.compile(r" *([0-9]{1,9}) (.*)")
WORD = re.compile(r"\w+(?:['’]\w+)*")
SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


@dataclass(frozen=True)
class StoryQuestion:
    """A question about the sentences before it."""

    story: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...] = ()  # numbers of the sentences that support the answer, from 0
    task: str = ""
    number: int = 0  # of the story in its file


def words(text: str) -> list[str]:
    """The words of a sentence in small letters, without punctuation."""
    return [word.replace("’", "'") for word in WORD.findall(text.lower())]


def answer_word(answer: str) -> str:
    """An answer as one word: small letters, "_" for spaces."""
    return "_".join(answer.lower().split())


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text stand: they end in . ! ? or with the line."""
    spans = []
    for found in SENTENCE.finditer(text):
        start, stop = found.span()
        inside = found.group()
        start += len(inside) - len(inside.lstrip())
        stop -= len(inside) - len(inside.rstrip())
        if words(text[start:stop]):
            spans.append((start, stop))
    return spans


def sentences(text: str) -> list[str]:
    """The sentences of a text; if all its lines have numbers, as bAbI's have, without these and questions."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [LINE.fullmatch(line) for line in lines]
    if lines and all(found):
        text = "\n".join(one[2] for one in found if one is not None and "\t" not in one[2])
    return [text[start:stop] for start, stop in sentence_spans(text)]


def story_files(given: Sequence[str], part: Part | None = None) -> list[str]:
    """The files that are meant: files, patterns with *, or folders, of which those of a part are taken.

    Of a folder, the files with "train" in their names are to train on; those with "test", if part is None,
    to evaluate on; or all, if no name has such a word.
    """
    word = "train" if part == "train" else "valid" if part == "valid" else "test"
    found: list[str] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            there = sorted((file for file in path.iterdir() if kind_of(file) in KINDS), key=_natural)
            named = [file for file in there if word in file.name.lower()]
            if not there:
                raise DataError(f"{one}: the folder has no .txt or .jsonl files.")
            found += [str(file) for file in named or there]
        elif "*" in path.name and not path.exists():
            there = sorted(path.parent.glob(path.name), key=_natural)
            if not there:
                raise DataError(f"{one}: no file is called so.")
            found += [str(file) for file in there]
        else:
            found.append(one)
    return list(dict.fromkeys(found))


def _natural(path: Path) -> list[Any]:
    """Numbers in names by their size: qa2 before qa10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", path.name)]


def questions(path: str | Path) -> Iterator[tuple[str, StoryQuestion]]:
    """The questions of a file, each with where it stands."""
    task = task_name(path)
    if kind_of(path) == ".jsonl":
        for number, (where, entry) in enumerate(objects(path)):
            yield where, _from_object(where, entry, task, number)
        return
    some = False
    for where, question in _numbered(path, task):
        some = True
        yield where, question
    if not some:
        raise DataError(f"{path}: there is no question: no line has a tab.")


def task_name(path: str | Path) -> str:
    """The task of a file: qa1 of qa1_single-supporting-fact_train.txt, else the file's name."""
    name = Path(Path(path).name.removesuffix(".gz")).stem
    found = re.match(r"qa[0-9]+", name)
    return found[0] if found else re.sub(r"[-_.]?(train|valid|test|dev)$", "", name) or name


def _numbered(path: str | Path, task: str) -> Iterator[tuple[str, StoryQuestion]]:
    story: list[str] = []
    place: dict[int, int] = {}  # of the line with this number in the story
    last, number = 0, -1
    for where, line in located_lines(path):
        if not line.strip():
            continue
        found = LINE.fullmatch(line)
        if found is None:
            raise DataError(f"{where}: a line begins with its number in the story; got {line[:40]!r}.")
        here, rest = int(found[1]), found[2]
        if here <= last or number < 0:
            story, place, number = [], {}, number + 1
        last = here
        if "\t" not in rest:
            place[here] = len(story)
            story.append(rest.strip())
            continue
        question, answer, *facts = (cell.strip() for cell in rest.split("\t"))
        if not words(question) or not answer:
            raise DataError(f"{where}: a question and its answer are needed; got {rest[:40]!r}.")
        try:
            supporting = tuple(place[int(fact)] for fact in " ".join(facts).split())
        except (ValueError, KeyError):
            raise DataError(f"{where}: {' '.join(facts)[:40]!r} are no lines of this story.") from None
        if not story:
            raise DataError(f"{where}: a question without a story.")
        yield where, StoryQuestion(tuple(story), question, answer, supporting, task, number)


def _from_object(where: str, entry: Any, task: str, number: int) -> StoryQuestion:
    if not isinstance(entry, dict):
        raise DataError(f"{where}: an object with story, question and answer is needed.")
    story, question, answer = (entry.get(name) for name in ("story", "question", "answer"))
    story = sentences(story) if isinstance(story, str) else story
    if not isinstance(story, list) or not all(isinstance(one, str) for one in story):
        raise DataError(f'{where}: "story" must be a text or a list of sentences.')
    if not isinstance(question, str) or not isinstance(answer, str) or not answer.strip():
        raise DataError(f'{where}: "question" and "answer" must be texts.')
    if not any(map(words, story)) or not words(question):
        raise DataError(f"{where}: the story or the question has no words.")
    facts = entry.get("facts") or []
    if not isinstance(facts, list) or not all(type(f) is int and 0 <= f < len(story) for f in facts):
        raise DataError(f'{where}: "facts" must be numbers of sentences, from 0 to {len(story) - 1}.')
    name = entry.get("task", task)
    return StoryQuestion(tuple(story), question, answer, tuple(facts), str(name), number)
