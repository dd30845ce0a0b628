"""Dates and durations, with the names of CLDR.

    on Monday, 4 March 2024       → am Montag, dem 4. März 2024        le lundi 4 mars 2024
    on March 4, 2024              → am 4. März 2024                    le 4 mars 2024
    on the fourth of March        → am vierten März                    le quatre mars
    in March 2024                 → im März 2024                       en mars 2024
    on Monday                     → am Montag                          lundi
    every Monday                  → jeden Montag                       chaque lundi

also with the year in words (nineteen eighty four), and dates on their own, in CLDR's patterns. Weekdays are
those of the calendar. CLDR's patterns have the case of a date on its own: in a sentence German has the dative
("dem 4. März"). The first of a month is "1er" in French.

    in twenty one days            → in einundzwanzig Tagen             dans vingt et un jours
    twenty one hours ago          → vor einundzwanzig Stunden          il y a vingt et une heures

German has the dative here too: the units of CLDR, with an n added to plurals without one.
"""

import datetime
import re
from random import Random
from typing import Any

from regard.data.corpora import numerals
from regard.data.corpora.phrase import Frame, Phrase, frames, pick, whole
from regard.data.text import needed

FIRST, LAST = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
FRAMES = {  # English: (German, French)
    "on {weekday}, {day} {month} {year}":
        ("am/on {weekday}, dem/{day} {day}. {month} {year}", "le/on {weekday} {day} {month} {year}"),
    "on {month} {day}, {year}": ("am/on {day}. {month} {year}", "le/on {day} {month} {year}"),
    "on the {nth} of {month}": ("am/on+the {nth} {month}", "le/on+the {nth} {month}"),
    "on the {nth} of {month} {said}": ("am/on+the {nth} {month} {said}", "le/on+the {nth} {month} {said}"),
    "on {weekday}": ("am/on {weekday}", "{weekday}"),
    "every {weekday}": ("jeden/every {weekday}", "chaque/every {weekday}"),
    "in {month} {year}": ("im/in {month} {year}", "en/in {month} {year}"),
    "in {month}": ("im/in {month}", "en/in {month}"),
}  # fmt: skip
DAYS = 6  # the first six name a day: a time may follow
FIELDS = {"EEEE": "{weekday}", "MMMM": "{month}", "d": "{day}", "y": "{year}"}
UNITS = {  # gender in German and in French
    "second": "ff", "minute": "ff", "hour": "ff", "day": "mm", "week": "ff", "month": "mm", "year": "nm",
}  # fmt: skip
FROM_NOW = {
    "in {n} {unit}": ("in/in {n} {unit}", "dans/in {n} {unit}"),
    "{n} {unit} ago": ("vor/ago {n} {unit}", "il/ago y/ago a/ago {n} {unit}"),
}
EINS = {"de": {"f": "einer", "m": "einem", "n": "einem"}, "fr": {"f": "une", "m": "un"}}


class Dates:
    """The dates and durations of one language."""

    def __init__(self, language: str):
        self.language = language
        locale = needed("babel").Locale
        both = locale("en"), locale(language)
        self.weekday = [whole(*(each.days["format"]["wide"][k] for each in both)) for k in range(7)]
        self.month = [whole(*(each.months["format"]["wide"][k] for each in both)) for k in range(1, 13)]
        self.day = [whole(str(k), "1er" if language == "fr" and k == 1 else str(k)) for k in range(1, 32)]
        self.nth = [numerals.day(k, language) for k in range(1, 32)]
        self.year = [whole(str(y), str(y)) for y in range(1900, 2100)]
        self.said = [numerals.year(y, language) for y in range(1900, 2100)]
        self.units = [_unit(name, language) for name in UNITS]
        self.within, self.from_now = frames(FRAMES, language), frames(FROM_NOW, language)
        self.alone = [Frame(*(_slots(each.date_formats[k]) for each in both)) for k in ("full", "long")]

    def draw(self, frames: list[Frame], chance: Random) -> Phrase:
        """One of these frames, filled with a day between 1900 and 2099."""
        date = datetime.date.fromordinal(FIRST + int(chance.random() * (LAST + 1 - FIRST)))
        return pick(frames, chance)(
            weekday=self.weekday[date.weekday()],
            month=self.month[date.month - 1],
            day=self.day[date.day - 1],
            nth=self.nth[date.day - 1],
            year=self.year[date.year - 1900],
            said=self.said[date.year - 1900],
        )

    def duration(self, chance: Random) -> Phrase:
        """In three days; three days ago."""
        one, many, eins = pick(self.units, chance)
        size = chance.random()
        n = numerals.few(chance) if size < 0.4 else 1 + int(chance.random() * (99 if size < 0.8 else 999))
        number = numerals.number(n, self.language, eins)
        return pick(self.from_now, chance)(n=number, unit=one if n == 1 else many)


def _slots(pattern: Any) -> str:
    """CLDR's pattern as a frame: "EEEE, d. MMMM y" is {weekday}, {day}. {month} {year}."""
    return re.sub("[A-Za-z]+", lambda field: FIELDS[field.group()], pattern.pattern)


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
