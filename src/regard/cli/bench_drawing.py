"""regard bench drawing: how long a page takes to show a map."""

from regard.bench import drawing as subject
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Quick, bench, report


@bench.command()
def drawing(quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure how long a browser takes to draw maps of 20, 128 and 512 tokens, beside the 100 ms one notices.

    Needs Chromium (`make browser`) and Playwright (`pip install playwright`).

    Example: `regard bench drawing --json > drawing.json`
    """
    for line in subject.missing():
        stderr().print(line, soft_wrap=True, markup=False)
    cases = subject.cases(subject.SIZES[:1] if quick else None)
    report(cases, "regard bench drawing", quick=quick, as_json=as_json, plot=None)
