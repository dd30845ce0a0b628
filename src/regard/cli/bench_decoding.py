"""regard bench decoding: beam search against Hugging Face's generate."""

from regard.bench import decoding as subject
from regard.cli.app import stderr
from regard.cli.benchmarks import AsJson, Quick, bench, report


@bench.command()
def decoding(quick: Quick = False, as_json: AsJson = False) -> None:
    """Measure beam search against the `generate` of transformers, with the same weights and outputs.

    Needs transformers: `pip install 'regard[hf]'`.

    Example:

    - `regard bench decoding --json > decoding.json`
    """
    for line in subject.missing():
        stderr().print(line, soft_wrap=True, markup=False)
    report(subject.cases(), "regard bench decoding", quick=quick, as_json=as_json, plot=None)
