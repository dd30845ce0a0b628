"""Questions about passages: SQuAD's JSON as it is, and cloze questions as .jsonl or in the format of CBT.

    .json    {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text",
             "answer_start"}]}]}]}]}, SQuAD 1.1 and 2.0, XQuAD, PolicyQA …
    .jsonl   {"passage", "question", "answer"} on each line: the answer is a word of the passage, which the
             question leaves out ("@placeholder", "XXXXX"); or "answers", several of them
    .txt     the Children's Book Test: numbered sentences, the last with a tab, the answer and candidates

Each also .gz. A question whose answer is not in the passage, that has no answer, or that SQuAD 2.0 calls
impossible, is left out, and `LeftOut` counts and names it.

Rajpurkar et al. (2016), arXiv:1606.05250; Hill et al. (2016), arXiv:1511.02301 (CBT).
"""

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from regard.data.byte_level import Span
from regard.data.segments import SPACES
from regard.data.splits import Part
from regard.data.tables import kind_of, objects
from regard.data.text_lines import DataError, decoded, located_lines, opened

Why = Literal["impossible", "answer", "unanswered", "empty"]
SENTENCES = {  # what is said of those that are left out
    "impossible": "{n} have no answer in their passage, as SQuAD 2.0 has them",
    "answer": "{n} have an answer that is not in their passage, as {which}",
    "unanswered": "{n} come without an answer, as {which}",
    "empty": "{n} have an empty passage or question, as {which}",
}


@dataclass(frozen=True)
class PassageQuestion:
    """A question about a passage, and its right answers: spans of characters of the passage."""

    passage: str
    question: str
    spans: tuple[Span, ...]  # each [from, to)
    key: str = ""  # its id, where it has one
    title: str = ""  # of the document that the passage is from

    @property
    def answers(self) -> list[str]:
        """The right answers as text."""
        return [self.passage[start:stop] for start, stop in self.spans]


@dataclass
class LeftOut:
    """How many questions were left out, and why; of each kind the first by name."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, why: Why, which: str) -> None:
        """Count one question."""
        self.counts[why] += 1
        self.first.setdefault(why, which)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each reason."""
        return [
            f"{SENTENCES[why].format(n=f'{count:,} questions', which=self.first[why])}; they are left out"
            for why, count in self.counts.items()
        ]


def located_questions(
    path: str | Path, left_out: LeftOut | None = None
) -> Iterator[tuple[str, PassageQuestion]]:
    """The questions of a file, each with the place where it stands; DataError if there are none."""
    left_out, kind = LeftOut() if left_out is None else left_out, kind_of(path)
    readers = {".json": _squad, ".jsonl": _cloze, ".txt": _book}
    if kind not in readers:
        raise DataError(
            f"{path}: questions must be in SQuAD's .json, or cloze ones in .jsonl or CBT's .txt; .gz too."
        )
    some = False
    for where, question in readers[kind](path, left_out):
        some = True
        yield where, question
    if not some:
        why = " ".join(f"{one}." for one in left_out.sentences)
        raise DataError(f"{path}: there is no question that could be used. {why}".strip())


def held_out_part(passage: str, part: Part, share: int = 10) -> bool:
    """Whether a passage, with all of its questions, is in a part: one of `share` is to validate on."""
    number = int.from_bytes(blake2b(passage.encode("utf-8", "replace"), digest_size=4).digest())
    return (number % share == 0) == (part == "valid")


def _squad(path: str | Path, left_out: LeftOut) -> Iterator[tuple[str, PassageQuestion]]:
    top = _json(path)
    documents = top.get("data") if isinstance(top, dict) else None
    if not isinstance(documents, list):
        keys = ", ".join(map(repr, list(top)[:4])) if isinstance(top, dict) else type(top).__name__
        raise DataError(f'{path}: SQuAD\'s JSON is an object with "data", a list of documents; found {keys}.')
    for i, document in enumerate(documents, 1):
        title = _get(document, "title", str, f"{path}, document {i}", "")
        for j, paragraph in enumerate(_get(document, "paragraphs", list, f"{path}, document {i}"), 1):
            where = f"{path}, document {i}, paragraph {j}"
            passage = _get(paragraph, "context", str, where)
            for k, entry in enumerate(_get(paragraph, "qas", list, where), 1):
                at = f"{where}, question {k}"
                asked, key = _get(entry, "question", str, at), entry.get("id", "")
                found = _answers(entry, passage, at)
                which = f"{key!r}" if key else f"question {k} of paragraph {j} of document {i}"
                if entry.get("is_impossible") is True:
                    left_out.add("impossible", which)
                elif not passage.strip(SPACES) or not asked.strip(SPACES):
                    left_out.add("empty", which)
                elif found is None:
                    left_out.add("unanswered", which)
                elif not found:
                    left_out.add("answer", which)
                else:
                    yield at, PassageQuestion(passage, asked, tuple(found), str(key), title)


def _answers(entry: dict[str, Any], passage: str, where: str) -> list[Span] | None:
    """The spans of the answers that are in the passage; None if no answer is given."""
    given = _get(entry, "answers", list, where, [])
    found = []
    for answer in given:
        text, start = _get(answer, "text", str, where), answer.get("answer_start")
        if not isinstance(start, int) or isinstance(start, bool):
            raise DataError(f'{where}: "answer_start" must be a whole number; got {start!r}.')
        if text.strip(SPACES) and passage[max(start, 0) :].startswith(text) and start >= 0:
            found.append((start, start + len(text)))
    return found if given else None


def _cloze(path: str | Path, left_out: LeftOut) -> Iterator[tuple[str, PassageQuestion]]:
    for where, entry in objects(path):
        if not isinstance(entry, dict):
            raise DataError(f'{where}: an object with "passage", "question" and "answer" is needed.')
        passage, asked = _get(entry, "passage", str, where), _get(entry, "question", str, where)
        several = "answers" in entry
        answers = _get(entry, "answers", list, where) if several else [_get(entry, "answer", str, where)]
        if not all(isinstance(answer, str) for answer in answers):
            raise DataError(f'{where}: "answers" must be texts; got {answers!r}.')
        yield from _found(where, passage, asked, answers, left_out)


def _book(path: str | Path, left_out: LeftOut) -> Iterator[tuple[str, PassageQuestion]]:
    sentences: list[str] = []
    for where, line in located_lines(path):
        if not line.strip(SPACES):
            sentences = []
            continue
        number, _, text = line.partition(" ")
        if not number.isdigit():
            raise DataError(f"{where}: a line of the Children's Book Test begins with a number.")
        if "\t" not in text:
            sentences.append(text)
            continue
        asked, answer, *_ = text.split("\t")
        yield from _found(where, " ".join(sentences), asked, [answer], left_out)
        sentences = []


def _found(
    where: str, passage: str, asked: str, answers: list[str], left_out: LeftOut
) -> Iterator[tuple[str, PassageQuestion]]:
    """The question with all places in which its answer, a whole word, stands."""
    if not passage.strip(SPACES) or not asked.strip(SPACES):
        left_out.add("empty", where)
        return
    places = [
        match.span()
        for answer in answers
        if answer.strip(SPACES)
        for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", passage)
    ]
    if not places:
        left_out.add("answer", where)
        return
    yield where, PassageQuestion(passage, asked, tuple(places), where)


def _json(path: str | Path) -> Any:
    with opened(Path(path)) as file:
        text = decoded(file.read().removeprefix(BOM_UTF8), str(path))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}).") from None


def _get(entry: Any, key: str, kind: type, where: str, default: Any = None) -> Any:
    """A value of an object, of this kind; DataError if it is another, or missing without a default."""
    value = entry.get(key, default) if isinstance(entry, dict) else None
    if not isinstance(value, kind):
        what = "a text" if kind is str else "a list"
        found = f"{value!r:.40}" if isinstance(entry, dict) and key in entry else "nothing"
        raise DataError(f'{where}: "{key}", {what}, is needed as in SQuAD\'s JSON; found {found}.')
    return value
