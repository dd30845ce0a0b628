"""The built-in corpus: grammatical, aligned word by word, one translation for each sentence, no leaks."""

import datetime
import re
from collections import Counter
from itertools import islice
from random import Random

import pytest
from num2words import num2words

from regard.data.corpora import CORPORA, Pair, phrases
from regard.data.corpora.numerals import english, german, millions, number, year
from regard.data.corpora.phrase import Frame, elided, phrase, whole
from regard.data.corpora.phrases import Grammar
from regard.data.corpora.prices import Prices
from regard.data.corpora.times import exact, of_day, spoken

both = pytest.mark.parametrize("language", ["de", "fr"])
SOME = {language: list(islice(phrases(language, 1), 20_000)) for language in ("de", "fr")}


def words(pair):
    """The links of a pair, as words."""
    ours, theirs = pair.source.split(), pair.target.split()
    return sorted((ours[i], theirs[j]) for i, j in pair.alignment)


def said(phrase_):
    return " ".join(phrase_.target)


class TestFrames:
    def test_slots_may_change_places_and_links_follow(self):
        frame = Frame("the {colour} {thing} costs", "le/the {thing}, {colour} coûte/costs")
        made = frame(colour=phrase("dark red", "rouge/red foncé/dark"), thing=whole("key ring", "porte-clés"))
        assert made.pair() == Pair(
            "the dark red key ring costs",
            "le porte-clés, rouge foncé coûte",
            [(0, 0), (1, 3), (2, 2), (3, 1), (4, 1), (5, 4)],
        )

    def test_a_word_may_stand_for_a_slot_and_one_word_for_many(self):
        made = Frame("on {day}", "an/on dem/{day} {day}")(day=whole("day one", "ersten"))
        assert made.pair() == Pair("on day one", "an dem ersten", [(0, 0), (1, 1), (1, 2), (2, 2)])

    def test_elision_joins_two_words(self):
        made = elided(
            Frame("from {time}", "de/from {time}")(time=phrase("one o'clock", "une/one heure/o'clock"))
        )
        assert made.pair() == Pair("from one o'clock", "d'une heure", [(0, 0), (1, 0), (2, 1)])
        kept = Frame("from {time}", "de/from {time}")(time=whole("eleven", "onze"))
        assert elided(kept) == kept

    def test_a_word_twice_is_refused(self):
        with pytest.raises(AssertionError, match="twice"):
            Frame("the man and the dog", "der/the Mann/man")


@both
class TestEveryPair:
    def test_alignment_is_of_words_that_are_there(self, language):
        for source, target, alignment in SOME[language]:
            ours, theirs = source.split(), target.split()
            assert (" ".join(ours), " ".join(theirs)) == (source, target)
            assert all(0 <= i < len(ours) and 0 <= j < len(theirs) for i, j in alignment)
            assert alignment == sorted(set(alignment))
            assert {j for _, j in alignment} == set(range(len(theirs)))  # attention must look somewhere

    def test_only_small_words_are_aligned_to_nothing(self, language):
        alone = Counter()
        for source, _, alignment in SOME[language]:
            linked = {i for i, _ in alignment}
            alone.update(word for i, word in enumerate(source.split()) if i not in linked)
        assert set(alone) <= {"and", "of", "oh", "on", "past"}

    def test_a_source_has_one_translation(self, language):
        found = {}
        for pair in SOME[language]:
            assert found.setdefault(pair.source, pair) == pair

    def test_links_agree_with_each_other(self, language):
        """A content word is always linked to the same few words: what the text was made from."""
        seen = {}
        for pair in SOME[language]:
            for ours, theirs in words(pair):
                if ours.rstrip(",") in (
                    "train",
                    "museum",
                    "blue",
                    "Tuesday",
                    "October",
                    "leaves",
                    "costs",
                    "days",
                ):
                    seen.setdefault(ours.rstrip(","), set()).add(theirs.rstrip(","))
        expected = {
            "de": {
                "train": {"Zug"}, "museum": {"Museum"}, "blue": {"blaue"}, "Tuesday": {"Dienstag"},
                "October": {"Oktober"}, "leaves": {"fährt", "ab"}, "costs": {"kostet"}, "days": {"Tagen"},
            },
            "fr": {
                "train": {"train"}, "museum": {"musée"}, "blue": {"bleu", "bleue"}, "Tuesday": {"mardi"},
                "October": {"octobre"}, "leaves": {"part"}, "costs": {"coûte"}, "days": {"jours"},
            },
        }[language]  # fmt: skip
        assert seen == expected

    def test_there_are_crossing_one_to_many_and_many_to_one_links(self, language):
        crossing = many = one = 0
        for pair in SOME[language]:
            targets = [j for _, j in pair.alignment]
            crossing += targets != sorted(targets)
            many += max(Counter(i for i, _ in pair.alignment).values()) > 1
            one += max(Counter(targets).values()) > 1
        assert min(crossing, many, one) > 0.15 * len(SOME[language])

    def test_text_is_plain(self, language):
        letters = set("".join(pair.source + pair.target for pair in SOME[language]))
        assert not letters & set("\xa0\u202f{}/+\t")

    def test_weekdays_are_those_of_the_calendar(self, language):
        dated = re.compile(r"(\w+day), (?:(\d+) (\w+)|(\w+) (\d+),) (\d{4})")
        found = [m.groups() for pair in SOME[language] if (m := dated.search(pair.source))]
        assert len(found) > 500
        for weekday, day, month, other_month, other_day, y in found:
            date = datetime.datetime.strptime(f"{day or other_day} {month or other_month} {y}", "%d %B %Y")
            assert date.strftime("%A") == weekday

    def test_splits_share_no_sentence(self, language):
        parts = [
            {pair.source for seed in (0, 1) for pair in islice(phrases(language, seed, split), n)}
            for split, n in (("train", 8000), ("valid", 500), ("test", 500))
        ]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])

    def test_the_same_seed_gives_the_same_stream(self, language):
        one, again, other = (list(islice(phrases(language, seed), 100)) for seed in (3, 3, 4))
        assert one == again
        assert len({pair.source for pair in one} & {pair.source for pair in other}) < 30

    def test_there_are_tens_of_millions_of_pairs(self, language):
        """Of n draws from N sentences, n²/2N pairs or more are expected to be equal: N is n²/2c or more."""
        grammar, chance = Grammar(language), Random(0)
        drawn = (grammar.inverted(chance).pair().source for _ in range(20_000))
        dated = Counter(source for source in drawn if re.search(r"\d{4}", source))
        n, repeated = dated.total(), sum(count * (count - 1) / 2 for count in dated.values())
        assert n**2 / 2 / max(repeated, 1) > 20e6

    def test_most_of_a_stream_is_new(self, language):
        assert len({pair.source for pair in SOME[language]}) > 0.8 * len(SOME[language])


class TestNumbers:
    def test_english_is_what_num2words_says(self):
        for n in [*range(1200), *range(1000, 1_000_000, 997), 999_999]:
            assert " ".join(english(n)) == num2words(n).replace("-", " ").replace(",", "")

    def test_german_is_what_num2words_says_but_for_one_thousand(self):
        for n in [*range(1200), *range(1000, 1_000_000, 997), 999_999]:
            assert german(n) == num2words(n, lang="de").replace("einstausend", "eintausend")

    def test_german_before_a_noun(self):
        for n, wanted in {
            1: "einen", 11: "elf", 21: "einundzwanzig", 101: "einhundertein", 1001: "eintausendein",
            201_000: "zweihunderteintausend", 301_201: "dreihunderteintausendzweihundertein",
        }.items():  # fmt: skip
            assert german(n, "einen") == wanted

    def test_french_is_what_num2words_says(self):
        for n in [*range(1200), *range(1000, 1_000_000, 997), 80_000, 200_000, 280_000, 380_200, 999_999]:
            assert said(number(n, "fr")) == num2words(n, lang="fr")

    def test_french_agrees_with_a_feminine_noun(self):
        for n, wanted in {
            1: "une", 11: "onze", 21: "vingt et une", 71: "soixante et onze", 81: "quatre-vingt-une",
            91: "quatre-vingt-onze", 101: "cent une", 1001: "mille une",
            21_021: "vingt et un mille vingt et une", 80: "quatre-vingts", 200: "deux cents",
        }.items():  # fmt: skip
            assert said(number(n, "fr", "une")) == wanted

    def test_links_of_french_numbers(self):
        made = number(271_121, "fr").pair()
        assert made.target == "deux cent soixante et onze mille cent vingt et un"
        assert words(made) == sorted([
            ("two", "deux"), ("hundred", "cent"), ("seventy", "soixante"), ("one", "et"), ("one", "onze"),
            ("seventy", "onze"), ("thousand", "mille"), ("one", "cent"), ("hundred", "cent"),
            ("twenty", "vingt"), ("one", "et"), ("one", "un"),
        ])  # fmt: skip
        assert {(1, 1), (6, 6), (7, 6)} <= set(made.alignment)  # each "cent" is of its own "hundred"

    def test_millions_are_nouns(self):
        assert [said(millions(k, "de")) for k in (1, 2, 21)] == [
            "eine Million", "zwei Millionen", "einundzwanzig Millionen"
        ]  # fmt: skip
        for k in range(1, 100):
            assert said(millions(k, "fr")) == num2words(k * 10**6, lang="fr")
            assert said(millions(k, "de")) == num2words(k * 10**6, lang="de")
        assert millions(2, "fr").pair().alignment == [(0, 0), (1, 1)]

    def test_years(self):
        for y in range(1900, 2100):
            assert said(year(y, "de")) == num2words(y, lang="de", to="year")
            wanted = num2words(y, lang="fr", to="year")
            wanted = wanted.removesuffix("s") if wanted.endswith(("cents", "vingts")) else wanted
            assert said(year(y, "fr")) == wanted
            for language in ("de", "fr"):
                made = year(y, language).pair()
                assert {j for _, j in made.alignment} == set(range(len(made.target.split())))
        assert words(year(1984, "fr").pair()) == sorted([
            ("nineteen", "mille"), ("nineteen", "neuf"), ("nineteen", "cent"),
            ("eighty", "quatre-vingt-quatre"), ("four", "quatre-vingt-quatre"),
        ])  # fmt: skip
        assert words(year(2005, "fr").pair()) == [("five", "cinq"), ("thousand", "mille"), ("two", "deux")]
        assert words(year(2021, "fr").pair())[-3:] == [
            ("twenty", "deux"),
            ("twenty", "mille"),
            ("twenty", "vingt"),
        ]


class TestTimes:
    @pytest.mark.parametrize(
        ("ours", "german_", "french"),
        [
            ("three o'clock", "drei Uhr", "trois heures"),
            ("one o'clock", "ein Uhr", "une heure"),
            ("quarter past one", "Viertel nach eins", "une heure et quart"),
            ("half past three", "halb vier", "trois heures et demie"),
            ("half past twelve", "halb eins", "douze heures et demie"),
            ("quarter to five", "Viertel vor fünf", "cinq heures moins le quart"),
            ("ten past six", "zehn nach sechs", "six heures dix"),
            ("twenty five past six", "fünf vor halb sieben", "six heures vingt-cinq"),
            ("twenty five to one", "fünf nach halb eins", "une heure moins vingt-cinq"),
            ("twenty to one", "zwanzig vor eins", "une heure moins vingt"),
        ],
    )
    def test_as_people_say_it(self, ours, german_, french):
        for language, wanted in (("de", german_), ("fr", french)):
            (found,) = [time for time in spoken(language) if " ".join(time.source) == ours]
            assert said(found) == wanted

    @both
    def test_every_time_once(self, language):
        for pool, size in ((spoken, 144 + 2), (of_day, 17 * 12), (exact, 24 * 50)):
            made = [time.pair() for time in pool(language)]
            assert (
                len({pair.source for pair in made})
                == len({pair.target for pair in made})
                == len(made)
                == size
            )

    def test_the_clock_has_24_hours(self):
        found = {" ".join(time.source): said(time) for time in exact("de")}
        assert found["three forty two pm"] == "fünfzehn Uhr zweiundvierzig"
        assert found["twelve ten am"] == "null Uhr zehn"
        assert found["one fifty am"] == "ein Uhr fünfzig"
        found = {" ".join(time.source): said(time) for time in exact("fr")}
        assert found["nine twenty one pm"] == "vingt et une heures vingt et une"
        assert found["twelve ten am"] == "zéro heure dix"
        assert found["twelve ten pm"] == "douze heures dix"

    def test_parts_of_the_day(self):
        found = {" ".join(time.source): said(time) for time in of_day("fr")}
        assert found["quarter to six in the afternoon"] == "six heures moins le quart de l'après-midi"
        assert found["six o'clock in the evening"] == "six heures du soir"
        assert not any("twelve" in time and "past" in time for time in found)


LONG = {language: {} for language in ("de", "fr")}


def translations(language):
    """Many sentences and their translations, drawn once."""
    if not LONG[language]:
        LONG[language].update({pair.source: pair for pair in SOME[language]})
    return LONG[language]


class TestGrammar:
    """What CLDR and num2words do not know about sentences."""

    def test_german(self):
        for source, pair in translations("de").items():
            target = pair.target
            assert not re.search(
                r"\beins\b (?!nachmittags|morgens|abends|bis|ab\b|an\b|geöffnet)\w", target
            ), target
            if source.endswith(("days ago", "months ago", "years ago")):
                assert re.search(r"vor .*(Tagen|Monaten|Jahren)$", target)
            if re.match(r"on \w+, \d", source):
                assert re.match(r"am \w+, dem \d+\. ", target)
            if " leaves " in source:
                assert target.endswith(" ab") and " fährt " in target
            if source.startswith(("on ", "every ")) and " leaves " in source:
                assert target.index("fährt") < min(target.find(s) % 999 for s in (" der ", " die ", " das "))
            for word in re.findall(
                r"\b(?:[Jj]apanisch|[Ss]chwedisch|[Pp]olnisch|[Ii]ndisch|[Bb]ritisch)\w*", target
            ):
                assert word[0].islower()

    def test_german_one(self):
        prices = Prices("de")
        one = {
            (c.many.source, accusative): said(prices.of(1, c, accusative))
            for c in prices.currencies
            for accusative in (False, True)
        }
        assert one[("euros",), False] == "ein Euro"
        assert one[("euros",), True] == "einen Euro"
        assert one[("Polish", "zlotys"), False] == "ein polnischer Złoty"
        assert one[("Polish", "zlotys"), True] == "einen polnischen Złoty"
        assert one[("Swedish", "kronor"), True] == "eine schwedische Krone"
        assert one[("British", "pounds"), True] == "ein britisches Pfund"
        assert one[("Swiss", "francs"), True] == "einen Schweizer Franken"
        assert prices.draw(Random(0), accusative=True).target

    def test_french(self):
        for source, pair in translations("fr").items():
            target = pair.target
            assert not re.search(r"\bde (une|euros)\b", target), target
            assert not re.search(
                r"\bun (livre sterling|couronne|roupie|heure|minute|seconde|semaine)s?\b", target
            ), target
            assert not re.search(r"\bune (euro|dollar|franc|yen|zloty|jour|mois|an)s?\b", target), target
            assert not re.search(r"\b1 (janvier|février|mars|avril|mai|juin|juillet|août)", target), target
            assert ("ouverte" in target) == ("is open" in source and target.startswith("la "))
            if "million " in source + " " and re.search(r"million \w", source):
                assert re.search(r"millions? (de \w|d'euros)", target), target

    def test_adjectives_come_after_and_agree(self):
        found = translations("fr").values()
        chair = next(pair for pair in found if pair.source.startswith("the white chair costs"))
        assert chair.target.startswith("la chaise blanche coûte")
        assert {(0, 0), (1, 2), (2, 1), (3, 3)} <= set(chair.alignment)
        kronor = next(pair for pair in found if pair.source.endswith("Swedish kronor"))
        n, m = len(kronor.source.split()), len(kronor.target.split())
        assert kronor.target.endswith("couronnes suédoises")
        assert {(n - 2, m - 1), (n - 1, m - 2)} <= set(kronor.alignment)

    def test_the_verb_in_two_halves(self):
        pair = next(
            p for p in translations("de").values() if p.source.startswith("the train leaves at half past")
        )
        theirs = pair.target.split()
        assert [theirs[j] for i, j in pair.alignment if i == 2] == ["fährt", "ab"]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match='language must be "de" or "fr"; got \'es\''):
        phrases("es")
    with pytest.raises(ValueError, match="split must be one of train, valid, test; got 'dev'"):
        phrases("de", split="dev")


def test_the_table_has_every_corpus():
    assert list(CORPORA) == ["phrases-de", "phrases-fr", "copy", "reverse", "dictionary", "pronouns"]
    for name, corpus in CORPORA.items():
        assert corpus.name == name
        assert corpus.says.endswith(".")
        (train,), (test,) = (list(islice(corpus(seed=1, split=split), 1)) for split in ("train", "test"))
        assert isinstance(train, Pair)
        assert train != test
    assert next(CORPORA["phrases-fr"](2)) == next(phrases("fr", 2))
