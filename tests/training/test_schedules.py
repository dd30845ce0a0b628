"""Learning rates, by their formulas."""

import math

import pytest

from regard.core.errors import SettingsError
from regard.training import Training, rate_at


def test_they_rise_linearly_to_the_highest_rate():
    for schedule in ("inverse_sqrt", "cosine", "plateau", "constant"):
        settings = Training(schedule=schedule, warmup=100, rate=0.3, steps=1000)
        assert rate_at(25, settings) == pytest.approx(0.075)
        assert rate_at(100, settings) == pytest.approx(0.3)
        assert max(rate_at(step, settings) for step in range(1, 1001)) == pytest.approx(0.3)


def test_the_papers_schedule_is_inverse_sqrt_with_its_rate():
    d, w = 512, 4000
    settings = Training(schedule="inverse_sqrt", warmup=w, rate=(d * w) ** -0.5)
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        assert rate_at(step, settings) == pytest.approx(d**-0.5 * min(step**-0.5, step * w**-1.5))


def test_cosine_ends_at_nothing_and_plateau_halves():
    cosine = Training(schedule="cosine", warmup=0, rate=1.0, steps=100)
    assert rate_at(50, cosine) == pytest.approx(0.5)
    assert rate_at(100, cosine) == pytest.approx(0, abs=1e-12)
    plateau = Training(schedule="plateau", warmup=0, rate=1.0)
    assert [rate_at(10, plateau, halvings) for halvings in range(3)] == [1, 0.5, 0.25]
    assert rate_at(1, Training(schedule="inverse_sqrt", warmup=0, rate=1.0)) == 1
    assert math.isfinite(rate_at(5, Training(schedule="cosine", warmup=10, steps=10)))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"steps": 0}, "training.steps must be at least 1; got 0"),
        ({"rate": 0.0}, "training.rate must be more"),
        ({"smoothing": 1.0}, "training.smoothing must be at least 0 and less than 1"),
        ({"warmup": -1}, "training.warmup must be at least 0"),
    ],
)
def test_impossible_settings_are_named(bad, says):
    with pytest.raises(SettingsError, match=says):
        Training(**bad)
