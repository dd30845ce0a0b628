"""The page of claims as markdown: docs/claims.md is generated from CLAIMS and the published figures."""

from regard.claims.all_claims import CLAIMS
from regard.claims.claim_summary import figures, seeds
from regard.claims.stored_figures import Record, read
from regard.claims.verdict_of_claim import WORDS

SECTIONS = {  # group: what its claims have in common
    "Bottleneck and distance": "Accuracies are shares of target tokens, given the right ones before. "
    "Models that are compared have the same data, steps and learning rates, and the one that is expected "
    "to lose has no fewer parameters.",
    "Alignment": "AER is the alignment error rate against the gold links of 200 held-out pairs. Links are "
    "found by [`regard align`](align.md): head, shift and rule are chosen without links.",
    "Scores and maps": "",
    "Hard and structured attention": "",
    "Flavours of attention": "",
    "Memory": "",
    "Positions, heads, depth": "",
    "Cost": "",
    "Subquadratic attention": "",
    "Training": "The toy of C56, and of dropout and decay, is `dictionary` (10 words, 3–6 at a time) where "
    "one target word in ten is another one. “Plenty” is pairs that never come twice, “few” is 256 pairs "
    "over and over.",
    "Classifiers and explanations": "Texts are those of `sentiment` (24 words), `hotels` and `agreement`, "
    "of which the words that decide are known: 4,000 to learn from, 500 others; models of width 32. "
    "Settings were found on seeds 100 and 101 and fixed, with the thresholds, before seeds 0 to 4 were "
    "run.",
    "Applications": "",
    "Beside the list": "Sentences of the lectures that the list of 99 had missed.",
    "The debate": "Is attention explanation? Texts of `sentiment`, 4,000 to learn from and 300 others; the "
    "model is `attentive_bilstm`, the MLP `attentive_mlp`, width 32, 300 steps. The two differ in one "
    "thing: a state of the BiLSTM has read the whole text, one of the MLP a single word. Nothing here "
    "involves a person.",
}


def counts() -> str:
    """How many claims there are, and what became of them."""
    records = [read(claim) for claim in CLAIMS.values()]
    words = {word: sum(record.verdict.word == word for record in records) for word in WORDS}
    exact = sum(record.claim.exact for record in records)
    five = sum(record.settled for record in records if not record.claim.exact)
    left = len(records) - exact - five
    listed = ", ".join(f"{count} {word}" for word, count in words.items())
    beside = len(records) - 99
    return (
        f"{len(records)} claims, 99 of a list and {beside} sentences beside it: {listed}. "
        f"{exact} are exact, {five} have the figures of five seeds or more in the package, "
        f"{left} wait for `regard claims run --missing`; where these were published before, what was "
        "published stands in their row."
    )


def table(group: str) -> str:
    """The claims of a section, one row each."""
    rows = ["| | claim | experiment | measured | seeds | verdict |", "|---|---|---|---|---|---|"]
    rows += [row(read(claim)) for claim in CLAIMS.values() if claim.group == group]
    return "\n".join(rows)


def row(record: Record) -> str:
    """Number, sentence, experiment, figures, seeds, verdict."""
    claim, runs = record.claim, record.of()
    told = "; ".join(f"{name}: {value}" for name, value in figures(claim, runs).items())
    if record.earlier and not record.settled:
        told = f"{record.earlier['measured']}" + (f" New runs: {told}" if told else "")
    notes = " ".join(
        part for part in (claim.remark, claim.changed and f"Changed after a look: {claim.changed}") if part
    )
    experiment = f"{claim.experiment} Control: {claim.control}" if claim.control else claim.experiment
    verdict = f"**{record.verdict}**" + (f". {notes}" if notes else "")
    cells = [claim.number, claim.says, experiment, told, seeds(record), verdict]
    return "| " + " | ".join(cell.replace("|", "∣").replace("\n", " ") for cell in cells) + " |"


def sections() -> str:
    """Everything but the beginning of the page."""
    parts = [f"{counts()}"]
    for group, about in SECTIONS.items():
        parts += [f"## {group}", *([about] if about else []), table(group)]
    return "\n\n".join(parts)
