"""What a task is: all that differs between a translator, a classifier and the next thing that is trained.

A task is one file with an instance of `Task`, entered in TASKS (`tasks/__init__.py`). It says how examples
are read and encoded, which models there are, and what is minimised. What it leaves behind, a trained model
with its tokenizers and labels, is a `System` (tasks/system.py). Everything else (fit, resume, run folder,
commands, page, explanations, audits) knows tasks and systems by these names alone.

    values of config.toml ─ resolve ─▶ settings ─ read ─▶ examples ─ parts, encode ─▶ Encoded on disk
    Encoded ─ Batches ─▶ named fields ─ build, loss, measure ─▶ weights ─ system ─▶ answer, score, case
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard.core.errors import SettingsError
from regard.core.registry import Table
from regard.core.settings import SettingsGroup, fields_of, from_dict, setting, to_dict
from regard.core.weights import Kind, check_shapes, put_tensors, tensors_of
from regard.data.batches import Batch, Batches
from regard.data.encoded import Encoded
from regard.data.fields import Field, Row
from regard.data.splits import Part
from regard.models.entries import Entry
from regard.tasks import SAYS, SYSTEMS
from regard.training.processes import Team
from regard.training.rank_batches import RankBatches

if TYPE_CHECKING:
    from regard.tasks.system import System

LARGEST, MOST_LAYERS = 1 << 24, 1000  # of any size in the settings of a model; of its layers
REPEATED = ("layers", "hops", "looks", "blocks", "iterations", "reading", "writing")  # they count modules
Say = Callable[[str], None]
Located = tuple[str, Any]  # where an example stands ("train.tsv, line 3"), and the example


@dataclass(frozen=True)
class TaskParts:
    """What is made from the training examples and kept beside the weights: tokenizers, labels."""

    def save(self, folder: Path) -> None:
        """Write them into the folder of a run, each into a file of its name, whole or not at all."""
        for name in self.saved():
            getattr(self, name).save(folder / f"{name}.json")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Those in a folder."""
        return cls(**cls.loaded(folder))

    @classmethod
    def loaded(cls, folder: Path) -> dict[str, Any]:
        """Those that have files of their own, by name."""
        kinds = fields_of(cls)
        return {name: kinds[name].load(folder / f"{name}.json") for name in cls.saved()}

    @classmethod
    def saved(cls) -> list[str]:
        """The names of the parts that have files of their own."""
        return [one.name for one in fields(cls)]


@dataclass(frozen=True)
class TaskData(SettingsGroup):
    """Where examples come from: a generated corpus, or files."""

    group = "data"
    files: ClassVar[tuple[str, ...]] = ("train", "valid")  # settings of files; the first is to train on
    needed: ClassVar[bool] = False  # whether one of the two must be given

    corpus: str | None = setting(
        None, "A generated corpus instead of files; the first, where there are none.", option="--corpus"
    )
    fingerprint: str | None = setting(None, "Of the encoded examples: written by the run itself.")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in self.files if getattr(self, name)]
        if self.corpus is not None and given:
            raise SettingsError(f"data.corpus and data.{given[0]} exclude each other; give one of them.")
        if self.corpus is None and self.needed and self.files[0] not in given:
            raise SettingsError(f"data.{self.files[0]} (a file), or data.corpus, must be given.")
        if given and self.files[0] not in given:
            raise SettingsError(
                f"data.{given[0]} is for files of your own: data.{self.files[0]} must be given too."
            )
        validation = [name for name in self.files if name.startswith("valid")]
        alone = [name for name in validation if name in given]
        if alone and validation[0] not in given:
            raise SettingsError(
                f"data.{alone[0]} alone is not enough: data.{validation[0]} must be given too."
            )

    @property
    def generated(self) -> bool:
        """Whether examples are generated: no file to train on is named."""
        return not any(getattr(self, name) for name in self.files[:1])


@dataclass(frozen=True)
class TaskSettings:
    """All that is needed to repeat a run: a task says what its data, training and further groups are."""

    data: Any
    task: Any = ""
    seed: int = setting(
        1, "The same seed repeats the run, exactly with as many threads and processes.", option="--seed"
    )
    model: dict[str, Any] = setting(factory=dict, says="Its name, and the settings of its Config.")
    training: Any = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise SettingsError(f"seed must be at least 0; got {self.seed}.")


class Task:
    """One kind of problem that can be trained."""

    name: str  # what config.toml and `regard train NAME` say
    makes: str  # what comes of it: "translator"
    examples: str  # what its examples are called: "pairs", "texts"
    unit: str = "examples"  # what losses and speed are counted in
    Settings: type[Any]  # TaskSettings with groups of its own
    Parts: type[Any] = TaskParts  # tokenizers, labels …
    Evaluation: type[Any]  # options of `regard evaluate`: a frozen dataclass of `setting`s
    Audit: type[Any] | None = None  # options of `regard audit`, likewise; None: it cannot be audited
    Asking: type[Any] | None = None  # options of `regard answer`, likewise; None: it answers no questions
    models: Table[Entry[Any]]
    default_model: str
    corpora: Mapping[str, Any]  # generated ones, by name; each `says` what it is in a sentence
    model_options: Mapping[str, str] = {  # settings of models that have an option of their own, and its help
        "score": "Any score of `regard scores`.",
        "map": "Any differentiable row map of `regard maps`.",
        "learn_alpha": "With --map entmax: every head learns its α.",
    }
    command_examples: Sequence[str] = ()  # of `regard train NAME`, for help
    usage: Sequence[str] = ()  # how a trained run is used, for its README; DIR is its folder
    # Names of settings groups in older config.toml files, and their names now.
    aliases: Mapping[str, str] = {}

    @property
    def says(self) -> str:
        """One sentence, for help."""
        return SAYS[self.name]

    # From files to encoded examples

    def read(self, settings: Any, part: Part) -> Iterator[Located]:
        """The examples to learn from, or to validate on: from files, or generated; read anew at each call."""
        raise NotImplementedError

    def parts(self, settings: Any, say: Say) -> Any:
        """Tokenizers, labels …, made from the training examples."""
        raise NotImplementedError

    def load_parts(self, folder: Path) -> Any:
        """Those in the folder of a run."""
        return self.Parts.load(folder)

    def fields(self, settings: Any, parts: Any) -> dict[str, Field]:
        """The named fields of an encoded example."""
        raise NotImplementedError

    def encode(self, settings: Any, parts: Any, examples: Sequence[Any]) -> Sequence[Row | None]:
        """The fields of each example; None for one that is empty. A block at once: tokenizers like that."""
        raise NotImplementedError

    def longest(self, settings: Any) -> dict[str, int]:
        """The longest sequence of each field; examples with longer ones are left out and counted."""
        return {}

    def scored(self, settings: Any) -> int | None:
        """How many validation examples are scored after training; None: all."""
        return None

    def check_encoded(self, settings: Any, encoded: Encoded, part: Part) -> None:
        """Raise SettingsError if there is an example that fits into no batch."""
        try:
            Batches(encoded, settings.training.tokens)
        except ValueError as error:
            raise SettingsError(
                f"training.{error} Or leave long {self.examples} out: data.longest."
            ) from None

    def batches(self, settings: Any, encoded: Encoded, team: Team) -> Any:
        """The batches to train on that one rank of a team computes, epoch by epoch."""
        tokens, examples = settings.training.tokens, settings.training.examples
        return RankBatches(encoded, tokens, settings.seed, team, examples)

    def validation(self, settings: Any, encoded: Encoded) -> Iterator[Batch]:
        """The batches to validate on."""
        return Batches(encoded, settings.training.tokens, 0).epoch(0)

    # The model

    def sizes(self, settings: Any, parts: Any | None) -> dict[str, Any]:
        """The settings of a model that come from the data; without parts, any values that work."""
        raise NotImplementedError

    def config_of(self, model: Any) -> Any:
        """The configuration that a model was built from."""
        return model.config

    def check(self, settings: Any, model: nn.Module) -> None:
        """Raise SettingsError if settings do not go together; the model is on the meta device."""

    def complete(self, settings: Any) -> Any:
        """The settings with defaults that depend on other settings filled in."""
        return settings

    def build(self, settings: Any, parts: Any | None) -> nn.Module:
        """The model of the settings, its first weights from the seed."""
        torch.manual_seed(settings.seed)
        return self.make_model(settings, self.sizes(settings, parts))

    def make_model(self, settings: Any, sizes: Mapping[str, Any]) -> nn.Module:
        """The model of the settings for these sizes."""
        given = dict(settings.model)
        entry = self.models[given.pop("name")]
        known = fields_of(entry.config)
        config = from_dict(
            entry.config, {**{k: v for k, v in sizes.items() if k in known}, **given}, "model."
        )
        for name, value in vars(config).items():
            several = isinstance(value, tuple) and name not in sizes
            least = 0 if several or name in sizes else 1
            largest = MOST_LAYERS if name in REPEATED else LARGEST
            for one in value if several else (value,):
                if type(one) is int and not least <= one <= largest:
                    raise SettingsError(
                        f"model.{name} must be at least {least} and at most {largest:,}; got {one:,}."
                    )
            if several and len(value) > MOST_LAYERS:
                raise SettingsError(f"model.{name} may have {MOST_LAYERS:,} numbers; got {len(value):,}.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of layers of width 0, which are refused here or later
                model: nn.Module = entry.kind(config)
        except (ValueError, RuntimeError, TypeError, ArithmeticError) as error:
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SettingsError(f"model: {what}".replace("model: model.", "model.")) from error
        return model

    def empty(self, settings: Any, parts: Any) -> nn.Module:
        """The model of the settings whose weights are yet to come, from a file."""
        return self.build(settings, parts)

    def tensors(self, model: Any) -> dict[str, Tensor]:
        """The weights of a model by name: what model.safetensors holds."""
        return tensors_of(model)

    def check_weights(self, settings: Any, parts: Any, found: Mapping[str, Kind], source: Path) -> None:
        """WeightsError unless tensors of these shapes and types, in the file `source`, fit the model."""
        with torch.device("meta"):
            model = self.empty(settings, parts)
        check_shapes(model, found, source)

    def restore(self, settings: Any, parts: Any, tensors: dict[str, Tensor], source: Path) -> Any:
        """A model with these weights, which come from the file `source`."""
        model = self.empty(settings, parts)
        put_tensors(model, tensors, source)
        return model

    # Training

    def loss(self, settings: Any, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and over how many units (tokens, examples) it is."""
        raise NotImplementedError

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Validation: sums over a batch ("loss" is what counts), and over how many units they are."""
        raise NotImplementedError

    # What comes of it

    def system(self, model: Any, parts: Any, settings: Any, folder: Path | None = None) -> "System":
        """The trained model, ready to answer."""
        module, name = SYSTEMS[self.name].split(":")
        found: System = getattr(import_module(module), name)(model, parts, settings, folder)
        return found

    def suits(self, model: str) -> Mapping[str, Any]:
        """Settings of training that suit a model, in the place of the task's where they are not given."""
        return getattr(self.models[model].kind, "suits", {})

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Settings from nested mappings, checked and filled in before any work is done."""
        settings = from_dict(self.Settings, {"data": {}, **self.filled(self.named(values))})
        sizes = self.sizes(settings, None)
        if said := [name for name in sizes if name in settings.model]:
            raise SettingsError(f"model.{said[0]} comes from the data and cannot be set.")
        settings = replace(settings, model={"name": self.default_model, **settings.model})
        settings = self.complete(settings)
        with torch.device("meta"):
            model = self.build(settings, None)
        self.check(settings, model)
        config = to_dict(self.config_of(model))
        kept = {name: value for name, value in config.items() if name not in sizes}
        return replace(settings, model={"name": settings.model["name"], **kept})

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """Nested mappings with what suits the model; values of a wrong type are left to who checks them."""
        model, training = values.get("model") or {}, values.get("training") or {}
        if not isinstance(model, Mapping) or not isinstance(training, Mapping):
            return values
        name = model.get("name", self.default_model)
        suits = self.suits(name) if isinstance(name, str) and name in self.models else {}
        return {**values, "training": {**suits, **training}}

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Nested mappings with the names of groups as they are now; of a group with two names, both parts."""
        found: dict[str, Any] = {}
        for key, value in values.items():
            if key == "run":  # facts that a run has written into its config.toml, no settings
                continue
            name = self.aliases.get(key, key)
            both = isinstance(found.get(name), Mapping) and isinstance(value, Mapping)
            found[name] = {**found[name], **value} if both else value
        return found

    def fit(self, settings: Any, say: Say) -> "System | None":
        """A task that is not trained by gradient descent does it here, instead of `build` and `loss`."""
        return None
