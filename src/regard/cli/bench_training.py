"""regard bench training: how fast translators learn, against a plain loop and JoeyNMT."""

from regard.bench import training as subject
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Only, Quick, bench, checked, report


@bench.command()
def training(only: Only = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure training against a plain loop around torch.nn.Transformer, and JoeyNMT where it is installed.

    Groups: same (all on the same batches), batches (ours of similar length, the plain loop's at random).
    Seconds are those of a thousand target tokens; a ratio of 0.5 is twice the throughput.

    Example:

    - `regard bench training --json > training.json`
    """
    groups = checked(only, subject.GROUPS)
    for line in subject.missing():
        stderr().print(line, soft_wrap=True, markup=False)
    report(subject.cases(groups), "regard bench training", quick=quick, as_json=as_json, plot=None)
