"""Peak memory of one attention or map, forward + backward, above that of its inputs.

Measured in a process of its own: `python -m regard.bench.memory attend:sdpa 16384 0`. The peak is Linux's
VmHWM, set back to the present size once the inputs are there and a small call has warmed up. (`ru_maxrss`
cannot be set back: compiling a kernel would hide what the call takes, and a child starts with its parent's.)
Where there is no /proc, `ru_maxrss` is the best there is.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter

from regard.bench.workloads import (
    attention_inputs,
    candidate,
    grouped,
    grouped_inputs,
    map_inputs,
    map_there_and_back,
    there_and_back,
)
from regard.maps import MAPS

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ATTEND, GROUPED = "attend:", "grouped:"


def peak(how: str, n: int, rows: int = 0) -> tuple[float, float]:
    """Mebibytes and seconds of one forward + backward at n keys, in a process of its own.

    `how` is "attend:sdpa", "attend:" and a map (n queries), "grouped:" likewise (heads that share keys), or a
    map alone, on so many rows.
    """
    command = [sys.executable, "-m", "regard.bench.memory", how, str(n), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {how} at n={n} failed:\n{done.stderr.strip()}")
    found = json.loads(done.stdout)
    return found["mebibytes"], found["seconds"]


def measure(how: str, n: int, rows: int) -> dict[str, float]:
    """The same in this process."""
    step(how, 256, 256)()  # compiles and starts threads
    go = step(how, n, rows)
    before = _start()
    start = perf_counter()
    go()
    return {"seconds": perf_counter() - start, "mebibytes": max(_peak() - before, 0.0)}


def step(how: str, n: int, rows: int) -> Callable[[], None]:
    """One forward + backward, its inputs made."""
    if how.startswith(ATTEND):
        return partial(there_and_back, candidate(how.removeprefix(ATTEND)), *attention_inputs(n))
    if how.startswith(GROUPED):
        return partial(there_and_back, grouped(how.removeprefix(GROUPED)), *grouped_inputs(n))
    return partial(map_there_and_back, MAPS[how].function, *map_inputs(rows, n))


def _start() -> float:
    """Set the peak back to the present size where that is possible; it is returned in MiB."""
    with suppress(OSError):
        CLEAR.write_text("5")
    return _peak()


def _peak() -> float:
    try:
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
