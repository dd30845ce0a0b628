"""Thresholds: between which two numbers a test goes from failed (0) to passed (1).

FIXED were fitted on planted models, whose faithfulness is known (`regard.audits.planted`): failed is the
median over the unfaithful ones, passed that over the faithful ones, for seeds that are not reported. A test
in none of the tables is shown and not graded. `python -m regard.audits.planted fix` repeats it.

TRAINED are those of the tests that train, fitted in the same way by `fix --full`.

GIVEN were set by hand, since planted models cannot fit them. `consistency` is a gate: any model whose own
weights are put back predicts as before. Planted models are functions, without gradients or hidden states: the
thresholds of the two tests on these lie between a BiLSTM and a model without context, both trained on
generated sentiment.
"""

Ramp = tuple[float, float]  # failed at, passed at

GIVEN: dict[str, Ramp] = {
    "conicity": (0.57, 0.36),
    "consistency": (0.50, 0.95),
    "gradient_correlation": (0.25, 0.65),
}

FIXED: dict[str, Ramp] = {
    "comprehensiveness": (0.02, 0.42),
    "contradiction": (0.95, 0.0),
    "erasure": (0.0, 0.14),
    "joint_erasure": (0.0, 0.44),
    "leave_one_out_correlation": (0.02, 0.85),
    "permutation": (0.0, 0.58),
    "removal": (0.0, -0.35),
    "uniform": (0.0, 0.65),
}

TRAINED: dict[str, Ramp] = {
    "deception": (0.0, 0.93),
    "frozen": (-0.09, 0.26),
    "trained_adversary": (0.16, 0.87),
}

RAMPS: dict[str, Ramp] = {**GIVEN, **FIXED, **TRAINED}
