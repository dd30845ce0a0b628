"""How long an import takes, in processes of its own."""

import subprocess
import sys
from statistics import median

CODE = "from time import perf_counter as now; start = now(); import {}; print(now() - start)"


def seconds_to_import(modules: list[str], rounds: int) -> list[float]:
    """The median seconds of importing each module, in turn, after one round that fills the disk's cache."""
    times: list[list[float]] = [[] for _ in modules]
    for turn in range(rounds + 1):
        for sample, module in zip(times, modules, strict=True):
            command = [sys.executable, "-c", CODE.format(module)]
            seconds = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            if turn:
                sample.append(seconds)
    return [median(sample) for sample in times]
