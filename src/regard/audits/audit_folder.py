"""The audit of a run folder: findings are saved as they come, and the report stays there.

RUN/audit/quick.json  quick.html  full.json  full.html        reports
RUN/audit/.quick.json  .full.json                             findings of an audit that was stopped
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from regard.audits.examine import examine, sampled
from regard.audits.finding import Finding
from regard.audits.plan import Plan, plan
from regard.audits.report import Report, finding_of
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
    listen: Callable[[str, Finding], None] | None = None,
) -> Report:
    """Audit the run in a folder on the data `what`; an audit that was stopped goes on."""
    case = sampled(case, quick, seed)
    planned = plan(case, quick=quick)
    if tell is not None:
        tell(planned)
    kept = run / FOLDER / f".{'quick' if quick else 'full'}.json"
    mark = fingerprint(run, what, [test.name for test in planned.tests], seed)
    found = known(kept, mark)

    def keep(name: str, finding: Finding) -> None:
        found[name] = finding
        told = {test: one.as_dict() for test, one in found.items()}
        write_text(kept, json.dumps({"of": mark, "findings": told}))
        if listen is not None:
            listen(name, finding)

    report = examine(
        case,
        quick=quick,
        seed=seed,
        name=f"the attention of {run.resolve().name}",
        listen=keep,
        known=dict(found),
        planned=planned,
    )
    for ending in ("json", "html"):
        report.save(run / FOLDER / f"{'quick' if quick else 'full'}.{ending}", overwrite=True)
    kept.unlink(missing_ok=True)
    return report


def known(path: Path, mark: str) -> dict[str, Finding]:
    """The findings in a file, if they are of the same audit."""
    try:
        what = json.loads(path.read_text(encoding="utf-8"))
        return {name: finding_of(one) for name, one in what["findings"].items()} if what["of"] == mark else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def fingerprint(run: Path, what: str, tests: Sequence[str], seed: int) -> str:
    """Identifies an audit: weights, texts, tests, seed."""
    mark = sha256((run / MODEL).read_bytes())
    mark.update(repr((what, sorted(tests), seed)).encode())
    return mark.hexdigest()
