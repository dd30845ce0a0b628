"""How a model is trained: the settings of the loop."""

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import SettingsError


@dataclass(frozen=True)
class Training:
    """Settings of the loop; the defaults suit a small Transformer."""

    steps: int = 10_000
    tokens: int = 4096  # positions in a batch, padding included
    accumulate: int = 1  # batches per step
    optimiser: Literal["adam", "adamw"] = "adam"
    rate: float = 1e-3  # the highest learning rate
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "inverse_sqrt"
    warmup: int = 1000  # steps from 0 to the highest rate
    decay: float = 0.0  # of weights: in the gradient for adam, beside it for adamw
    beta1: float = 0.9
    beta2: float = 0.98
    clip: float = 1.0  # the largest norm of the gradient; 0 = any
    smoothing: float = 0.1  # of labels
    precision: Literal["float32", "bfloat16"] = "float32"
    validate: int = 500  # steps between validations; each leaves a checkpoint
    save: int = 500  # steps between checkpoints
    patience: int = 0  # validations without improvement before it stops; 0 = none
    average: int = 1  # so many of the last checkpoints are averaged in the end
    report: int = 20  # steps between lines of the log

    def __post_init__(self) -> None:
        for name in ("steps", "tokens", "accumulate", "validate", "save", "average", "report"):
            if getattr(self, name) < 1:
                raise SettingsError(f"training.{name} must be at least 1; got {getattr(self, name)}.")
        for name in ("warmup", "decay", "clip", "patience"):
            if not getattr(self, name) >= 0:
                raise SettingsError(f"training.{name} must be at least 0; got {getattr(self, name)}.")
        for name in ("smoothing", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(
                    f"training.{name} must be at least 0 and less than 1; got {getattr(self, name)}."
                )
        if not self.rate > 0:
            raise SettingsError(f"training.rate must be more than 0; got {self.rate}.")
