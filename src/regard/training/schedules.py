"""Learning rates over time: a rise to the highest rate, then a way down.

    inverse_sqrt   rate · min(t/w, √(w/t))                      Vaswani et al. (2017), arXiv:1706.03762, §5.3
    cosine         rate · ½(1 + cos(π (t − w)/(T − w)))         Loshchilov & Hutter (2017), arXiv:1608.03983
    plateau        rate · ½ᵏ, k validations of which did not improve
    constant       rate

with t the step from 1 on, w the steps of the rise and T all steps. (The paper's
d^{−½} min(t^{−½}, t w^{−3/2}) is inverse_sqrt with the rate (d w)^{−½}.)
"""

import math

from regard.training.training_settings import Training


def rate_at(step: int, settings: Training, halvings: int = 0) -> float:
    """The learning rate of a step, counted from 1."""
    warmup, rate = settings.warmup, settings.rate
    if step < warmup:
        return rate * step / warmup
    if settings.schedule == "inverse_sqrt":
        return rate * math.sqrt(max(warmup, 1) / step)
    if settings.schedule == "cosine":
        along = (step - warmup) / max(settings.steps - warmup, 1)
        return rate * 0.5 * (1 + math.cos(math.pi * min(along, 1.0)))
    return rate * 0.5**halvings if settings.schedule == "plateau" else rate
