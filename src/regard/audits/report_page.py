"""A report as one HTML file: the answer first, then the findings it rests on, with the views of this project.

Several reports are compared: a column each, then each by itself. Names, words and messages are escaped or
embedded as JSON; the content security policy of the page lets no other script run.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import torch

from regard.audits.register import AUDITS, CONDITIONS, Finding, in_order
from regard.audits.report import Example, Report
from regard.audits.thresholds import RAMPS
from regard.audits.verdict import IS, PARTLY, SAYS
from regard.core.counting import counted
from regard.views import bars, words
from regard.views.assets import embed, script, style
from regard.views.html_page import policy
from regard.views.shown_text import shown

START = (
    "for (const data of document.querySelectorAll('script[data-view]')) "
    "regard.draw(document.getElementById(data.dataset.view), JSON.parse(data.textContent));"
)
BINS = 10
HISTOGRAMS = [  # of figures that each text has: test, detail, title, least and most
    ("leave_one_out_correlation", "tau", "rank correlation with leave-one-out", -1.0, 1.0),
    ("adversary", "JSD", "JSD of the most different weights with the same prediction", 0.0, 0.7),
]
Views = dict[str, dict[str, Any]]  # by the id of the element they are drawn in


def page(reports: Sequence[Report]) -> str:
    """The page of one report, or of several that are compared."""
    views: Views = {}
    body = "" if len(reports) == 1 else compared(reports)
    body += "".join(section(report, number, views) for number, report in enumerate(reports))
    return audit_html(body, [report.name for report in reports], views)


def audit_html(body: str, names: Sequence[str], views: Views | None = None) -> str:
    """A page of an audit of what has these names: its body, and the views that are drawn in it."""
    data = "".join(
        f'<script type="application/json" data-view="{name}">{embed(one)}</script>\n'
        for name, one in (views or {}).items()
    )
    title = escape(" and ".join(map(shown, names)))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{page_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>regard audit: '
        f"{title}</title>\n<style>{style()}</style>\n<style>{_style()}</style>\n</head>\n"
        f'<body>\n<main class="audit">{body}</main>\n{data}'
        f"<script>{script()}</script>\n<script>{START}</script>\n</body>\n</html>\n"
    )


def page_policy() -> str:
    """The content security policy of the page: its own scripts and styles."""
    return policy([script(), START], [style(), _style()])


def _style() -> str:
    return (files("regard.audits.assets") / "report.css").read_text(encoding="utf-8")


def section(report: Report, number: int, views: Views) -> str:
    """One report, from the answer to its limits."""
    kind = "quick audit" if report.quick else "audit"
    failed = {name: f"not applicable, because {one.why}" for name, one in report.tests.items() if one.why}
    not_run = {**report.left_out, **failed}
    parts = [
        f'<p class="faint">{kind} of {_text(report.name)} · {counted(report.inputs, "text")} · '
        f"seed {report.seed}</p>",
        f"<h1>{_text(report.answer)}</h1>",
        scale(report.grade),
        "<h2>The three conditions</h2>",
        _conditions(report),
        *(_tests(report, condition) for condition in (*CONDITIONS, None)),
        _histograms(report, number, views),
        _pair(report, number, views),
        _examples("Where attention and leave-one-out agree", report.agree, f"agree{number}", views),
        _examples("Where they do not", report.disagree, f"disagree{number}", views),
        _listed("What may raise the grade", report.advice),
        _listed("What was not run", [f"{_named(test)}: {why}" for test, why in not_run.items()]),
        _listed("What this does not say", report.limits),
    ]
    return f"<section>{''.join(parts)}</section>"


def compared(reports: Sequence[Report]) -> str:
    """A table with a column for each report."""
    rows = [("grade", [report.grade for report in reports])]
    rows += [(f"condition: {name}", [one.conditions[name].score for one in reports]) for name in CONDITIONS]
    for test in in_order({test for report in reports for test in report.tests}):
        found = [report.tests[test].value if test in report.tests else None for report in reports]
        rows.append((_named(test), found))
    cells = (f"<td>{escape(name)}</td>{''.join(map(_figure, values))}" for name, values in rows)
    return f"<h1>{len(reports)} audits compared</h1>{_list(report.answer for report in reports)}" + _table(
        "<th></th>" + "".join(_number(_text(report.name), "th") for report in reports), cells
    )


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
    """The tests of a condition that have a value."""
    rows = []
    for name, finding in report.tests.items():
        if AUDITS[name].condition != condition or finding.value is None:
            continue
        interval = "" if finding.interval is None else "{:.3f} – {:.3f}".format(*finding.interval)
        says = finding.says + ("; it limits the grade, and is in no mean" if AUDITS[name].gate else "")
        rows.append(
            f"<td><strong>{escape(_named(name))}</strong><br><small>{_text(says)}</small></td>"
            f"{_figure(finding.value)}{_number(interval)}{_figure(finding.baseline)}"
            f"{_number(f'{finding.inputs:,}')}<td>{strip(name, finding)}</td>"
        )
    heading = f"Tests: {condition}" if condition else "Further figures, which are not graded"
    heads = "".join(_number(name, "th") for name in ("value", "95 %", "baseline", "texts"))
    return f"<h2>{escape(heading)}</h2>{_table(f'<th>test</th>{heads}<th></th>', rows)}" if rows else ""


def scale(grade: float | None) -> str:
    """The grade on its scale: is not, is partly, is evidence."""
    parts = [(0.0, PARTLY, "is not"), (PARTLY, IS, "is partly"), (IS, 1.0, "is evidence")]
    drawn = "".join(
        f'<rect class="track" x="{10 + 480 * low:.1f}" y="18" '
        f'width="{480 * (high - low) - 2:.1f}" height="10"/>'
        f'<text x="{10 + 240 * (low + high):.1f}" y="44" text-anchor="middle">{name}</text>'
        for low, high, name in parts
    )
    if grade is not None:
        drawn += f'<path class="value" d="M{10 + 480 * grade:.1f} 16l-6 -10h12z"/>'
    says = "no grade" if grade is None else f"grade {grade:.2f} of 1"
    return f'<svg class="scale" viewBox="0 0 500 52" role="img" aria-label="{says}">{drawn}</svg>'


def strip(test: str, finding: Finding) -> str:
    """Value and interval (filled), baseline (a ring), and where the test is failed or passed."""
    value, baseline = finding.value, finding.baseline
    assert value is not None
    low, high = finding.interval or (value, value)
    ramp = RAMPS.get(test) if AUDITS[test].graded == "value" else None
    ends: list[float] = [value, low, high, *([] if baseline is None else [baseline]), *(ramp or ())]
    left, right = min(0.0, *ends), max(1.0 if max(ends) <= 1 else 0.0, *ends)

    def x(value: float) -> float:
        return 4 + 152 * (value - left) / ((right - left) or 1)

    drawn = '<rect class="track" x="4" y="12" width="152" height="2"/>'
    if ramp is not None:
        failed, passed = ramp
        for kind, start, stop in (
            ("miss", left, failed) if failed < passed else ("miss", failed, right),
            ("pass", passed, right) if failed < passed else ("pass", left, passed),
        ):
            wide = x(stop) - x(start)
            drawn += f'<rect class="{kind}" x="{x(start):.1f}" y="8" width="{wide:.1f}" height="10"/>'
    drawn += f'<line class="interval" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="13" y2="13"/>'
    label = f"value {value:.3f}"
    if baseline is not None:
        drawn += f'<circle class="baseline" cx="{x(baseline):.1f}" cy="13" r="4.5"/>'
        label += f", baseline {baseline:.3f}"
    drawn += f'<circle class="value" cx="{x(value):.1f}" cy="13" r="3.5"/>'
    return f'<svg class="strip" viewBox="0 0 160 26" role="img" aria-label="{label}">{drawn}</svg>'


def _histograms(report: Report, number: int, views: Views) -> str:
    parts: list[str] = []
    for test, detail, name, low, high in HISTOGRAMS:
        values = report.tests[test].details.get(detail) if test in report.tests else None
        if not values:
            continue
        edges = torch.linspace(low, high, BINS + 1, dtype=torch.float64)
        numbers = torch.tensor(values, dtype=torch.float64).clamp(low, high)
        counts = torch.histogram(numbers, edges).hist / len(values)
        labels = [f"{round(float(edge), 6) + 0.0:.2f}" for edge in edges[:-1]]
        drawn = bars({name: counts}, labels, unit="share of texts", caption="Share of texts.")
        key = f"plot{number}-{len(parts)}"
        views[key] = drawn.data()
        parts.append(f'<div id="{key}"></div>')
    return f'<h2>Text by text</h2><div class="examples">{"".join(parts)}</div>' if parts else ""


def _examples(title: str, found: Sequence[Example], key: str, views: Views) -> str:
    if not found:
        return ""
    parts = []
    for i, example in enumerate(found):
        parts.append(f"<h3>{_text(example.says)}; rank correlation {example.tau:.2f}</h3>")
        for name, scores in (("weights", example.weights), ("change without it", example.evidence)):
            place = f"{key}-{i}-{name.split()[0]}"
            shares = scores is example.evidence
            view = words(torch.tensor(scores, dtype=torch.float64), example.words, shares=shares).data()
            views[place] = {**view, "caption": "", "note": ""}
            parts.append(f'<p class="faint">{name}</p><div id="{place}"></div>')
    note = "Above, weights; below, the change of the prediction without the word, as a share of all changes."
    return f'<h2>{escape(title)}</h2><p class="faint">{note}</p>{"".join(parts)}'


def _pair(report: Report, number: int, views: Views) -> str:
    """The text whose weights could be most different, with both weights and both predictions."""
    pair = report.tests["adversary"].details.get("pair") if "adversary" in report.tests else None
    if not pair:
        return ""
    parts = ["<h2>Other weights, the same prediction</h2>"]
    for name, whose in (("weights", "the model's"), ("other", "the most different that were found")):
        place = f"pair{number}-{name}"
        view = words(torch.tensor(pair[name], dtype=torch.float64), pair["words"]).data()
        views[place] = {**view, "caption": "", "note": ""}
        says = f"{whose}: {pair['class']} {pair['predicted'][name]:.3f}"
        parts.append(f'<p class="faint">{_text(says)}</p><div id="{place}"></div>')
    return "".join(parts)


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"<h2>{escape(title)}</h2>{_list(lines)}" if lines else ""


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _table(heads: str, rows: Iterable[str]) -> str:
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(value: float | None) -> str:
    return _number("–" if value is None else f"{value:.3f}")


def _number(text: str, tag: str = "td") -> str:
    return f'<{tag} class="number">{text}</{tag}>'


def _named(test: str) -> str:
    return test.replace("_", " ")


def _text(text: str) -> str:
    return escape(shown(text))
