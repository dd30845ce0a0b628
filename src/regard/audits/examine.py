"""One call: is the attention of a model evidence of what the model used?"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.audits.advice import advice
from regard.audits.finding import Finding, not_applicable
from regard.audits.plan import FULL_INPUTS, QUICK, QUICK_INPUTS, Plan, plan
from regard.audits.register import AUDITS, in_order
from regard.audits.report import Example, Report
from regard.audits.tests.correlation import agreement
from regard.audits.verdict import judge
from regard.models.classifiers import ClassifierModel
from regard.tasks.case import Case, NotApplicable
from regard.tasks.system import System

Listen = Callable[[str, Finding], None]
SHORTEST = 8  # tokens of an example
FEWEST = 10  # texts that a finding can rest on


def audit(
    model: Any = None,
    inputs: Sequence[Any] | None = None,
    *,
    predict: Callable[..., Any] | None = None,
    attention: Callable[..., Any] | None = None,
    intervene: Callable[..., Any] | None = None,
    train: Any = None,
    quick: bool = False,
    seed: int = 0,
    name: str = "this attention",
    listen: Listen | None = None,
) -> Report:
    """Audit a trained system (`regard.load`), a classifier model with token lists, a case, or functions.

    model, inputs                   inputs as `System.case` takes them: texts, labelled if possible; of a bare
                                    model, tokens
    predict, attention, inputs      functions of lists of texts (`regard.tasks.black_box`); `intervene` too,
                                    where other weights can be put into the model
    quick                           at most 500 inputs, and no test that trains
    """
    case = make_case(model, inputs, predict, attention, intervene, train)
    return examine(sampled(case, quick, seed), quick=quick, seed=seed, name=name, listen=listen)


def make_case(
    model: Any,
    inputs: Sequence[Any] | None,
    predict: Callable[..., Any] | None = None,
    attention: Callable[..., Any] | None = None,
    intervene: Callable[..., Any] | None = None,
    train: Any = None,
) -> Case:
    """The case that the arguments of `audit` describe."""
    if isinstance(model, Case):
        return model
    if inputs is None or len(inputs) == 0:
        raise ValueError("an audit needs inputs: a list of texts.")
    more = {} if train is None else {"train": train}
    if model is None:
        if predict is None or attention is None:
            raise ValueError("audit takes a model, or predict and attention; neither came.")
        return Case.from_functions(predict, attention, inputs, intervene=intervene, **more)
    if isinstance(model, System):
        return model.case(inputs, **more)
    if isinstance(model, ClassifierModel):
        return Case.from_model(model, inputs, **more)
    raise TypeError(
        f"audit takes what regard.load returns, or a classifier of regard; got {type(model).__name__}. "
        "For other models give predict=…, attention=…, inputs=…."
    )


def sampled(case: Case, quick: bool, seed: int) -> Case:
    """The case with at most as many texts as are audited, drawn at random."""
    most = QUICK_INPUTS if quick else FULL_INPUTS
    if len(case) <= most:
        return case
    rows = torch.randperm(len(case), generator=torch.Generator().manual_seed(seed))[:most].sort().values
    return case.subset(rows)


def examine(
    case: Case,
    *,
    quick: bool = False,
    seed: int = 0,
    name: str = "this attention",
    listen: Listen | None = None,
    known: Mapping[str, Finding] | None = None,
    planned: Plan | None = None,
) -> Report:
    """Make every test that the plan has, except those `known`, and grade."""
    planned = planned or plan(case, quick=quick)
    findings: dict[str, Finding] = {}
    for test in planned.tests:
        if known is not None and test.name in known:
            findings[test.name] = known[test.name]
        else:
            findings[test.name] = tried(test.name, case, quick, seed)
        if listen is not None:
            listen(test.name, findings[test.name])
    findings = {test: findings[test] for test in in_order(findings)}
    verdict = judge(findings, name)
    agree, disagree = examples(case)
    return Report(
        name,
        verdict.grade,
        verdict.answer,
        verdict.conditions,
        findings,
        len(case),
        quick,
        seed,
        advice(verdict, findings),
        planned.left_out,
        agree,
        disagree,
    )


def tried(name: str, case: Case, quick: bool, seed: int) -> Finding:
    """One finding; a test that is not applicable, or that fails, is a finding too, with the reason."""
    options = QUICK.get(name, {}) if quick else {}
    try:
        found = AUDITS[name](case, seed=seed, **options)
        if found.inputs < FEWEST:
            return not_applicable(f"it needs {FEWEST} texts it can be made on, and there are {found.inputs}")
        return found
    except NotApplicable as error:
        return not_applicable(str(error))
    except (ValueError, TypeError, RuntimeError, IndexError, KeyError, ArithmeticError) as error:
        what = str(error).strip().split("\n")[0]
        return not_applicable(f"it failed: {type(error).__name__}: {what}")


def examples(case: Case, count: int = 3) -> tuple[list[Example], list[Example]]:
    """Texts where attention and leave-one-out agree most, and least."""
    try:
        tau = agreement(case, case.shown, case.leave_one_out)
    except NotApplicable:
        return [], []
    rows = [
        (float(one), int(row))
        for one, row in zip(tau, case.longer, strict=True)
        if one == one and int(case.lengths[row]) >= SHORTEST
    ]
    rows.sort()
    made = [
        _example(case, one, row) for one, row in (*rows[::-1][:count], *rows[: min(count, len(rows) // 2)])
    ]
    return made[: min(count, len(rows))], made[min(count, len(rows)) :]


def _example(case: Case, tau: float, row: int) -> Example:
    words = case.words[row] if case.words is not None else [str(token) for token in case.texts[row]]
    chosen = int(case.decision[row])
    predicted = str(case.classes[chosen]) if case.classes is not None else f"class {chosen}"
    return Example(
        list(words),
        case.shown[row].tolist(),
        case.leave_one_out[row].tolist(),
        tau,
        f"{predicted} ({float(case.probabilities[row, chosen]):.2f})",
    )
