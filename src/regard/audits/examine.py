"""One call: is the attention of a model evidence of what the model used?

A plan says which tests are made, how long they may take, and which are left out and why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from regard.audits import retraining
from regard.audits.register import AUDITS, Audit, Finding, in_order, not_applicable
from regard.audits.report import Example, Report
from regard.audits.tests.correlation import agreement
from regard.audits.verdict import judge
from regard.core.bridges import bridged_system
from regard.models.classifiers import ClassifierModel
from regard.tasks.case import Case, NotApplicable
from regard.tasks.system import System

Listen = Callable[[str, Finding], None]
QUICK_INPUTS, FULL_INPUTS = 500, 1000  # texts that are audited, of those given
LEAST_INPUTS, WORK = 100, 3e9  # of a large model quickly: at least so many texts; texts × parameters
Options = dict[str, dict[str, int]]  # of tests that take longer the higher these are
QUICK: Options = {"permutation": {"shuffles": 30}, "adversary": {"steps": 120, "draws": 30}}
FULL: Options = {"permutation": {"shuffles": 100}, "adversary": {"steps": 300, "draws": 100}}
SHORTEST = 8  # tokens of an example
FEWEST = 10  # texts that a finding can rest on


def audit(
    model: Any = None,
    inputs: Any = None,
    texts: Sequence[Any] | None = None,
    *,
    labels: Sequence[int] | torch.Tensor | None = None,
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
                                    model, tokens; `labels` are the right classes, where texts have none
    model, tokenizer, texts         a model of transformers, and texts
    predict, attention, inputs      functions of lists of texts (`regard.tasks.black_box`); `intervene` too,
                                    where other weights can be put into the model
    quick                           at most 500 inputs, and no test that trains
    """
    more: dict[str, Any] = {} if train is None else {"train": train}
    if labels is not None:
        more["labels"] = torch.as_tensor(labels)
    if texts is not None:
        model, inputs = bridged_system(model, inputs), texts
    if isinstance(model, Case):
        case = model
    elif inputs is None or len(inputs) == 0:
        raise ValueError("an audit needs inputs: a list of texts.")
    elif isinstance(model, System):
        case = model.case(inputs, **more)
    elif isinstance(model, ClassifierModel):
        case = Case.from_model(model, inputs, **more)
    elif model is not None:
        raise TypeError(
            f"audit takes what regard.load returns, or a classifier of regard; got {type(model).__name__}. "
            "For other models give predict=…, attention=…, inputs=…."
        )
    elif predict is None or attention is None:
        raise ValueError("audit takes a model, or predict and attention; neither came.")
    else:
        case = Case.from_functions(predict, attention, inputs, intervene=intervene, **more)
    return examine(sampled(case, quick, seed), quick=quick, seed=seed, name=name, listen=listen)


def sampled(case: Case, quick: bool, seed: int) -> Case:
    """The case with at most as many texts as are audited, drawn at random."""
    most = FULL_INPUTS
    if quick:
        most = min(QUICK_INPUTS, max(LEAST_INPUTS, int(WORK / max(case.size, 1))))
    if len(case) <= most:
        return case
    rows = torch.randperm(len(case), generator=torch.Generator().manual_seed(seed))[:most].sort().values
    return case.subset(rows)


@dataclass(frozen=True)
class Plan:
    """What will be done."""

    tests: list[Audit]
    left_out: dict[str, str]
    seconds: dict[str, float]  # an estimate of each

    @property
    def total(self) -> float:
        """Seconds of all."""
        return sum(self.seconds.values())


def plan(case: Case, *, quick: bool) -> Plan:
    """What can be done with this case, the cheap first."""
    why = "a quick audit trains nothing" if quick else "it must train, and no training texts were given"
    trains = not quick and case.train is not None
    left_out = {name: why for name, audit in AUDITS.items() if audit.trains and not trains}
    tests = [audit for name, audit in AUDITS.items() if name not in left_out]
    once, again = _timed(case)
    training = retraining.seconds(case.train) if trains else 0.0
    n, options = float(case.lengths.double().mean()), QUICK if quick else FULL
    passes = {
        "permutation": options["permutation"]["shuffles"] * again,
        "adversary": (3 * options["adversary"]["steps"] + options["adversary"]["draws"]) * again,
        "removal": 4 * n * again,
        "joint_erasure": 6 * again,
        "contradiction": n * again + once,
        "leave_one_out_correlation": n * once,
    }
    seconds = {a.name: passes.get(a.name, 2 * once) + a.trains * a.trainings * training for a in tests}
    tests.sort(key=lambda audit: seconds[audit.name])
    return Plan(tests, left_out, seconds)


def _timed(case: Case) -> tuple[float, float]:
    """Seconds to predict all texts once, and to predict them once with other weights."""
    some, again = torch.arange(min(64, len(case))), 0.0
    try:
        batches = case.batches  # whatever must be compiled or loaded is, by now
        start = perf_counter()
        case.predict([case.texts[i] for i in some.tolist()], some)
        once = (perf_counter() - start) * len(case) / len(some)
        for batch in batches:
            if batch.with_weights is not None:
                with torch.no_grad():
                    batch.intervene(batch.weights)
                    start = perf_counter()
                    batch.intervene(batch.weights)
                    again += perf_counter() - start
    except NotApplicable:  # no probabilities, or no weights: the tests report it
        return 0.0, 0.0
    return once, again


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
    planned, findings = planned or plan(case, quick=quick), dict(known or {})
    for test in planned.tests:
        if test.name not in findings:
            findings[test.name] = tried(test.name, case, quick, seed)
        if listen is not None:
            listen(test.name, findings[test.name])
    findings = {test: findings[test] for test in in_order(findings)}
    verdict = judge(findings, name)
    answer = verdict.answer
    if verdict.grade is None and len(case) < FEWEST:
        answer = f"{answer.rstrip('.')}: an audit needs {FEWEST} texts or more, and got {len(case)}."
    answer = f"{case.preamble} {answer}" if case.preamble else answer
    dependence = findings.get("key_dependence")
    if dependence is not None and (ignored := dependence.details.get("ignored")):
        answer += (
            f" The weights of {', '.join(ignored)} do not depend on the keys: they are the same whatever "
            "stands in the text."
        )
    graded = verdict.grade, answer, verdict.conditions
    agree, disagree = examples(case)
    return Report(
        name, *graded, findings, len(case), quick, seed, verdict.advice, planned.left_out, agree, disagree
    )


def tried(name: str, case: Case, quick: bool, seed: int) -> Finding:
    """One finding; a test that is not applicable, or that fails, is a finding too, with the reason."""
    try:
        found = AUDITS[name](case, seed=seed, **(QUICK if quick else FULL).get(name, {}))
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
    rows = sorted(
        (float(one), int(row))
        for one, row in zip(tau, case.longer, strict=True)
        if one.isfinite() and int(case.lengths[row]) >= SHORTEST
    )
    most, least = rows[::-1][:count], rows[: min(count, len(rows) // 2)]
    return [_example(case, *one) for one in most], [_example(case, *one) for one in least]


def _example(case: Case, tau: float, row: int) -> Example:
    chosen = int(case.decision[row])
    says = f"{case.class_name(chosen)} ({float(case.probabilities[row, chosen]):.2f})"
    return Example(case.words_of(row), case.shown[row].tolist(), case.leave_one_out[row].tolist(), tau, says)
