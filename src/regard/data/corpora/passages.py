"""Generated passages with questions: spans, and a cloze with anonymous names.

spans   Four to six sentences, each a fact: who did what with which things, where and when. A question gives
        two parts of one fact and asks for a third. Another fact shares the first part, another the second:
        one of them alone does not tell.

            Anna sold nine red apples near the old bridge on Monday . Bert sold two maps near …
            What did Anna sell on Monday ?   →   nine red apples

cloze   Sentences about names that say nothing (@entity3), and a last one that leaves a name out, with words
        before it that are of no use.

            @entity2 paid @entity7 . @entity7 saw @entity4 . …
            in spite of the rain , @placeholder saw @entity4   →   @entity7

Names in a cloze are drawn anew for each example, after Hermann et al. (2015), arXiv:1506.03340, §2.
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.phrase import pick
from regard.data.corpora.split import Split, stream
from regard.data.questions import PassageQuestion

PEOPLE = ["Anna", "Bert", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Kate", "Leo"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
KINDS = ["red", "green", "old", "new", "small", "large", "cheap", "heavy"]
THINGS = ["apples", "maps", "lamps", "books", "chairs", "coats", "bottles", "stamps", "boxes", "clocks"]
PLACES = ["bridge", "station", "market", "river", "school", "church", "harbour", "theatre"]
VERBS = [("sold", "sell"), ("bought", "buy"), ("lost", "lose"), ("found", "find"), ("painted", "paint")]
NAMES = 20  # @entity0 …
ACTS = ["paid", "saw", "called", "followed", "helped", "painted", "forgot", "invited"]
LEADS = [
    "in spite of the rain ,", "as the papers say ,", "on a cold morning ,", "if that is true ,", "so far ,",
    "after a long day ,", "to nobody's surprise ,", "without a word ,",
]  # fmt: skip


def spans(seed: int = 0, split: Split = "train") -> Iterator[PassageQuestion]:
    """Passages with questions whose answer is a span."""
    return stream(_span, split, seed, "passage")


def cloze(seed: int = 0, split: Split = "train") -> Iterator[PassageQuestion]:
    """Passages about anonymous names, with a sentence that leaves one out."""
    return stream(_cloze, split, seed, "passage")


def _some(what: list[str], count: int, chance: Random) -> list[str]:
    return chance.sample(what, count)


def _span(chance: Random) -> PassageQuestion:
    count = 4 + int(chance.random() * 3)
    people, days = _some(PEOPLE, count, chance), _some(DAYS, count, chance)
    people[1], days[2] = people[0], days[0]  # a fact of the same person, and one of the same day
    facts = []
    for person, day in zip(people, days, strict=True):
        number, thing, place = (pick(what, chance) for what in (NUMBERS, THINGS, PLACES))
        kind = f"{pick(KINDS, chance)} " if chance.random() < 0.6 else ""
        old = f"{pick(KINDS, chance)} " if chance.random() < 0.4 else ""
        facts.append((person, pick(VERBS, chance), f"{number} {kind}{thing}", f"near the {old}{place}", day))
    asked, order = int(chance.random() * 3), list(range(count))
    chance.shuffle(order)
    passage, at = "", (0, 0)
    for i in order:
        person, verb, things, where, day = facts[i]
        front = chance.random() < 0.5
        sentence = f"{person} {verb[0]} {things} {where}"
        sentence = f"On {day} {sentence} ." if front else f"{sentence} on {day} ."
        passage += " " * bool(passage)
        if i == 0:
            answer = (things, where, person)[asked]
            start = len(passage) + sentence.index(answer)
            at = (start, start + len(answer))
        passage += sentence
    person, verb, things, _, day = facts[0]
    question = (
        f"What did {person} {verb[1]} on {day} ?",
        f"Where was {person} on {day} ?",
        f"Who {verb[0]} {things} on {day} ?",
    )[asked]
    return PassageQuestion(passage, question, (at,))


def _cloze(chance: Random) -> PassageQuestion:
    names = _some([f"@entity{i}" for i in range(NAMES)], 6, chance)
    acts, facts = _some(ACTS, 5, chance), []
    for act in acts:
        one, other = _some(names, 2, chance)
        facts.append((one, act, other))
    one, act, other = facts[0]
    facts.append((pick([name for name in names if name not in (one, other)], chance), acts[1], other))
    chance.shuffle(facts)
    passage = " ".join(f"{a} {b} {c} ." for a, b, c in facts)
    lead = " ".join(_some(LEADS, 2, chance))
    places = list[tuple[int, int]]()
    at = -1
    while (at := passage.find(one, at + 1)) >= 0:
        if passage[at + len(one)] == " ":
            places.append((at, at + len(one)))
    return PassageQuestion(passage, f"{lead} @placeholder {act} {other} .", tuple(places))
