"""How a model is trained: the settings of the loop."""

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import SettingsError
from regard.core.settings import SettingsGroup, setting


@dataclass(frozen=True)
class Training(SettingsGroup):
    """Settings of the loop; the defaults suit a small Transformer."""

    group = "training"

    steps: int = setting(10_000, "Steps of training.", option="--steps", least=1)
    tokens: int = setting(4096, "Positions in a batch, padding included.", least=1)
    examples: int = setting(0, "Examples in a batch at most; 0 = any.", least=0)
    accumulate: int = setting(1, "Batches per step.", least=1)
    optimiser: Literal["adam", "adamw", "muon", "sgd"] = "adam"
    rate: float = setting(1e-3, "The highest learning rate.")
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "inverse_sqrt"
    warmup: int = setting(1000, "Steps from 0 to the highest rate.", least=0)
    decay: float = setting(0.0, "Of weights: in the gradient for adam, beside it for adamw.", least=0)
    beta1: float = setting(0.9, "Of Adam.", least=0, below=1)
    beta2: float = setting(0.98, "Of Adam.", least=0, below=1)
    clip: float = setting(1.0, "The largest norm of the gradient; 0 = any.", least=0)
    smoothing: float = setting(0.1, "Of labels.", least=0, below=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    validate: int = setting(500, "Steps between validations; each leaves a checkpoint.", least=1)
    save: int = setting(500, "Steps between checkpoints.", least=1)
    patience: int = setting(0, "Validations without improvement before it stops; 0 = none.", least=0)
    average: int = setting(1, "So many of the last checkpoints are averaged in the end.", least=1)
    report: int = setting(20, "Steps between lines of the log.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rate > 0:
            raise SettingsError(f"training.rate must be more than 0; got {self.rate}.")


@dataclass(frozen=True)
class CosineTraining(Training):
    """Settings of the loop of models that are trained by AdamW and a rate that falls as a cosine."""

    optimiser: Literal["adam", "adamw", "muon", "sgd"] = "adamw"
    schedule: Literal["inverse_sqrt", "cosine", "plateau", "constant"] = "cosine"
    warmup: int = 100
    decay: float = 0.01
    smoothing: float = 0.0
