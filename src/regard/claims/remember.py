"""What to remember: ten findings for which a lecturer should change a slide, with figures and commands.

remember.toml has a sentence for each and what shows it, with the names of figures in braces. Every figure
comes from the stored runs of its claim; a finding whose figures are not stored yet says so.
"""

from pathlib import Path

from regard.claims.all_claims import CLAIMS
from regard.claims.claim_summary import number
from regard.claims.stored_figures import Record, read
from regard.claims.verdict_of_claim import measured
from regard.core.settings import read_toml

FINDINGS = read_toml(Path(__file__).with_suffix(".toml"))


def shown(record: Record, template: str) -> str:
    """Figures of a claim in a sentence, means over the stored seeds."""
    found = measured([run.figures for run in record.of()])
    if not found:
        return "not run yet"
    means = {name: number(float(values.mean())) for name, values in found.items()}
    seeds = "exact" if record.claim.exact else f"{len(record.of())} seeds"
    return f"{template.format_map(means)} ({seeds})"


def findings() -> str:
    """The list, as markdown."""
    lines = ["| | what | figure | verdict on the lectures' sentence | command |", "|---|---|---|---|---|"]
    for place, (name, finding) in enumerate(FINDINGS.items(), 1):
        record = read(CLAIMS[name])
        verdict = f"“{record.claim.says}” {record.verdict}"
        command = f"`regard claims run {name}`"
        cells = (str(place), finding["says"], shown(record, finding["shows"]), verdict, command)
        lines.append("| " + " | ".join(cell.replace("|", "∣") for cell in cells) + " |")
    return "\n".join(lines)
