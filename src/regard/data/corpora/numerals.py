"""Numbers, years and days in words, English with German or French, aligned word by word.

English compounds are separate words ("twenty four"), German numbers up to 999,999 are one word, French ones
several. The output of num2words is corrected where it is not grammatical before a noun: "einhundertein Euro"
and "zweihunderteintausend" in German, "vingt et une livres" in French, where the number of a year has no
plural s ("mille neuf cent quatre-vingt").
"""

from functools import cache, lru_cache
from random import Random

from regard.data.corpora.phrase import Phrase, Words, joined, whole
from regard.data.text import needed

AND = Phrase(("and",), (), [])


def few(chance: Random) -> int:
    """A number from 1 to 12; 1 three times in ten, so that singulars ("one minute") are not rare."""
    return 1 + int(12 * chance.random() ** 2)


def number(n: int, language: str, one: str = "") -> Phrase:
    """n from 0 to 999,999. Before a noun, `one` is the form of 1 there: "einen" or "eine", "une"."""
    if language == "de":
        return whole(" ".join(english(n)), german(n, one))
    return _french(n, one == "une")


def millions(k: int, language: str) -> Phrase:
    """k million, k from 1 to 99; "million" is a noun in German and French."""
    names = {"de": ("Million", "Millionen"), "fr": ("million", "millions")}[language]
    return joined(number(k, language, "eine"), whole("million", names[k > 1]))


def year(n: int, language: str) -> Phrase:
    """A year from 1900 to 2099, as it is read aloud: nineteen eighty four."""
    ours, rest = _words(n, "en", "year"), n % 100
    if language == "de":
        return whole(" ".join(ours), "".join(_words(n, "de", "year")))
    last = _below_100(rest, plural=False) if rest else Phrase((), (), [])
    before = ours[: len(ours) - len(last.source)]  # the last two digits
    if n < 2000:
        century = Phrase(before, ("mille", "neuf", "cent"), [(0, 0), (0, 1), (0 if rest else 1, 2)])
    else:
        century = Phrase(before, ("deux", "mille"), [(0, 0), (int(ours[1] == "thousand"), 1)])
    return joined(century, last)


def day(n: int, language: str) -> Phrase:
    """A day of the month, as it is read aloud after "on the": third, dritten (dative), trois."""
    ours = _words(n, "en", "ordinal")
    if language == "de":
        return whole(" ".join(ours), "".join(_words(n, "de", "ordinal")) + "n")
    return whole("first", "premier") if n == 1 else _below_100(n)._replace(source=ours)


def english(n: int) -> Words:
    """n from 0 to 999,999 in words: two thousand and twenty four."""
    thousands, rest = divmod(n, 1000)
    if not thousands:
        return _words(n, "en")
    last = () if not rest else english(rest) if rest >= 100 else ("and", *english(rest))
    return (*english(thousands), "thousand", *last)


def german(n: int, one: str = "") -> str:
    """n from 0 to 999,999 in one word; with `one`, its form before a noun."""
    thousands, rest = divmod(n, 1000)
    if thousands:
        last = german(rest, one if rest > 1 else "ein" * bool(one)) if rest else ""
        return german(thousands, "ein") + "tausend" + last
    word = "".join(_words(n, "de"))
    if one and n % 100 == 1:
        return one if n == 1 else word.removesuffix("s")
    return word


@lru_cache(maxsize=2**13)
def _french(n: int, feminine: bool = False, plural: bool = True) -> Phrase:
    """n from 0 to 999,999; quatre-vingts and deux cents lose their s where `plural` is off."""
    if n < 100:
        return _below_100(n, feminine, plural)
    size, ours, theirs = (1000, "thousand", "mille") if n >= 1000 else (100, "hundred", "cent")
    count, rest = divmod(n, size)
    if count == 1:
        first = whole(f"one {ours}", theirs)
    else:
        plural_s = "s" if size == 100 and plural and not rest else ""
        first = joined(_french(count, plural=False), whole(ours, theirs + plural_s))
    if not rest:
        return first
    return joined(first, *[AND] * (rest < 100), _french(rest, feminine, plural))


def _below_100(n: int, feminine: bool = False, plural: bool = True) -> Phrase:
    ours, theirs = _words(n, "en"), _words(n, "fr")
    if feminine and n % 10 == 1 and n not in (11, 71, 91):
        theirs = (*theirs[:-1], theirs[-1].removesuffix("un") + "une")
    if n == 80 and not plural:
        theirs = ("quatre-vingt",)
    if len(theirs) < 3:  # one word: hyphens join
        return whole(" ".join(ours), " ".join(theirs))
    links = [(0, 0), (1, 1), (1, 2)]  # vingt et un; in soixante et onze, onze belongs to seventy too
    return Phrase(ours, theirs, links + [(0, 2)] * (n == 71))


@cache
def _words(n: int, language: str, to: str = "cardinal") -> Words:
    """The words that num2words gives; English hyphens become spaces."""
    text = str(needed("num2words").num2words(n, lang=language, to=to))
    return tuple((text.replace("-", " ").replace(",", "") if language == "en" else text).split())
