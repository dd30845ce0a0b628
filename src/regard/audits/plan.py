"""The plan of an audit: which tests, how long they may take, and which are left out and why."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from regard.audits.case import Case
from regard.audits.table import AUDITS, Audit

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
        train = getattr(case.train, "seconds", 0.0) * getattr(audit.function, "trainings", 1)
        seconds[audit.name] = passes.get(audit.name, 2 * once) + (train if audit.trains else 0.0)
    tests.sort(key=lambda audit: seconds[audit.name])
    return Plan(tests, left_out, seconds)


def _timed(case: Case) -> tuple[float, float]:
    """Seconds to read all texts once, and to answer once more with other weights; 0 where that fails."""
    try:
        batches = case.batches  # whatever must be compiled or loaded is, by now
        some = torch.arange(min(64, len(case)))
        started = perf_counter()
        case.predict([case.texts[i] for i in some.tolist()], some)
        once = (perf_counter() - started) * len(case) / len(some)
        again = 0.0
        for batch in batches:
            if batch.again is None:
                continue
            with torch.no_grad():
                batch.again(batch.weights)
                started = perf_counter()
                batch.again(batch.weights)
                again += perf_counter() - started
        return once, again
    except Exception:  # whatever is wrong, the tests will say it
        return 0.0, 0.0
