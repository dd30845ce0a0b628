"""regard bench attention: attention against torch's own."""

from regard.bench import attention as subject
from regard.cli.bench import AsJson, Only, Plot, Quick, bench, checked, report


@bench.command()
def attention(only: Only = None, quick: Quick = False, as_json: AsJson = False, plot: Plot = None) -> None:
    """Measure attention against scaled_dot_product_attention and nn.MultiheadAttention.

    Groups: sparse (scaled dot + entmax15), memory, softmax, heads, decoding, import. 8 heads of width 64.

    Examples:

    - `regard bench attention --quick`

    - `regard bench attention --only sparse --only memory --plot growth.svg`
    """
    groups = checked(only, subject.GROUPS)
    cases = subject.cases(groups, subject.SIZES[:1] if quick else None)
    report(cases, "regard bench attention", quick=quick, as_json=as_json, plot=plot)
