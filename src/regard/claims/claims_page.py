"""The page of claims as markdown: docs/claims.md is generated from CLAIMS and the published figures."""

import numpy as np

from regard.claims.all_claims import CLAIMS
from regard.claims.claim_summary import figures, number, seeds
from regard.claims.stored_figures import Record, read
from regard.claims.verdict_of_claim import WORDS, measured

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

CROSSED = {  # group: a claim whose figures "row, column" are a table besides, what it shows, rows, columns
    "Bottleneck and distance": (
        "C9",
        "What do we gain, what do we lose? Means of the seeds of C9; 20 words are more than any in training, "
        "and numbers kept are those that the backward pass needs.",
        ("transformer", "bahdanau", "rnn"),
        ("parameters", "accuracy", "steps to .95", "seconds of a step", "millions of numbers kept",
         "accuracy at 20 words", "accuracy from 256 pairs"),
    ),
    "The debate": (
        "C83",
        "How often the reader of C83 names the class by k words, means of its seeds:",
        tuple(f"{model}, {by}" for model in ("BiLSTM", "MLP") for by in ("attention", "gradient", "random")),
        tuple(f"k = {k}" for k in (1, 2, 3, 5, 8)),
    ),
    "Subquadratic attention": (
        "C63",
        "Accuracies of C63, means of its seeds; ten classes in ListOps and pixels, two in bytes:",
        ("listops", "bytes", "pixels"),
        ("full", "local", "bigbird", "linformer", "performer"),
    ),
}  # fmt: skip


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
        f"{exact} are exact, {five} have the figures of five seeds or more in the package"
        + (f", {left} wait for `regard claims run --missing`." if left else ".")
    )


def table(group: str) -> str:
    """The claims of a section, one row each."""
    rows = ["| | claim | experiment | measured | seeds | verdict |", "|---|---|---|---|---|---|"]
    rows += [row(read(claim)) for claim in CLAIMS.values() if claim.group == group]
    return "\n".join(rows)


def crossed(claim: str, about: str, rows: tuple[str, ...], columns: tuple[str, ...]) -> str:
    """What a table shows, and the table: the means of the figures "row, column" of a claim."""
    found = measured([run.figures for run in read(CLAIMS[claim]).of()])
    lines = [f"| {' | '.join(['', *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for name in rows:
        means = (number(float(found[f"{name}, {column}"].mean())) for column in columns)
        lines.append(f"| {' | '.join([name, *means])} |")
    return "\n".join([about, "", *lines])


def row(record: Record) -> str:
    """Number, sentence, experiment, figures, seeds, verdict."""
    claim, runs = record.claim, record.of()
    told = "; ".join(f"{name}: {value}" for name, value in figures(claim, runs).items())
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
        parts += [crossed(*CROSSED[group])] if group in CROSSED else []
    return "\n\n".join(parts)


def rationalizers() -> str:
    """What rationalizers find: medians of the seeds of C79, a row each."""
    found = measured([run.figures for run in read(CLAIMS["C79"]).of()])
    corpora = ("sentiment", "hotels-service")
    heads = (f"`{corpus}`: F1 to gold | rate/target | class right" for corpus in corpora)
    lines = [f"| | {' | '.join(heads)} |", "|---" * 7 + "|"]
    for kind in ("REINFORCE", "HardKuma", "entmax"):
        names = (f"{kind}, {c}: {what}" for c in corpora for what in ("F1", "rate by target", "accuracy"))
        medians = (number(float(np.median(found[name]))) for name in names)
        lines.append(f"| {' | '.join([f'`rationalizer_{kind.lower()}`', *medians])} |")
    return "\n".join(lines)
