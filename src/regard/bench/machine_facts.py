"""Where and with what something was measured."""

import os
import platform
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version

import torch

PEERS = ["entmax", "torch-struct", "osqp", "condat-tv", "joeynmt", "transformers", "networkx", "igraph"]
PACKAGES = ["regard", "torch", "numba", *PEERS]


def machine() -> dict[str, str | float | None]:
    """Facts about this machine, its load and its versions; a package that is not here has None."""
    facts: dict[str, str | float | None] = {
        "date": date.today().isoformat(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = None
    return facts


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
