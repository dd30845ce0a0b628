"""The audit of a run folder: findings are saved as they come, and the report stays there.

RUN/audit/quick.json  quick.html  full.json  full.html        reports
RUN/audit/.quick.json  .full.json                             findings of an audit that was stopped
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from regard.audits.examine import Listen, Plan, examine, plan, sampled
from regard.audits.register import Finding
from regard.audits.report import Report
from regard.core.files import write_text
from regard.runs.folder import MODEL
from regard.tasks.case import Case

FOLDER = "audit"
KINDS = ("full", "quick")


def audit_run(
    run: Path,
    case: Case,
    what: str,
    *,
    quick: bool = False,
    seed: int = 0,
    tell: Callable[[Plan], None] | None = None,
    listen: Listen | None = None,
) -> Report:
    """Audit the run in a folder on the data `what`; an audit that was stopped goes on."""
    case = sampled(case, quick, seed)
    planned = plan(case, quick=quick)
    if tell is not None:
        tell(planned)
    kind = "quick" if quick else "full"
    kept = run / FOLDER / f".{kind}.json"
    weights = run / MODEL  # those of a model from elsewhere are elsewhere: `what` names it
    digest = sha256(weights.read_bytes() if weights.is_file() else b"")
    digest.update(repr((what, sorted(test.name for test in planned.tests), seed)).encode())
    mark = digest.hexdigest()  # identifies an audit: weights, texts, tests, seed
    found = known(kept, mark)

    def keep(name: str, finding: Finding) -> None:
        found[name] = finding
        told = {test: asdict(one) for test, one in found.items()}
        write_text(kept, json.dumps({"of": mark, "findings": told}))
        if listen is not None:
            listen(name, finding)

    name = f"the attention of {run.resolve().name}"
    report = examine(case, quick=quick, seed=seed, name=name, listen=keep, known=found, planned=planned)
    for ending in ("json", "html"):
        report.save(run / FOLDER / f"{kind}.{ending}", overwrite=True)
    kept.unlink(missing_ok=True)
    return report


def known(path: Path, mark: str) -> dict[str, Finding]:
    """The findings in a file, if they are of the same audit."""
    try:
        what = json.loads(path.read_text(encoding="utf-8"))
        findings = what["findings"] if what["of"] == mark else {}
        return {name: Finding.from_dict(one) for name, one in findings.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
