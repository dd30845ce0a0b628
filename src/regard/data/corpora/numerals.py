"""Numbers, years and days in words, English with German or French, aligned word by word.

English compounds are separate words ("twenty four"), German numbers up to 999,999 are one word, French ones
several. The output of num2words is corrected where it is not grammatical before a noun: "einhundertein Euro"
and "zweihunderteintausend" in German, "vingt et une livres" in French, where the number of a year has no
plural s ("mille neuf cent quatre-vingt").
"""

from functools import cache

from regard.data.corpora.phrase import Phrase, whole
from regard.data.extra import needed

Words = tuple[str, ...]


def number(n: int, language: str, one: str = "") -> Phrase:
    """n from 0 to 999,999. Before a noun, `one` is the form of 1 there: "einen" or "eine", "une"."""
    if language == "de":
        return whole(" ".join(english(n)), german(n, one))
    return _french(n, one == "une", plural=True)


def millions(k: int, language: str) -> Phrase:
    """k million, k from 1 to 99; "million" is a noun in German and French."""
    ours = english(k)
    if language == "de":
        theirs: Words = (german(k, "eine"), "Million" if k == 1 else "Millionen")
        links = [(i, 0) for i in range(len(ours))]
    else:
        _, theirs, links = _french(k, False, plural=True)
        theirs = (*theirs, "million" if k == 1 else "millions")
    return Phrase((*ours, "million"), theirs, [*links, (len(ours), len(theirs) - 1)])


@cache
def year(n: int, language: str) -> Phrase:
    """A year from 1900 to 2099, as it is read aloud: nineteen eighty four."""
    ours = tuple(_words(n, "en", "year"))
    if language == "de":
        return whole(" ".join(ours), "".join(_words(n, "de", "year")))
    century, rest = divmod(n, 100)
    _, last, inner = _below_100(rest, False, plural=False) if rest else ((), (), [])
    at = len(ours) - len(_words(rest, "en")) if rest else len(ours)  # where the last two digits begin
    if century == 19:
        theirs: Words = ("mille", "neuf", "cent")
        links = [(0, 0), (0, 1), (0 if rest else 1, 2)]
    else:
        theirs = ("deux", "mille")
        links = [(0, 0), (1 if ours[1] == "thousand" else 0, 1)]
    return Phrase(ours, theirs + last, links + [(i + at, j + len(theirs)) for i, j in inner])


@cache
def day(n: int, language: str) -> Phrase:
    """A day of the month, as it is read aloud after "on the": third, dritten (dative), trois."""
    ours = _words(n, "en", "ordinal")
    if language == "de":
        return whole(" ".join(ours), "".join(_words(n, "de", "ordinal")) + "n")
    if n == 1:
        return whole("first", "premier")
    _, theirs, links = _below_100(n, False, plural=True)
    return Phrase(tuple(ours), theirs, links)


def english(n: int) -> Words:
    """n from 0 to 999,999 in words: two thousand and twenty four."""
    if n < 1000:
        return _small()[n]
    thousands, rest = divmod(n, 1000)
    last = () if not rest else _small()[rest] if rest >= 100 else ("and", *_small()[rest])
    return (*_small()[thousands], "thousand", *last)


def german(n: int, one: str = "") -> str:
    """n from 0 to 999,999 in one word; with `one`, its form before a noun."""
    if n < 1000:
        word = _german()[n]
        if one and n % 100 == 1:
            return one if n == 1 else word.removesuffix("s")
        return word
    thousands, rest = divmod(n, 1000)
    return (
        german(thousands, "ein")
        + "tausend"
        + (german(rest, one if rest > 1 else "ein" * bool(one)) if rest else "")
    )


def _french(n: int, feminine: bool, plural: bool) -> Phrase:
    """n from 0 to 999,999; quatre-vingts and deux cents lose their s where `plural` is off."""
    if n < 1000:
        return _french_small(n, feminine, plural)
    thousands, rest = divmod(n, 1000)
    ours, theirs, links = _french_small(thousands, False, False)
    if thousands == 1:
        theirs, links = ("mille",), [(0, 0), (1, 0)]
    else:
        theirs, links = (*theirs, "mille"), [*links, (len(ours), len(theirs))]
    if not rest:
        return Phrase((*ours, "thousand"), theirs, links)
    _, last, inner = _french_small(rest, feminine, plural)
    whole_ = english(n)
    at = len(whole_) - len(english(rest))
    return Phrase(whole_, theirs + last, links + [(i + at, j + len(theirs)) for i, j in inner])


@cache
def _french_small(n: int, feminine: bool, plural: bool) -> Phrase:
    hundreds, rest = divmod(n, 100)
    if not hundreds:
        return _below_100(n, feminine, plural)
    ours = english(n)
    if hundreds == 1:
        theirs: Words = ("cent",)
        links = [(0, 0), (1, 0)]
    else:
        theirs = (*_words(hundreds, "fr"), "cent" if rest or not plural else "cents")
        links = [(0, 0), (1, 1)]
    if rest:
        inside, last, inner = _below_100(rest, feminine, plural)
        at = len(ours) - len(inside)
        theirs, links = theirs + last, links + [(i + at, j + len(theirs)) for i, j in inner]
    return Phrase(ours, theirs, links)


@cache
def _below_100(n: int, feminine: bool, plural: bool) -> Phrase:
    ours, theirs = _words(n, "en"), _words(n, "fr")
    if feminine and n % 10 == 1 and n not in (11, 71, 91):
        theirs[-1] = theirs[-1].removesuffix("un") + "une"
    if n == 80 and not plural:
        theirs = ["quatre-vingt"]
    if len(theirs) < 3:  # one word: hyphens join
        return whole(" ".join(ours), " ".join(theirs))
    links = [(0, 0), (1, 1), (1, 2)]  # vingt et un; in soixante et onze, onze belongs to seventy too
    return Phrase(tuple(ours), tuple(theirs), links + [(0, 2)] * (n == 71))


@cache
def _small() -> list[Words]:
    return [tuple(_words(n, "en")) for n in range(1000)]


@cache
def _german() -> list[str]:
    return ["".join(_words(n, "de")) for n in range(1000)]


def _words(n: int, language: str, to: str = "cardinal") -> list[str]:
    """The words that num2words gives; English hyphens become spaces."""
    text = str(needed("num2words").num2words(n, lang=language, to=to))
    return (text.replace("-", " ").replace(",", "") if language == "en" else text).split()
