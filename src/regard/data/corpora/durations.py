"""Durations, with the units of CLDR.

    in twenty one days            → in einundzwanzig Tagen             dans vingt et un jours
    twenty one hours ago          → vor einundzwanzig Stunden          il y a vingt et une heures

German has the dative: the names of CLDR, with an n added to plurals without one.
"""

from random import Random

from regard.data.corpora import numerals
from regard.data.corpora.phrase import Phrase, frames, pick, whole
from regard.data.extra import needed

UNITS = {  # gender in German and in French
    "second": "ff", "minute": "ff", "hour": "ff", "day": "mm", "week": "ff", "month": "mm", "year": "nm",
}  # fmt: skip
FRAMES = {
    "in {n} {unit}": ("in/in {n} {unit}", "dans/in {n} {unit}"),
    "{n} {unit} ago": ("vor/ago {n} {unit}", "il/ago y/ago a/ago {n} {unit}"),
}
EINS = {"de": {"f": "einer", "m": "einem", "n": "einem"}, "fr": {"f": "une", "m": "un"}}


class Durations:
    """The durations of one language."""

    def __init__(self, language: str):
        self.language = language
        self.units = [_unit(name, language) for name in UNITS]
        self.frames = frames(FRAMES, language)

    def draw(self, chance: Random) -> Phrase:
        """A time from now, or ago: in three days, three days ago."""
        one, many, eins = pick(self.units, chance)
        n = 1 + int(chance.random() * (99 if chance.random() < 0.7 else 999))
        number = numerals.number(n, self.language, eins)
        return pick(self.frames, chance)(n=number, unit=one if n == 1 else many)


def _unit(name: str, language: str) -> tuple[Phrase, Phrase, str]:
    """The unit in the singular and in the plural, and the form of "one" before it."""
    format_unit = needed("babel.units").format_unit
    (one, their_one), (many, their_many) = (
        [format_unit(count, f"duration-{name}", locale=each).split()[1] for each in ("en", language)]
        for count in (1, 2)
    )
    if language == "de":
        their_many = their_many.removesuffix("n") + "n"
    eins = EINS[language][UNITS[name][language == "fr"]]
    return whole(one, their_one), whole(many, their_many), eins
