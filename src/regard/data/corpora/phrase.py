"""Phrases in two languages with gold word alignments, composed of smaller phrases.

A frame is a template: a source with slots, and a target with the same slots in its own order, in which each
word names, after a slash, the source words that it translates. Links are made together with the text, not
inferred from it.

    Frame("the train leaves {when}", "der/the Zug/train fährt/leaves {when} ab/leaves")

Every target word has at least one link, since attention weights sum to 1; a source word may have none.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Words = tuple[str, ...]
Links = list[tuple[int, int]]


class Pair(NamedTuple):
    """A sentence, its translation, and which words correspond: (source word, target word), counted from 0."""

    source: str
    target: str
    alignment: Links


class Phrase(NamedTuple):
    """Words of the source, words of the target, and the links between them."""

    source: Words
    target: Words
    links: Links

    def pair(self) -> Pair:
        """As text; words are separated by one space."""
        return Pair(" ".join(self.source), " ".join(self.target), sorted(self.links))


def phrase(source: str, target: str) -> Phrase:
    """A phrase without slots, written like a frame."""
    return Frame(source, target)()


def whole(source: str, target: str) -> Phrase:
    """A phrase in which every source word is linked to every target word."""
    ours, theirs = tuple(source.split()), tuple(target.split())
    return Phrase(ours, theirs, [(i, j) for i in range(len(ours)) for j in range(len(theirs))])


def joined(*parts: Phrase) -> Phrase:
    """Phrases one after the other, in both languages."""
    ours, theirs, links = list[str](), list[str](), Links()
    for source, target, inner in parts:
        links += [(i + len(ours), j + len(theirs)) for i, j in inner]
        ours += source
        theirs += target
    return Phrase(tuple(ours), tuple(theirs), links)


class Frame:
    """A phrase with slots, filled by `frame(when=…)`; text after a slot ("{day},") joins its last word."""

    def __init__(self, source: str, target: str):
        ours, theirs = source.split(), [word.split("/") for word in target.split()]
        self.source = [_item(word) for word in ours]
        self.target = [_item(word[0]) for word in theirs]
        places = {slot or word: i for i, (slot, word) in enumerate(self.source)}
        assert len(places) == len(ours), f"a word twice in {source!r}: links would be ambiguous"
        self.links = [
            (places[name.strip("{}")], j)
            for j, word in enumerate(theirs)
            for name in (word[1].split("+") if len(word) > 1 else ())
        ]  # between the items of the frame; slots are linked to themselves
        self.slots = [(slot, places[slot], j) for j, (slot, _) in enumerate(self.target) if slot]

    def __call__(self, **slots: Phrase) -> Phrase:
        """The phrase with its slots filled; phrases for slots that it does not have are ignored."""
        ours, here = _filled(self.source, {name: each.source for name, each in slots.items()})
        theirs, there = _filled(self.target, {name: each.target for name, each in slots.items()})
        links = [(here[i], there[j]) for i, j in self.links]
        for slot, i, j in self.slots:
            links += [(here[i] + a, there[j] + b) for a, b in slots[slot].links]
        return Phrase(ours, theirs, links)


def frames(table: Mapping[str, tuple[str, str]], language: str) -> list[Frame]:
    """The frames of a table {English: (German, French)}."""
    return [Frame(ours, theirs[language == "fr"]) for ours, theirs in table.items()]


def elided(phrase: Phrase) -> Phrase:
    """French elision: "de une" and "de euros" at the beginning become one word, "d'une", "d'euros"."""
    ours, theirs, links = phrase
    if theirs[0] != "de" or theirs[1] not in ("une", "euros"):  # "de onze heures" and "de yens" stay
        return phrase
    joined = sorted({(i, max(j - 1, 0)) for i, j in links})
    return Phrase(ours, ("d'" + theirs[1], *theirs[2:]), joined)


def pick(things: Sequence[T], chance: Random) -> T:
    """A random one of these; three times as fast as Random.choice."""
    return things[int(chance.random() * len(things))]


def _item(word: str) -> tuple[str, str]:
    """("day", ",") for "{day},": a slot and what follows it; ("", "on") for "on"."""
    if not word.startswith("{"):
        return "", word
    slot, _, rest = word[1:].partition("}")
    return slot, rest


def _filled(items: list[tuple[str, str]], slots: Mapping[str, Words]) -> tuple[Words, list[int]]:
    """The words of the items of a frame, and where each item begins."""
    words, begins = list[str](), list[int]()
    for slot, word in items:
        begins.append(len(words))
        if slot:
            words += slots[slot]
            words[-1] += word
        else:
            words.append(word)
    return tuple(words), begins
