"""The report of an audit: the answer, the findings it rests on, and its limits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from regard.audits.register import OLD_NAMES, Finding
from regard.audits.verdict import ConditionResult
from regard.core.files import read_text, write_text

LIMITS = (
    'That attention "is not" evidence does not say why: weights that were made to deceive and weights that '
    "the model merely does not need get the same answer.",
    "It is about these texts, and texts like them: another kind of text needs another audit.",
    "It says whether weights are evidence of what the model used, not whether the model is right, nor "
    "whether people find the weights plausible; plausibility, where measured, is shown separately and not "
    "graded.",
    "Deleted words and changed weights are inputs the model was not trained on: its behaviour there is what "
    "is measured.",
    "The thresholds of the grade were fitted on models whose faithfulness is known by construction; the "
    "documentation says how often the grade was wrong on others of these.",
)
LARGEST = 1 << 24  # bytes of a report that is read; one on ten thousand texts has fewer


@dataclass(frozen=True)
class Example:
    """A text where attention and leave-one-out agree, or do not."""

    words: list[str]
    weights: list[float]
    evidence: list[float]  # how much the prediction changes without the word
    tau: float  # their rank correlation
    says: str  # the predicted class and its probability


@dataclass(frozen=True)
class Report:
    """What `audit` returns."""

    name: str
    grade: float | None  # 0 to 1; None if fewer than two conditions were tested
    answer: str
    conditions: dict[str, ConditionResult]
    tests: dict[str, Finding]
    inputs: int
    quick: bool
    seed: int
    advice: list[str] = field(default_factory=list)  # what would raise the grade
    left_out: dict[str, str] = field(default_factory=dict)  # tests that were not run, and why
    agree: list[Example] = field(default_factory=list)
    disagree: list[Example] = field(default_factory=list)
    limits: Sequence[str] = LIMITS

    def as_dict(self) -> dict[str, Any]:
        """For JSON; NaN and infinity, which JSON does not have, are null."""
        told = {key: _clean(value) for key, value in asdict(self).items()}
        for test in told["tests"].values():
            test |= {old: test[new] for old, new in OLD_NAMES.items()}  # programs read them
        return told

    @classmethod
    def from_dict(cls, what: Mapping[str, Any]) -> "Report":
        """The report that `as_dict` described."""
        parts = dict(what)
        parts["conditions"] = {name: ConditionResult(**one) for name, one in what["conditions"].items()}
        parts["tests"] = {name: Finding.from_dict(one) for name, one in what["tests"].items()}
        for side in ("agree", "disagree"):
            parts[side] = [Example(**one) for one in what[side]]
        return cls(**parts)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write it, .json for programs or .html for people; what is there is not overwritten unless told."""
        path = Path(path)
        if path.suffix not in (".json", ".html"):
            raise ValueError(f"a report is written as .json or .html; got {path.name!r}.")
        if path.exists() and not overwrite:
            raise FileExistsError(
                f"{path} is there already, and a report is not overwritten. Tell it to, or name another."
            )
        if path.suffix == ".json":
            text = json.dumps(self.as_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        else:
            from regard.audits.report_page import page

            text = page([self])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Report":
        """The report in a .json file."""
        path = Path(path)
        try:
            return cls.from_dict(json.loads(read_text(path, LARGEST), parse_constant=_no_number))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{path} is not a report that regard has saved.") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON.")


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value
