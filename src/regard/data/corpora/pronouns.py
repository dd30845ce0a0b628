"""Sentences whose pronoun is decided in the sentence before, English to German, with gold links.

    the table is near the lamp          (read, not translated)
    the cat sleeps today                (the sentence before)
    it sees the horse now               →  sie sieht das Pferd jetzt

"it" is "er", "sie" or "es" by the gender of the subject of the sentence before, each in a third of the texts;
the sentence before that, and the noun in the sentence itself, have a gender drawn by chance. Without the
sentence before nothing tells which. The source is a text of three lines, of which the last
is translated; links are to its words.
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.phrase import Pair, pick
from regard.data.corpora.split import Split, stream

PRONOUNS = ("er", "sie", "es")
NOUNS = {
    "dog": "den Hund", "table": "den Tisch", "bird": "den Vogel", "apple": "den Apfel", "tree": "den Baum",
    "cat": "die Katze", "lamp": "die Lampe", "bag": "die Tasche", "door": "die Tür", "bee": "die Biene",
    "horse": "das Pferd", "book": "das Buch", "house": "das Haus", "child": "das Kind", "car": "das Auto",
}  # fmt: skip
GENDERS = {"den": "er", "die": "sie", "das": "es"}
VERBS = {"sees": "sieht", "finds": "findet", "hides": "versteckt", "shows": "zeigt", "likes": "mag"}
WHEN = {"now": "jetzt", "today": "heute", "here": "hier", "often": "oft", "again": "wieder"}
PLACES = ("near", "behind", "beside", "below")
STATES = ("sleeps", "waits", "stays", "falls", "is old", "is new")


def pronoun_of(noun: str) -> str:
    """The German pronoun for an English noun."""
    return GENDERS[NOUNS[noun].split()[0]]


def pronouns(seed: int = 0, split: Split = "train") -> Iterator[Pair]:
    """Texts of three lines and the translation of the last."""
    nouns, verbs, when = list(NOUNS), list(VERBS), list(WHEN)

    def draw(chance: Random) -> Pair:
        older, place, other, subject, thing = (
            pick(some, chance) for some in (nouns, PLACES, nouns, nouns, nouns)
        )
        first = f"the {older} is {place} the {other}"
        before = f"the {subject} {pick(STATES, chance)} {pick(when, chance)}"
        verb, time = pick(verbs, chance), pick(when, chance)
        target = f"{pronoun_of(subject)} {VERBS[verb]} {NOUNS[thing]} {WHEN[time]}"
        links = [(k, k) for k in range(5)]
        return Pair(f"{first}\n{before}\nit {verb} the {thing} {time}", target, links)

    return stream(draw, split, seed)
