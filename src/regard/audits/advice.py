"""What would raise the grade: for each condition that failed, what is known to help."""

from collections.abc import Mapping

from regard.audits.finding import Finding
from regard.audits.verdict import Verdict

HELPS = {
    "necessary": "Decisions hardly need the weights: states that know the whole text make every word a "
    "summary. Tie states to their words (--tie), train them to name masked words too (--mlm), or use a model "
    "that does not mix words (attentive_mlp).",
    "hard to manipulate": "Quite other weights give the same answers. A rationalizer (--model "
    "rationalizer_hardkuma), whose answer depends on the selected words alone, leaves no such room; tying "
    "(--tie) and diverse states (--diversity) leave less.",
    "out of context": "The words that are named matter little by themselves. Leave-one-out or integrated "
    "gradients (regard explain) say more of them than the weights; --tie, --diversity or --orthogonal bring "
    "the two closer.",
}
BROKEN = "The weights that are shown are not those that are used: show the others."
HOW_MUCH = "Whether it helps here is a question for another audit: train with it, then regard audit A B."


def advice(verdict: Verdict, findings: Mapping[str, Finding]) -> list[str]:
    """One sentence or two for each condition that failed."""
    if verdict.grade is None:
        return ["Give the audit more to test: `intervene`, a model of regard, or training texts."]
    shown = verdict.conditions["necessary"].tests.get("consistency")
    if shown is not None and shown < 0.5:
        return [BROKEN]
    found = [HELPS[name] for name, judged in verdict.conditions.items() if judged.state == "failed"]
    return [*found, HOW_MUCH] if found else []
