"""Durations, with the units of CLDR.

    in twenty one days            → in einundzwanzig Tagen             dans vingt et un jours
    twenty one hours ago          → vor einundzwanzig Stunden          il y a vingt et une heures

German has the dative: the names of CLDR, with an n added to plurals without one.
"""

from random import Random

from regard.data.corpora import numerals
from regard.data.corpora.phrase import Frame, Phrase, pick, whole
from regard.data.extra import needed

UNITS = {  # gender in German and in French
    "second": "ff", "minute": "ff", "hour": "ff", "day": "mm", "week": "ff", "month": "mm", "year": "nm",
}  # fmt: skip
FRAMES = {
    "in {n} {unit}": ("in/in {n} {unit}", "dans/in {n} {unit}"),
    "{n} {unit} ago": ("vor/ago {n} {unit}", "il/ago y/ago a/ago {n} {unit}"),
}


class Durations:
    """The durations of one language."""

    def __init__(self, language: str):
        self.language = language
        self.units = [_unit(name, language) for name in UNITS]
        self.frames = [Frame(source, target[language == "fr"]) for source, target in FRAMES.items()]

    def draw(self, chance: Random) -> Phrase:
        """A time from now, or ago."""
        one, many, eins = pick(self.units, chance)
        n = 1 + int(chance.random() * (99 if chance.random() < 0.7 else 999))
        return pick(self.frames, chance)(
            n=numerals.number(n, self.language, eins), unit=one if n == 1 else many
        )


def _unit(name: str, language: str) -> tuple[Phrase, Phrase, str]:
    """The unit in the singular and in the plural, and the form of "one" before it."""
    format_unit = needed("babel.units").format_unit
    ours = [format_unit(count, f"duration-{name}", locale="en").split()[1] for count in (1, 2)]
    theirs = [format_unit(count, f"duration-{name}", locale=language).split()[1] for count in (1, 2)]
    gender = UNITS[name][language == "fr"]
    if language == "de":
        eins = "einer" if gender == "f" else "einem"
        theirs[1] = theirs[1].removesuffix("n") + "n"
    else:
        eins = "une" if gender == "f" else "un"
    return whole(ours[0], theirs[0]), whole(ours[1], theirs[1]), eins
