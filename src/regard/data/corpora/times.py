"""Times of day in words.

spoken   half past three → halb vier, trois heures et demie
         quarter to five → Viertel vor fünf, cinq heures moins le quart
         twenty five past six → fünf vor halb sieben, six heures vingt-cinq
         with or without the part of the day: in the morning → morgens, du matin
         at noon → um zwölf Uhr mittags, à midi
exact    three forty two pm → fünfzehn Uhr zweiundvierzig, quinze heures quarante-deux
"""

from functools import cache

from regard.data.corpora.numerals import english, german, number
from regard.data.corpora.phrase import Frame, Phrase, frames, joined, whole

FRAMES = {  # by the minute: English, German, French
    0: ("{hour} o'clock", "{hour} Uhr/o'clock", "{hour} heures/o'clock"),
    15: ("quarter past {hour}", "Viertel/quarter nach/past {hour}",
         "{hour} heures/{hour} et/past quart/quarter"),
    25: ("twenty five past {hour}", "fünf/twenty+five+past vor/twenty+five+past halb/twenty+five+past {hour}",
         "{hour} heures/{hour} vingt-cinq/twenty+five"),
    30: ("half past {hour}", "halb/half+past {hour}", "{hour} heures/{hour} et/past demie/half"),
    35: ("twenty five to {hour}", "fünf/twenty+five+to nach/twenty+five+to halb/twenty+five+to {hour}",
         "{hour} heures/{hour} moins/to vingt-cinq/twenty+five"),
    45: ("quarter to {hour}", "Viertel/quarter vor/to {hour}",
         "{hour} heures/{hour} moins/to le/quarter quart/quarter"),
}  # fmt: skip
PAST = ("{minutes} past {hour}", "{minutes} nach/past {hour}", "{hour} heures/{hour} {minutes}")
TO = ("{minutes} to {hour}", "{minutes} vor/to {hour}", "{hour} heures/{hour} moins/to {minutes}")
PARTS = {
    "in the morning": ("morgens/in+the+morning", "du/in+the matin/morning"),
    "in the afternoon": ("nachmittags/in+the+afternoon", "de/in l'après-midi/the+afternoon"),
    "in the evening": ("abends/in+the+evening", "du/in+the soir/evening"),
}
NAMED = {"noon": ("zwölf Uhr mittags", "midi"), "midnight": ("Mitternacht", "minuit")}
NOON, EVENING = 12 * 60, 18 * 60  # minutes after midnight


@cache
def spoken(language: str) -> list[Phrase]:
    """Every five minutes of twelve hours, noon and midnight."""
    named = [whole(name, theirs[language == "fr"]) for name, theirs in NAMED.items()]
    return [_spoken(time, language) for time in range(0, 12 * 60, 5)] + named


@cache
def of_day(language: str) -> list[Phrase]:
    """Every five minutes from 5 am to 11 pm, except the hour after noon."""
    parts = [part() for part in frames(PARTS, language)]
    return [
        joined(_spoken(time, language), parts[(time >= NOON) + (time >= EVENING)])
        for time in range(5 * 60, 23 * 60, 5)
        if not NOON <= time < NOON + 60
    ]


@cache
def exact(language: str) -> list[Phrase]:
    """Every minute of a day from the tenth of each hour on, as on a digital clock."""
    return [_exact(hour, minute, language) for hour in range(24) for minute in range(10, 60)]


def _spoken(time: int, language: str) -> Phrase:
    """A time, in minutes after midnight, as people say it."""
    hour, minute = divmod(time, 60)
    ours = _of_twelve(hour + (minute > 30))
    source, in_german, in_french = FRAMES.get(minute, PAST if minute < 30 else TO)
    if language == "de":  # counts towards the next hour: half past three is halb vier
        theirs, target = german(_of_twelve(hour + (minute >= 25)), "" if minute else "ein"), in_german
    else:
        theirs = number(ours, "fr", "une").target[0]
        target = in_french.replace("heures", "heure") if ours == 1 else in_french
    minutes = number(min(minute, 60 - minute), language)
    return Frame(source, target)(hour=whole(english(ours)[0], theirs), minutes=minutes)


def _exact(hour: int, minute: int, language: str) -> Phrase:
    ours, half = english(_of_twelve(hour))[0], "am" if hour < 12 else "pm"
    words = (german(hour, "ein"),) if language == "de" else number(hour, "fr", "une").target
    mark = "Uhr" if language == "de" else "heure" if hour < 2 else "heures"
    theirs = [f"{word}/{ours}+{half}" for word in words] + [f"{mark}/{ours}", "{minutes}"]
    minutes = number(minute, language, "une" if language == "fr" else "")
    return Frame(f"{ours} {{minutes}} {half}", " ".join(theirs))(minutes=minutes)


def _of_twelve(hour: int) -> int:
    return (hour - 1) % 12 + 1
