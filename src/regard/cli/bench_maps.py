"""regard bench maps: the row maps against torch.softmax and the entmax package."""

from regard.bench import maps as subject
from regard.bench import without_peers
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Only, Plot, Quick, bench, checked, report


@bench.command()
def maps(only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None) -> None:
    """Measure the row maps, forward + backward, against torch.softmax and the `entmax` package.

    Groups: rows, learned, fusedmax, memory, peers. Candidates take turns; the figures are medians.

    Examples:

    - `regard bench maps --quick`

    - `regard bench maps --only rows --only peers --json > maps.json`
    """
    groups = checked(only, subject.GROUPS)
    if "peers" in groups and without_peers():
        missing = (
            "the entmax package is not here, so nothing is measured against it: pip install 'regard\\[peers]'"
        )
        stderr().print(missing, soft_wrap=True)
    cases = subject.cases(groups, subject.SIZES[:2] if quick else subject.SIZES)
    report(cases, "regard bench maps", quick=quick, as_json=as_json, plot=plot)
