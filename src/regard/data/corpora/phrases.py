"""The built-in corpus: dates, times, numbers and prices in English, and in German or French.

    the train leaves on the third of March at half past three
    der Zug fährt am dritten März um halb vier ab          le train part le trois mars à trois heures et demie

Generated from the names and patterns of CLDR (babel) and the numerals of num2words, with exact gold word
alignments: many-to-one (twenty four → vierundzwanzig), one-to-many (leaves → fährt … ab) and crossing (white
car → voiture blanche). A source has one translation. There are more than 10⁹ pairs; dates are from 1900 to
2099, numbers up to 999,999 and in round millions.

    sentences   when trains leave, films begin and shops are open; what a blue chair costs
    phrases     dates and durations (dates.py), times (times.py), prices (prices.py), numbers
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from random import Random
from typing import Literal

from regard.data.corpora import numerals, times
from regard.data.corpora.dates import DAYS, Dates
from regard.data.corpora.lexicon import COLOURS, FRAMES, OPEN, SUBJECTS, THINGS, VERBS
from regard.data.corpora.phrase import Frame, Pair, Phrase, elided, frames, joined, phrase, pick, whole
from regard.data.corpora.prices import Prices, amount
from regard.data.corpora.split import Split, stream

Language = Literal["de", "fr"]


def phrases(language: Language = "de", seed: int = 0, split: Split = "train") -> Iterator[Pair]:
    """Endless pairs, English to German ("de") or French ("fr"). No sentence is in two splits."""
    if language not in ("de", "fr"):
        raise ValueError(f'language must be "de" or "fr"; got {language!r}.')
    return stream(_grammar(language).draw, split, seed)


class Grammar:
    """The phrases of one target language, and how often each is drawn."""

    def __init__(self, language: Language):
        side = language == "fr"
        self.language = language
        self.dates, self.prices = Dates(language), Prices(language)
        self.at, self.since, self.costs, self.is_open = frames(FRAMES, language)
        self.open = [whole("open", word) for word in OPEN[language]]
        self.subjects = {
            kind: [_noun(name, theirs[side]) for name, theirs in names.items()]
            for kind, names in SUBJECTS.items()
        }
        self.clauses = [
            (self.subjects[kind], *_clauses(verb, theirs[side], language))
            for kind, verbs in VERBS.items()
            for verb, theirs in verbs.items()
        ]
        self.things = [
            _noun(name, theirs[side], colour) for name, theirs in THINGS.items() for colour in ("", *COLOURS)
        ]
        self.kinds: list[Callable[[Random], Phrase]] = [
            *[self.clause] * 6, *[self.inverted] * 2, self.hours, *[self.cost] * 4, self.date, self.time,
            *[partial(self.prices.draw, accusative=False)] * 2, self.number, *[self.dates.duration] * 2,
        ]  # fmt: skip

    def draw(self, chance: Random) -> Pair:
        """A sentence or a phrase."""
        return pick(self.kinds, chance)(chance).pair()

    def clause(self, chance: Random) -> Phrase:
        """The train leaves on the third of March at half past three."""
        subjects, frame, _ = pick(self.clauses, chance)
        kind = chance.random()
        if kind < 0.3:
            when = self.time(chance)
        elif kind < 0.5:
            when = self.dates.draw(self.dates.within, chance)
        else:
            when = joined(self._day(chance), self.time(chance))
        return frame(who=pick(subjects, chance), when=when)

    def inverted(self, chance: Random) -> Phrase:
        """On the third of March the train leaves at half past three: in German the verb stays second."""
        subjects, _, frame = pick(self.clauses, chance)
        return frame(date=self._day(chance), who=pick(subjects, chance), when=self.time(chance))

    def hours(self, chance: Random) -> Phrase:
        """The shop is open from nine o'clock to half past six."""
        who, spoken = pick(self.subjects["place"], chance), times.spoken(self.language)
        start, end = elided(self.since(time=pick(spoken, chance))), pick(spoken, chance)
        return self.is_open(who=who, open=self.open[who.target[0] == "la"], start=start, end=end)

    def cost(self, chance: Random) -> Phrase:
        """The blue chair costs three hundred euros."""
        return self.costs(what=pick(self.things, chance), price=self.prices.draw(chance, accusative=True))

    def date(self, chance: Random) -> Phrase:
        """Monday, March 4, 2024; or with its preposition."""
        return self.dates.draw(self.dates.alone if chance.random() < 0.5 else self.dates.within, chance)

    def time(self, chance: Random) -> Phrase:
        """At half past three."""
        kinds = (times.spoken, times.of_day, times.exact)
        return self.at(time=pick(pick(kinds, chance)(self.language), chance))

    def number(self, chance: Random) -> Phrase:
        """Three hundred and one; thirty million."""
        if chance.random() < 0.1:
            return numerals.millions(1 + int(chance.random() * 99), self.language)
        return numerals.number(amount(chance), self.language)

    def _day(self, chance: Random) -> Phrase:
        return self.dates.draw(self.dates.within[:DAYS], chance)


_grammar = cache(Grammar)


def _clauses(verb: str, theirs: str, language: Language) -> tuple[Frame, Frame]:
    """Who leaves when; and the same with a date before it."""
    first, *rest = (f"{word}/{verb}" for word in theirs.split())
    if language == "de":
        targets = ["{who}", first, "{when}", *rest], ["{date}", first, "{who}", "{when}", *rest]
    else:
        targets = ["{who}", first, *rest, "{when}"], ["{date}", "{who}", first, *rest, "{when}"]
    plain, inverted = map(" ".join, targets)
    return Frame(f"{{who}} {verb} {{when}}", plain), Frame(f"{{date}} {{who}} {verb} {{when}}", inverted)


def _noun(name: str, theirs: str, colour: str = "") -> Phrase:
    """The chair, or the red chair; a French colour comes after its noun and agrees with it."""
    article, noun = theirs.split()
    words = [f"{article}/the", f"{noun}/{name}"]
    if colour:
        german, masculine, feminine = COLOURS[colour]
        adjective = {"le": masculine, "la": feminine}.get(article, german)
        words.insert(2 if article in ("le", "la") else 1, f"{adjective}/{colour}")
    return phrase(f"the {colour} {name}", " ".join(words))
