"""regard bench structured: chains, SparseMAP, fusedmax and the other structured maps against their peers."""

from regard.bench import structured as subject
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Only, Plot, Quick, bench, checked, report


@bench.command()
def structured(only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None) -> None:
    """Measure the structured maps against torch-struct, a QP solver (OSQP), torch.softmax and condat-tv.

    Groups: chain, sparsemap, fusedmax, hot (every structured map at n = 512, batch 64; matchings and trees at
    m = n = 32). A peer that is not installed is left out, with a line that says how to get it.

    Examples:

    - `regard bench structured --quick`

    - `regard bench structured --only chain --only sparsemap --json > structured.json`
    """
    groups = checked(only, subject.GROUPS)
    for line in subject.missing(groups):
        stderr().print(line, soft_wrap=True, markup=False)
    cases = subject.cases(groups, subject.SIZES[:1] if quick else None)
    report(cases, "regard bench structured", quick=quick, as_json=as_json, plot=plot)
