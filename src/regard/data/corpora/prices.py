"""Prices in words, with the currency names of CLDR.

    three Swedish kronor          → drei schwedische Kronen            trois couronnes suédoises
    twenty one British pounds     → einundzwanzig britische Pfund      vingt et une livres sterling
    two million euros             → zwei Millionen Euro                deux millions d'euros
    four euros and fifty cents    → vier Euro fünfzig                  quatre euros cinquante

CLDR's names are for lists. In a sentence a German adjective is in lower case (except "Schweizer"), and a
price that is paid is in the accusative ("einen polnischen Złoty").
"""

from random import Random
from typing import NamedTuple

from regard.data.corpora import numerals
from regard.data.corpora.phrase import Frame, Links, Phrase, elided, joined, pick
from regard.data.text import needed

CURRENCIES = {  # gender in German and in French
    "EUR": "mm", "USD": "mm", "GBP": "nf", "CHF": "mm", "CAD": "mm", "AUD": "mm", "JPY": "mm", "SEK": "ff",
    "PLN": "mm", "INR": "ff",
}  # fmt: skip
PARTS = {"EUR": "cents", "CAD": "cents", "GBP": "pence", "CHF": "centimes"}  # prices with a fraction
EIN = {"m": ("ein", "einen"), "f": ("eine", "eine"), "n": ("ein", "ein")}  # nominative and accusative


class Currency(NamedTuple):
    """The names of a currency."""

    one: tuple[Phrase, Phrase]  # nominative and accusative
    many: Phrase
    of_many: Phrase  # after a million
    eins: tuple[str, str]  # the form of 1 before it


class Prices:
    """The prices of one language."""

    def __init__(self, language: str):
        self.language = language
        self.currencies = [_currency(code, language) for code in CURRENCIES]
        self.fractions = [
            (_currency(code, language, short=True), Frame(f"{{n}} and {{c}} {part}", f"{{n}} {{c}}/{part}"))
            for code, part in PARTS.items()
        ]
        self.fives = [numerals.number(c, language) for c in range(5, 100, 5)]

    def draw(self, chance: Random, accusative: bool) -> Phrase:
        """A price, as the object of a verb (accusative) or on its own."""
        kind = chance.random()
        if kind < 0.1:
            millions = numerals.millions(1 + int(chance.random() * 99), self.language)
            return joined(millions, pick(self.currencies, chance).of_many)
        if kind < 0.4:
            currency, frame = pick(self.fractions, chance)
            price = self.of(1 + int(chance.random() * 99), currency, accusative)
            return frame(n=price, c=pick(self.fives, chance))
        return self.of(amount(chance), pick(self.currencies, chance), accusative)

    def of(self, n: int, currency: Currency, accusative: bool) -> Phrase:
        """n of a currency."""
        number = numerals.number(n, self.language, currency.eins[accusative])
        return joined(number, currency.one[accusative] if n == 1 else currency.many)


def amount(chance: Random) -> int:
    """A number from 1 to 999,999, mostly small."""
    size = chance.random()
    top = 99 if size < 0.5 else 999 if size < 0.75 else 9_999 if size < 0.9 else 999_999
    return numerals.few(chance) if size < 0.2 else 1 + int(chance.random() * top)


def _currency(code: str, language: str, short: bool = False) -> Currency:
    """The names of a currency, or of its noun alone: Swiss francs or francs."""
    name = needed("babel.numbers").get_currency_name
    (one, their_one), (many, their_many) = (
        [name(code, count=count, locale=each).split() for each in ("en", language)] for count in (1, 2)
    )
    gender = CURRENCIES[code][language == "fr"]
    if language == "de":
        eins, noun = EIN[gender], slice(-1, None)
        paid = their_one = _small(their_one)
        of_many = their_many = _small(their_many)
        if gender == "m":
            paid = [word.removesuffix("er") + "en" if word.islower() else word for word in their_one]
    else:
        eins, noun = (("une", "une") if gender == "f" else ("un", "un")), slice(0, 1)
        paid, of_many = their_one, ["de", *their_many]

    def linked(ours: list[str], theirs: list[str]) -> Phrase:
        return _linked(ours[-1:], theirs[noun], language) if short else _linked(ours, theirs, language)

    ones = linked(one, their_one), linked(one, paid)
    return Currency(ones, linked(many, their_many), elided(_linked(many, of_many, language)), eins)


def _linked(ours: list[str], theirs: list[str], language: str) -> Phrase:
    """Links the noun (last in English and German, first in French) to the noun and the rest to the rest.

    A single German word (US-Dollar) is linked to both.
    """
    links: Links = [(0, 0), (len(ours) - 1, len(theirs) - 1)]
    if language == "fr":
        nouns = 1 + (theirs[0] == "de")
        links = [(len(ours) - 1, j) if j < nouns else (0, j) for j in range(len(theirs))]
    return Phrase(tuple(ours), tuple(theirs), sorted(set(links)))


def _small(words: list[str]) -> list[str]:
    """German: the adjective in lower case, as within a sentence."""
    return [words[0] if words[0] == "Schweizer" else words[0].lower(), *words[1:]] if words[1:] else words
