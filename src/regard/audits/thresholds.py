"""Thresholds: between which two numbers a test goes from failed (0) to passed (1).

They were fixed on planted models, whose truth is known (`regard.audits.planted`): failed is the median of the
unfaithful ones, passed that of the faithful ones. `python -m regard.audits.planted` says how, and repeats it.
"""

Ramp = tuple[float, float]  # failed at, passed at

RAMPS: dict[str, Ramp] = {
    "adversary": (0.95, 0.50),
    "comprehensiveness": (0.05, 0.30),
    "conicity": (0.60, 0.35),
    "consistency": (0.80, 0.98),
    "erasure": (0.0, 0.20),
    "gradient_correlation": (0.20, 0.60),
    "leave_one_out_correlation": (0.20, 0.60),
    "permutation": (0.05, 0.40),
    "removal": (0.0, -0.30),
    "uniform": (0.05, 0.80),
}
