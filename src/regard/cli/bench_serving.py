"""regard bench serving: the local page under many clients at once."""

from typing import Annotated

from typer import Option

from regard.bench import serving as subject
from regard.cli.benchmarks import AsJson, Quick, bench, report

Clients = Annotated[int, Option(min=1, help="That ask at the same time.")]
Seconds = Annotated[float, Option(min=1, help="For how long.")]


@bench.command()
def serving(
    clients: Clients = 200, seconds: Seconds = 30.0, quick: Quick = False, as_json: AsJson = False
) -> None:
    """Measure `regard serve` under many clients at once: answers, waiting, memory. Any error ends it.

    Example: `regard bench serving --clients 200 --seconds 30`
    """
    report(subject.cases(clients, seconds), "regard bench serving", quick=quick, as_json=as_json, plot=None)
