"""Small pictures inside a report: the scale of the grade, and a strip for each test."""

from regard.audits.finding import Finding
from regard.audits.register import Audit
from regard.audits.thresholds import Ramp
from regard.audits.verdict import IS, PARTLY


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
        at = 10 + 480 * grade
        drawn += f'<path class="value" d="M{at:.1f} 16l-6 -10h12z"/>'
    says = "no grade" if grade is None else f"grade {grade:.2f} of 1"
    return f'<svg class="scale" viewBox="0 0 500 52" role="img" aria-label="{says}">{drawn}</svg>'


def strip(audit: Audit, finding: Finding, ramp: Ramp | None) -> str:
    """Value and interval (filled), baseline (a ring), and where the test is failed or passed."""
    if finding.value is None:
        return ""
    low, high = finding.interval or (finding.value, finding.value)
    ends = [finding.value, low, high, *([] if finding.yardstick is None else [finding.yardstick])]
    ramp = ramp if ramp is not None and audit.graded == "value" else None
    ends += ramp or ()
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
    if finding.yardstick is not None:
        drawn += f'<circle class="baseline" cx="{x(finding.yardstick):.1f}" cy="13" r="4.5"/>'
    drawn += f'<circle class="value" cx="{x(finding.value):.1f}" cy="13" r="3.5"/>'
    label = f"value {finding.value:.3f}" + (
        "" if finding.yardstick is None else f", baseline {finding.yardstick:.3f}"
    )
    return f'<svg class="strip" viewBox="0 0 160 26" role="img" aria-label="{label}">{drawn}</svg>'
