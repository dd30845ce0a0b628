"""The plan of an audit: which tests, how long they may take, and which are left out and why."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from regard.audits import retraining
from regard.audits.register import AUDITS, Audit
from regard.tasks.case import Case, NotApplicable

# The options of a quick audit, where they differ from those of a full one.
QUICK: dict[str, dict[str, Any]] = {"permutation": {"shuffles": 30}, "adversary": {"steps": 120, "draws": 30}}
QUICK_INPUTS, FULL_INPUTS = 500, 1000  # texts that are audited, of those given


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
    tests, left_out = [], {}
    for name, audit in AUDITS.items():
        if audit.trains and quick:
            left_out[name] = "a quick audit trains nothing"
        elif audit.trains and case.train is None:
            left_out[name] = "it must train, and no training texts were given"
        else:
            tests.append(audit)
    once, again = _timed(case)
    training = retraining.seconds(case.train) if any(audit.trains for audit in tests) else 0.0
    n = float(case.lengths.double().mean())
    seconds = {}
    for audit in tests:
        options = QUICK.get(audit.name, {}) if quick else {}
        passes = {
            "permutation": options.get("shuffles", 100) * again,
            "adversary": (3 * options.get("steps", 300) + options.get("draws", 100)) * again,
            "removal": 4 * n * again,
            "contradiction": n * again + once,
            "leave_one_out_correlation": n * once,
        }
        seconds[audit.name] = passes.get(audit.name, 2 * once) + audit.trains * audit.trainings * training
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
