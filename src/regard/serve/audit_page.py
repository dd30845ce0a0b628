"""The audit of a run as a page: made from the report's data, so that nothing in the run folder can run.

A folder may come from anywhere; its report is read as data, never served as a file.
"""

from pathlib import Path
from urllib.parse import quote

from regard.audits.audit_folder import FOLDER, KINDS
from regard.audits.report import Report
from regard.audits.report_page import page, page_policy
from regard.core.errors import RunError


def audit_address(name: str, folder: Path | None) -> str:
    """Where the page of a run's audit is; "" if it has none."""
    return f"/audit/{quote(name, safe='')}" if folder is not None and _newest(folder) is not None else ""


def audit_page(folder: Path | None) -> tuple[bytes, str]:
    """The page and its Content-Security-Policy."""
    file = None if folder is None else _newest(folder)
    if file is None:
        raise RunError("this run has not been audited: regard audit does it.")
    try:
        report = Report.load(file)
    except (ValueError, OSError) as error:
        raise RunError(str(error)) from error
    return page([report]).encode(), f"{page_policy()}; frame-ancestors 'none'"


def _newest(folder: Path) -> Path | None:
    """The full report, or else the quick one."""
    return next((file for kind in KINDS if (file := folder / FOLDER / f"{kind}.json").exists()), None)
