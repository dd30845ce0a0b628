"""What to remember: ten findings for which a lecturer should change a slide, with figures and commands.

Every figure comes from the stored runs of its claim; a finding whose figures are not stored yet says so.
"""

from dataclasses import dataclass

from regard.claims.all_claims import CLAIMS
from regard.claims.claim_summary import number
from regard.claims.stored_figures import read
from regard.claims.verdict_of_claim import measured


@dataclass(frozen=True)
class Finding:
    """A sentence, and the figures of a claim that show it: names in the stored runs and what to call them."""

    number: str
    says: str
    shows: dict[str, str]


FINDINGS = (
    Finding(
        "C65",
        "“Attention is not explanation” is true of states that have read the whole text, and the contrary "
        "of the truth for states that know one word.",
        {"model, gradient": "τ with the gradient, BiLSTM", "MLP, gradient": "MLP"},
    ),
    Finding(
        "C69",
        "Without the most attended word few decisions of a BiLSTM flip, and many of a model without context.",
        {"model": "flips, BiLSTM", "MLP": "MLP"},
    ),
    Finding(
        "C67",
        "Other weights with the same answer are found for models with and without context alike: another "
        "word that says the same is another good reason.",
        {"model": "share of texts, BiLSTM", "MLP": "MLP"},
    ),
    Finding(
        "C72",
        "A model can be trained to hide the words it uses at no cost.",
        {"weight on them, deceiving": "weight on the words that decide", "accuracy, deceiving": "accuracy"},
    ),
    Finding(
        "C70",
        "To flip a decision by removing words, the gradient is no better guide than attention.",
        {"model, attention": "share removed, by attention", "model, gradient": "by gradient"},
    ),
    Finding(
        "C10",
        "Embedding spaces need to be aligned for the dot product with frozen vectors, and for no other "
        "score.",
        {"dot, turned": "right with spaces turned, dot", "bilinear, turned": "bilinear"},
    ),
    Finding(
        "C6",
        "Attention is a shortcut for gradients once it is trained; before, they fall as one over the "
        "distance.",
        {
            "bahdanau, power of the distance before": "power of the distance before training",
            "bahdanau, slope after": "slope of the log gradient per word after it",
        },
    ),
    Finding(
        "C37",
        "The entropy term does not reduce the variance of REINFORCE at all: it keeps the policy open.",
        {
            "variance with by without": "variance with, by without",
            "entropy after 200 steps, with by without": "entropy after 200 steps",
        },
    ),
    Finding(
        "C49",
        "PE(pos + k) is linear in PE(pos) with the paper's exponents, and not with the ones one lecture "
        "prints.",
        {"the paper's, residual": "residual, the paper's", "the lecture's, residual": "the lecture's"},
    ),
    Finding(
        "C26",
        "The diagonal of AAᵀ is not 1 but Σ a²: the penalty for redundant rows also makes each row sharp.",
        {"uniform rows, diagonal": "of ten equal weights", "rows on one word, diagonal": "of one word"},
    ),
)


def shown(finding: Finding) -> str:
    """Its figures, means over the stored seeds."""
    record = read(CLAIMS[finding.number])
    found = measured([run.figures for run in record.of()])
    if not found:
        return f"not stored seed by seed yet; published before: {record.earlier.get('measured', 'nothing')}"
    parts = [f"{label} {number(float(found[name].mean()))}" for name, label in finding.shows.items()]
    seeds = "exact" if record.claim.exact else f"{len(record.of())} seeds"
    return f"{', '.join(parts)} ({seeds})"


def findings() -> str:
    """The list, as markdown."""
    lines = ["| | what | figure | verdict on the lectures' sentence | command |", "|---|---|---|---|---|"]
    for place, finding in enumerate(FINDINGS, 1):
        claim = CLAIMS[finding.number]
        verdict = f"“{claim.says}” {read(claim).verdict}"
        command = f"`regard claims run {finding.number}`"
        cells = (str(place), finding.says, shown(finding), verdict, command)
        lines.append("| " + " | ".join(cell.replace("|", "∣") for cell in cells) + " |")
    return "\n".join(lines)
