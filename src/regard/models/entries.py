"""TRANSLATORS, CLASSIFIERS, LANGUAGE_MODELS …: every model by the name of its file, with its configuration.

A model enters itself with a decorator: `@register_translator(Config)`, `@register_classifier(Config)` …;
`TRANSLATORS["luong"].make(**settings)` builds one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torch import nn

from regard.core.registry import Table, first_line

if TYPE_CHECKING:  # models import this file
    from regard.models.algorithm.algorithm_model import AlgorithmModel
    from regard.models.answering.answer_model import AnswerModel
    from regard.models.classifiers.classifier_model import ClassifierModel
    from regard.models.images.image_model import ImageModel
    from regard.models.language.language_model import LanguageModel
    from regard.models.pointers.pointer_model import PointerModel
    from regard.models.readers.reader_model import ReaderModel
    from regard.models.sequence_model import SequenceModel

M = TypeVar("M", bound=nn.Module)
K = TypeVar("K", bound=type[nn.Module])


@dataclass(frozen=True)
class Entry(Generic[M]):
    """A model class and its configuration; `make(**settings)` builds a model."""

    name: str
    kind: type[M]
    config: type[Any]
    says: str  # one sentence

    def make(self, **settings: Any) -> M:
        """The model with these settings; the others have their defaults."""
        return self.kind(self.config(**settings))


def registrar(table: Table[Any]) -> Callable[[type[Any]], Callable[[K], K]]:
    """The decorator `register(Config)` that enters a class into a table under the name of its file."""

    def register(config: type[Any]) -> Callable[[K], K]:
        def enter(kind: K) -> K:
            name = kind.__module__.rsplit(".", 1)[-1]
            table.enter(name, Entry(name, kind, config, first_line(kind)))
            return kind

        return enter

    return register


TRANSLATORS: "Table[Entry[SequenceModel[Any, Any]]]" = Table("model", {})
CLASSIFIERS: "Table[Entry[ClassifierModel]]" = Table("classifier", {})
LANGUAGE_MODELS: "Table[Entry[LanguageModel]]" = Table("language model", {})
CAPTIONERS: "Table[Entry[SequenceModel[Any, Any]]]" = Table("captioner", {})
VISUAL_QUESTION_MODELS: "Table[Entry[Any]]" = Table("model of questions", {})
IMAGE_MODELS: "Table[Entry[ImageModel]]" = Table("image model", {})
ANSWER_MODELS: "Table[Entry[AnswerModel]]" = Table("answer model", {})
ALGORITHM_MODELS: "Table[Entry[AlgorithmModel]]" = Table("algorithm model", {})
READERS: "Table[Entry[ReaderModel]]" = Table("reader", {})
POINTERS: "Table[Entry[PointerModel]]" = Table("model that points", {})
register_translator = registrar(TRANSLATORS)
register_classifier = registrar(CLASSIFIERS)
register_language_model = registrar(LANGUAGE_MODELS)
register_image_model = registrar(IMAGE_MODELS)
register_captioner = registrar(CAPTIONERS)
register_visual_question_model = registrar(VISUAL_QUESTION_MODELS)
register_answer_model = registrar(ANSWER_MODELS)
register_algorithm_model = registrar(ALGORITHM_MODELS)
register_reader = registrar(READERS)
register_pointer = registrar(POINTERS)
