"""The built-in corpus: dates, times, numbers and prices in English, and in German or French.

    the train leaves on the third of March at half past three
    der Zug fährt am dritten März um halb vier ab          le train part le trois mars à trois heures et demie

Generated from the names and patterns of CLDR (babel) and the numerals of num2words, with exact gold word
alignments: many-to-one (twenty four → vierundzwanzig), one-to-many (leaves → fährt … ab) and crossing (white
car → voiture blanche). A source has one translation. There are more than 10⁹ pairs; dates are from 1900 to
2099, numbers up to 999,999 and in round millions.

    sentences   when trains leave, films begin and shops are open; what a blue chair costs
    phrases     dates (dates.py), times (times.py), prices (prices.py), durations (durations.py), numbers
"""

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Literal

from regard.data.corpora import numerals, times
from regard.data.corpora.dates import DAYS, Dates
from regard.data.corpora.durations import Durations
from regard.data.corpora.lexicon import CLAUSES, COLOURS, OPEN, SUBJECTS, THINGS
from regard.data.corpora.phrase import Frame, Pair, Phrase, elided, phrase, pick
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
        self.dates, self.prices, self.durations = Dates(language), Prices(language), Durations(language)
        self.at = Frame("at {time}", ("um/at {time}", "à/at {time}")[side])
        self.since = Frame("from {time}", ("von/from {time}", "de/from {time}")[side])
        self.both = Frame("{date} {time}", "{date} {time}")
        self.costs = Frame(
            "{what} costs {price}", ("{what} kostet/costs {price}", "{what} coûte/costs {price}")[side]
        )
        self.subjects = {
            kind: [phrase(ours, theirs[side]) for ours, theirs in names.items()]
            for kind, names in SUBJECTS.items()
        }
        self.clauses = [
            (self.subjects[kind], Frame(ours, theirs[side]), _inverted(ours, theirs[side], language))
            for kind, clauses in CLAUSES.items()
            for ours, theirs in clauses.items()
        ]
        ((ours, theirs),) = OPEN.items()
        self.open = [Frame(ours, theirs[side].replace("ouvert", word)) for word in ("ouvert", "ouverte")]
        self.things = [thing for name in THINGS for thing in _things(name, side)]
        self.kinds = [
            *[self.clause] * 6, *[self.inverted] * 2, self.hours, *[self.cost] * 4, self.date, self.time,
            *[self.price] * 2, self.number, *[self.duration] * 2,
        ]  # fmt: skip

    def draw(self, chance: Random) -> Pair:
        """A sentence or a phrase."""
        return pick(self.kinds, chance)(chance).pair()

    def clause(self, chance: Random) -> Phrase:
        """The train leaves on the third of March at half past three."""
        subjects, frame, _ = pick(self.clauses, chance)
        kind = chance.random()
        if kind < 0.3:
            when = self._at(chance)
        elif kind < 0.5:
            when = self.dates.draw(self.dates.within, chance)
        else:
            when = self.both(date=self._day(chance), time=self._at(chance))
        return frame(who=pick(subjects, chance), when=when)

    def inverted(self, chance: Random) -> Phrase:
        """On the third of March the train leaves at half past three: in German the verb stays second."""
        subjects, _, frame = pick(self.clauses, chance)
        return frame(date=self._day(chance), who=pick(subjects, chance), time=self._at(chance))

    def hours(self, chance: Random) -> Phrase:
        """The shop is open from nine o'clock to half past six."""
        who, spoken = pick(self.subjects["place"], chance), times.spoken(self.language)
        start = elided(self.since(time=pick(spoken, chance)))
        return self.open[who.target[0] == "la"](who=who, start=start, end=pick(spoken, chance))

    def cost(self, chance: Random) -> Phrase:
        """The blue chair costs three hundred euros."""
        return self.costs(what=pick(self.things, chance), price=self.prices.draw(chance, accusative=True))

    def date(self, chance: Random) -> Phrase:
        """Monday, March 4, 2024; or with its preposition."""
        return self.dates.draw(self.dates.alone if chance.random() < 0.5 else self.dates.within, chance)

    def time(self, chance: Random) -> Phrase:
        """At half past three."""
        return self._at(chance)

    def price(self, chance: Random) -> Phrase:
        """Three hundred euros."""
        return self.prices.draw(chance, accusative=False)

    def number(self, chance: Random) -> Phrase:
        """Three hundred and one; thirty million."""
        if chance.random() < 0.1:
            return numerals.millions(1 + int(chance.random() * 99), self.language)
        return numerals.number(amount(chance), self.language)

    def duration(self, chance: Random) -> Phrase:
        """In three days; three days ago."""
        return self.durations.draw(chance)

    def _at(self, chance: Random) -> Phrase:
        kinds = (times.spoken, times.of_day, times.exact)
        return self.at(time=pick(pick(kinds, chance)(self.language), chance))

    def _day(self, chance: Random) -> Phrase:
        return self.dates.draw(self.dates.within[:DAYS], chance)


_grammar = cache(Grammar)


def _inverted(source: str, target: str, language: Language) -> Frame:
    """The clause with the date before it."""
    words = target.replace("{when}", "{time}").split()
    if language == "de":
        words[:2] = words[1], words[0]
    return Frame("{date} " + source.replace("{when}", "{time}"), " ".join(["{date}", *words]))


def _things(name: str, french: bool) -> Iterator[Phrase]:
    """The chair, the red chair, …"""
    article, noun = THINGS[name][french].split()
    yield phrase(f"the {name}", f"{article}/the {noun}/{name}")
    for colour, (german, masculine, feminine) in COLOURS.items():
        if french:
            target = f"{article}/the {noun}/{name} {feminine if article == 'la' else masculine}/{colour}"
        else:
            target = f"{article}/the {german}/{colour} {noun}/{name}"
        yield phrase(f"the {colour} {name}", target)
