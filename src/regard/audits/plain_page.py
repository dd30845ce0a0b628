"""A report for people who do not build models: one page, no terms, no figure without what it counts.

It says whether the marked words may be shown as the reason, what was tried, what came of it in how many of a
hundred texts, and what the answer does not say. `report_page` has the figures behind it.
"""

from collections.abc import Callable, Sequence
from html import escape

from regard.audits.register import CONDITIONS, Finding
from regard.audits.report import Report
from regard.audits.report_page import audit_html
from regard.audits.verdict import HELD, State, answer_of, gate_of
from regard.core.counting import counted
from regard.views.shown_text import shown

ANSWERS = {
    "is not": ("No.", "What this program marks is not what it decides by. Do not show it as the reason."),
    "is partly": (
        "Only with a warning.",
        "What this program marks is part of what it decides by, and not all of it. Whoever sees the marks "
        "must be told so.",
    ),
    "is": (
        "Yes, with care.",
        "On texts like these the program decides by what it marks. The marks do not say that it is right.",
    ),
    None: ("That is open.", "Too little could be tried to say so."),
}
QUESTIONS: dict[str, tuple[str, dict[State, str]]] = {
    "necessary": (
        "Does the program need what it marks?",
        {
            "held": "Yes: without these words, or with other marks, it often decides differently.",
            "failed": "Hardly: it mostly decides the same whatever is marked.",
            "not tested": "This was not tried.",
        },
    ),
    "hard to manipulate": (
        "Could the marks be misleading, and the decision the same?",
        {
            "held": "Seldom: marks on words that say something else mostly come with another decision.",
            "failed": "Yes, easily: somebody could show other marks for the same decision.",
            "not tested": "This was not tried.",
        },
    ),
    "out of context": (
        "Do the marked words count by themselves?",
        {
            "held": "Yes: they are the words whose absence changes the decision.",
            "failed": "Hardly: other words count as much or more.",
            "not tested": "This was not tried.",
        },
    ),
}


def _per_hundred(value: float | None) -> int:
    return min(100, max(0, round(100 * (value or 0.0))))


def _flips(what: str) -> Callable[[Finding], str]:
    return lambda finding: (
        f"{what}: in {_per_hundred(finding.value)} of 100 texts the decision changed. With other words "
        f"instead, chosen by chance, it changed in {_per_hundred(finding.baseline)} of 100."
    )


TRIED: dict[str, dict[str, Callable[[Finding], str]]] = {  # by condition and test: a sentence on the share
    "necessary": {
        "erasure": _flips("We ignored the word with the strongest mark"),
        "joint_erasure": _flips("We ignored the three words with the strongest marks"),
        "uniform": lambda finding: (
            f"We marked all words alike: in {_per_hundred(finding.value)} of 100 texts the decision changed."
        ),
    },
    "hard to manipulate": {
        "contradiction": lambda finding: (
            "We put the whole mark on a word that by itself speaks for another decision: in "
            f"{_per_hundred(finding.value)} of 100 such cases the decision stayed as it was."
        ),
    },
    "out of context": {},
}
LIMITS = (
    "It is about texts like those that were tried.",
    "It does not say whether the program's decisions are right or fair.",
    "It does not say why the marks are as they are: marks that mislead on purpose and marks that are merely "
    "not needed get the same answer.",
)


def plain_page(reports: Sequence[Report]) -> str:
    """The page of one report, or of several, one below the other."""
    return audit_html("".join(map(_section, reports)), [report.name for report in reports])


def _section(report: Report) -> str:
    short, long = ANSWERS[None if report.grade is None else answer_of(report.grade)]
    parts = [
        '<p class="faint">A program that reads texts can mark the words it gives most weight. This page says '
        f"whether these marks may be shown as the reason for what it decides. {_name(report)}, tried on "
        f"{counted(report.inputs, 'text')}.</p>",
        f"<h1>{short} {long}</h1>",
    ]
    if gate_of(report.conditions) < HELD:
        parts.append("<p>The marks that are shown are not those that the program works with.</p>")
    for condition in CONDITIONS:
        question, answers = QUESTIONS[condition]
        state = report.conditions[condition].state
        tried = "".join(
            f"<p>{escape(says(finding))}</p>{dots(_per_hundred(finding.value))}"
            for test, says in TRIED[condition].items()
            if (finding := report.tests.get(test)) is not None and finding.value is not None
        )
        parts.append(f'<h2>{question}</h2><p><span class="state">{answers[state]}</span></p>{tried}')
    limits = "".join(f"<li>{line}</li>" for line in LIMITS)
    parts.append(f"<h2>What this does not say</h2><ul>{limits}</ul>")
    return f"<section>{''.join(parts)}</section>"


def dots(count: int) -> str:
    """A hundred dots, so many of them filled."""
    drawn = "".join(
        f'<circle class="{"value" if i < count else "track"}" cx="{6 + 12 * (i % 25)}" '
        f'cy="{6 + 12 * (i // 25)}" r="4.5"/>'
        for i in range(100)
    )
    return f'<svg class="dots" viewBox="0 0 300 48" role="img" aria-label="{count} of 100">{drawn}</svg>'


def _name(report: Report) -> str:
    name = shown(report.name)
    return escape(name[:1].upper() + name[1:])
