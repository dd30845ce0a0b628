"""How a model is trained: the settings of the loop."""

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import SettingsError
from regard.core.settings import setting


@dataclass(frozen=True)
class Training:
    """Settings of the loop; the defaults suit a small Transformer."""

    steps: int = setting(10_000, "Steps of training.", option="--steps")
    tokens: int = setting(4096, "Positions in a batch, padding included.")
    accumulate: int = setting(1, "Batches per step.")
    optimiser: Literal["adam", "adamw"] = "adam"
    rate: float = setting(1e-3, "The highest learning rate.")
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "inverse_sqrt"
    warmup: int = setting(1000, "Steps from 0 to the highest rate.")
    decay: float = setting(0.0, "Of weights: in the gradient for adam, beside it for adamw.")
    beta1: float = 0.9
    beta2: float = 0.98
    clip: float = setting(1.0, "The largest norm of the gradient; 0 = any.")
    smoothing: float = setting(0.1, "Of labels.")
    precision: Literal["float32", "bfloat16"] = "float32"
    validate: int = setting(500, "Steps between validations; each leaves a checkpoint.")
    save: int = setting(500, "Steps between checkpoints.")
    patience: int = setting(0, "Validations without improvement before it stops; 0 = none.")
    average: int = setting(1, "So many of the last checkpoints are averaged in the end.")
    report: int = setting(20, "Steps between lines of the log.")

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
