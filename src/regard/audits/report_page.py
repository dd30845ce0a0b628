"""A report as one HTML file: the answer first, then the findings it rests on, with the views of this project.

Several reports are compared: a column each, then each by itself. Names, words and messages are escaped or
embedded as JSON; the content security policy of the page lets no other script run.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import torch

from regard.audits.finding import Finding
from regard.audits.plots import scale, strip
from regard.audits.register import AUDITS, CONDITIONS, in_order
from regard.audits.report import Example, Report
from regard.audits.thresholds import RAMPS
from regard.audits.verdict import SAYS
from regard.views import bars, words
from regard.views.assets import embed, script, style
from regard.views.html_page import policy
from regard.views.shown_text import shown

START = (
    "for (const data of document.querySelectorAll('script[data-view]')) "
    "regard.draw(document.getElementById(data.dataset.view), JSON.parse(data.textContent));"
)
BINS = 10


def page(reports: Sequence[Report]) -> str:
    """The page of one report, or of several that are compared."""
    views: dict[str, dict[str, Any]] = {}  # by the id of the element they are drawn in
    body = "" if len(reports) == 1 else compared(reports)
    body += "".join(section(report, number, views) for number, report in enumerate(reports))
    data = "".join(
        f'<script type="application/json" data-view="{name}">{embed(one)}</script>\n'
        for name, one in views.items()
    )
    ours = _style()
    title = escape(" and ".join(shown(report.name) for report in reports))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        f'content="{page_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>regard audit: {title}</title>\n<style>{style()}</style>\n<style>{ours}</style>\n</head>\n"
        f'<body>\n<main class="audit">{body}</main>\n{data}'
        f"<script>{script()}</script>\n<script>{START}</script>\n</body>\n</html>\n"
    )


def page_policy() -> str:
    """The content security policy of the page: its own scripts and styles."""
    return policy([script(), START], [style(), _style()])


def _style() -> str:
    return (files("regard.audits.assets") / "report.css").read_text(encoding="utf-8")


def section(report: Report, number: int, views: dict[str, dict[str, Any]]) -> str:
    """One report, from the answer to its limits."""
    kind = "quick audit" if report.quick else "audit"
    parts = [
        f'<p class="faint">{kind} of {_text(report.name)} · {report.inputs:,} texts · seed {report.seed}</p>',
        f"<h1>{_text(report.answer)}</h1>",
        scale(report.grade),
        "<h2>The three conditions</h2>",
        _conditions(report),
        *(_tests(report, condition) for condition in (*CONDITIONS, None)),
        _plots(report, number, views),
        _examples("Where attention and leave-one-out agree", report.agree, f"agree{number}", views),
        _examples("Where they do not", report.disagree, f"disagree{number}", views),
        _listed("What may raise the grade", report.advice),
        _listed("What was not run", [f"{_named(test)}: {why}" for test, why in left_out(report).items()]),
        _listed("What this does not say", report.limits),
    ]
    return f"<section>{''.join(parts)}</section>"


def compared(reports: Sequence[Report]) -> str:
    """A table with a column for each report."""
    heads = "".join(f'<th class="number">{_text(report.name)}</th>' for report in reports)
    rows = [("grade", [report.grade for report in reports])]
    rows += [
        (f"condition: {name}", [report.conditions[name].score for report in reports]) for name in CONDITIONS
    ]
    for test in in_order(AUDITS):
        if any(test in report.tests for report in reports):
            found = [report.tests[test].value if test in report.tests else None for report in reports]
            rows.append((_named(test), found))
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(_cell(value) for value in values)}</tr>"
        for name, values in rows
    )
    answers = "".join(f"<li>{_text(report.answer)}</li>" for report in reports)
    return (
        f"<h1>{len(reports)} audits compared</h1><ul>{answers}</ul>"
        f'<div class="wide"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def left_out(report: Report) -> dict[str, str]:
    """Tests that were not run, and those that could not be made, with the reason."""
    failed = {name: f"not applicable, because {one.why}" for name, one in report.tests.items() if one.why}
    return {**report.left_out, **failed}


def _conditions(report: Report) -> str:
    cards = []
    for name, result in report.conditions.items():
        score = "" if result.score is None else f" ({result.score:.2f} of 1)"
        cards.append(
            f'<div class="condition {escape(result.state.split()[0])}"><h3>{escape(name)}</h3>'
            f'<p><span class="state">{escape(result.state)}</span>{score}: '
            f"{escape(SAYS[name][result.state])}.</p></div>"
        )
    return f'<div class="conditions">{"".join(cards)}</div>'


def _tests(report: Report, condition: str | None) -> str:
    found = {
        name: finding
        for name, finding in report.tests.items()
        if AUDITS[name].condition == condition and finding.value is not None
    }
    if not found:
        return ""
    heading = f"Tests: {condition}" if condition else "Further figures, which are not graded"
    rows = "".join(_row(name, finding) for name, finding in found.items())
    return (
        f'<h2>{escape(heading)}</h2><div class="wide"><table><thead><tr><th>test</th>'
        '<th class="number">value</th><th class="number">95 %</th><th class="number">baseline</th>'
        f'<th class="number">texts</th><th></th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _row(name: str, finding: Finding) -> str:
    interval = "" if finding.interval is None else "{:.3f} – {:.3f}".format(*finding.interval)
    return (
        f"<tr><td><strong>{escape(_named(name))}</strong><br><small>{_text(finding.says)}</small></td>"
        f'{_cell(finding.value)}<td class="number">{interval}</td>{_cell(finding.yardstick)}'
        f'<td class="number">{finding.inputs:,}</td>'
        f"<td>{strip(AUDITS[name], finding, RAMPS.get(name))}</td></tr>"
    )


def _plots(report: Report, number: int, views: dict[str, dict[str, Any]]) -> str:
    """Histograms of figures that each text has."""
    found: dict[str, tuple[list[float], float, float]] = {}
    if (tau := _details(report, "leave_one_out_correlation").get("tau")) is not None:
        found["rank correlation with leave-one-out"] = (tau, -1.0, 1.0)
    if (far := _details(report, "adversary").get("JSD")) is not None:
        found["JSD of the most different weights with the same prediction"] = (far, 0.0, 0.7)
    parts = []
    for place, (name, (values, low, high)) in enumerate(found.items()):
        if not values:
            continue
        edges = torch.linspace(low, high, BINS + 1, dtype=torch.float64)
        numbers = torch.tensor(values, dtype=torch.float64).clamp(low, high)
        counts = torch.histogram(numbers, edges).hist / len(values)
        labels = [f"{float(edges[i]):.2f}" for i in range(BINS)]
        key = f"plot{number}-{place}"
        views[key] = bars(
            {name: counts}, labels, unit="share of texts", caption=f"{name}: share of texts"
        ).data()
        parts.append(f'<div id="{key}"></div>')
    return f'<h2>Text by text</h2><div class="examples">{"".join(parts)}</div>' if parts else ""


def _examples(title: str, found: Sequence[Example], key: str, views: dict[str, dict[str, Any]]) -> str:
    if not found:
        return ""
    parts = []
    for i, example in enumerate(found):
        most = max(example.evidence) or 1.0
        evidence = [one / most for one in example.evidence]
        parts.append(f"<h3>{_text(example.says)}; rank correlation {example.tau:.2f}</h3>")
        for name, scores in (("weights", example.weights), ("change without it", evidence)):
            place = f"{key}-{i}-{name.split()[0]}"
            view = words(torch.tensor(scores, dtype=torch.float64), example.words).data()
            views[place] = {**view, "caption": "", "note": ""}
            parts.append(f'<p class="faint">{name}</p><div id="{place}"></div>')
    note = "Above, weights; below, the change of the prediction without the word (the largest change is 1)."
    return f'<h2>{escape(title)}</h2><p class="faint">{note}</p>{"".join(parts)}'


def _details(report: Report, test: str) -> Mapping[str, Any]:
    return report.tests[test].details if test in report.tests else {}


def _listed(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _named(test: str) -> str:
    return test.replace("_", " ")


def _cell(value: float | None) -> str:
    return f'<td class="number">{"–" if value is None else f"{value:.3f}"}</td>'


def _text(text: str) -> str:
    return escape(shown(text))
