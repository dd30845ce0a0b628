"""What every row of a benchmark has."""

import json

import pytest

MUST = {"what", "against", "ratio", "seconds", "rows", "n", "scale", "limit", "aim", "held", "support"}


def check_complete(results):
    for row in results:
        assert row.keys() >= MUST
        assert row["seconds"] > 0
        assert row["ratio"] == pytest.approx(row["seconds"] / row["against_seconds"])
        assert row["held"] == (None if row["limit"] is None else row["ratio"] <= row["limit"])
        json.dumps(row)
