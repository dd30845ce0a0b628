"""regard bench flow: the largest flows through layers of weights against networkx, scipy and igraph."""

from regard.bench import flow as subject
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Only, Quick, bench, checked, report


@bench.command()
def flow(only: Only = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure attention flow, 6 layers × 32 tokens and all pairs, against networkx, scipy and igraph.

    Groups: networkx, compiled (the faster of scipy and igraph). Every flow that a peer is asked for must
    equal ours to 1e-9.

    Example: `regard bench flow --json > flow.json`
    """
    groups = checked(only, subject.GROUPS)
    for line in subject.missing():
        stderr().print(line, soft_wrap=True, markup=False)
    cases = list(subject.cases(groups, ["normal"] if quick else None))
    report(cases, "regard bench flow", quick=quick, as_json=as_json, plot=None)
