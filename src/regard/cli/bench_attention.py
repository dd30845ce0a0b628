"""regard bench attention: attention against torch's own."""

from pathlib import Path
from typing import Annotated

from typer import Option

from regard.bench import attention as subject
from regard.bench.attention_of_run import of_run
from regard.cli.app import fail
from regard.cli.benchmarks import AsJson, Only, Plot, Quick, bench, checked, report

Run = Annotated[
    Path | None,
    Option(
        "--run", metavar="DIR", help="Measure on the scores of a trained run instead, validation sentences."
    ),
]


@bench.command()
def attention(
    only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None, run: Run = None
) -> None:
    """Measure attention against scaled_dot_product_attention and nn.MultiheadAttention.

    Groups: sparse (scaled dot + entmax15), memory, softmax, heads, decoding, import. 8 heads of width 64.

    Examples:

    - `regard bench attention --quick`

    - `regard bench attention --only sparse --only memory --plot growth.svg`

    - `regard bench attention --run runs/en-de`
    """
    if run is not None:
        try:
            cases = of_run(run)
        except (OSError, ValueError) as error:
            fail(error)
        report(cases, f"regard bench attention --run {run}", quick=quick, as_json=as_json, plot=plot)
        return
    groups = checked(only, subject.GROUPS)
    cases = subject.cases(groups, subject.SIZES[:1] if quick else None)
    report(cases, "regard bench attention", quick=quick, as_json=as_json, plot=plot)
