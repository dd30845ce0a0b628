"""What may raise the grade: for each condition that failed, what is known to help."""

from collections.abc import Mapping

from regard.audits.finding import Finding
from regard.audits.verdict import Verdict

HELPS = {
    "necessary": "Decisions hardly depend on the weights: a hidden state that encodes the whole text can "
    "replace any other. Tie hidden states to their words (--tie), add a masked-language-model loss (--mlm), "
    "or use a model without context (attentive_mlp).",
    "hard to manipulate": "Very different weights give the same predictions. A rationalizer (--model "
    "rationalizer_hardkuma), which predicts from the selected words alone, leaves no such room; tying "
    "(--tie) and diverse hidden states (--diversity) leave less.",
    "out of context": "The words of high weight matter little by themselves. Leave-one-out or integrated "
    "gradients (regard explain) say more about them than the weights; --tie, --diversity or --orthogonal "
    "bring the two closer.",
}
NOT_USED = "The weights that are shown are not those that are used: show the others."
HOW_MUCH = "Whether it helps here takes another audit: train with it, then regard audit A B."


def advice(verdict: Verdict, findings: Mapping[str, Finding]) -> list[str]:
    """One sentence or two for each condition that failed."""
    if verdict.grade is None:
        return ["Give the audit more to test: `intervene`, a model of regard, or training texts."]
    shown = verdict.conditions["necessary"].tests.get("consistency")
    if shown is not None and shown < 0.5:
        return [NOT_USED]
    found = [HELPS[name] for name, result in verdict.conditions.items() if result.state == "failed"]
    return [*found, HOW_MUCH] if found else []
