"""A sequence classifier of transformers as a system: as our own, with [CLS] and [SEP] around the text."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.bridges.huggingface.foreign_tokenizer import ForeignTokenizer
from regard.bridges.huggingface.model_attentions import head_count
from regard.bridges.huggingface.model_facts import described, home
from regard.bridges.huggingface.reading_model import ReadingModel
from regard.core.errors import RunError
from regard.data.labelled import Classes
from regard.tasks.case import Case
from regard.tasks.classification import (
    ClassificationAudit,
    ClassificationData,
    ClassificationSettings,
    TextParts,
)
from regard.tasks.classifier import Classification, Classifier

ELSEWHERE = "(elsewhere)"  # where it was trained


class TextClassifier(Classifier):
    """A model for sequence classification."""

    model: ReadingModel
    unknown, attentions = None, ("answer", "text")

    def __init__(self, theirs: Any, tokenizer: ForeignTokenizer, name: str):
        model = ReadingModel(theirs, tokenizer.before, tokenizer.after, reads_last=hasattr(theirs, "score"))
        labels = [str(theirs.config.id2label[i]) for i in range(theirs.config.num_labels)]
        parts = TextParts(
            tokenizer, Classes(labels, pairs=False, labels=[str(i) for i in range(len(labels))])
        )
        settings = ClassificationSettings(ClassificationData(train=ELSEWHERE), model=described(theirs))
        super().__init__(model, parts, settings, home(name))
        self.name = name

    @property
    def heads(self) -> int:
        return head_count(self.model.get_submodule(self.layers[-1]))

    @property
    def around(self) -> tuple[int, int]:
        return self.model.around

    def self_weights(self, answer: Classification) -> tuple[list[Tensor], int]:
        layers, ahead = super().self_weights(answer)
        n = ahead + len(answer.tokens)
        return [one[..., :n, :n] for one in layers], ahead

    def case(self, items: Sequence[Any], **options: Any) -> Case:
        if "train" in options:
            raise RunError("a model of transformers is not trained again here: audit it without train.")
        return super().case(items, **options)

    def audited(self, options: ClassificationAudit) -> tuple[Case, str]:
        if options.train is not None:
            raise RunError("a model of transformers is not trained again here: leave --train out.")
        case, what = super().audited(options)
        return case, f"{self.name} {what}"

    def renamed(self, names: str | None) -> "TextClassifier":
        if names is None:
            return self
        found = TextClassifier(self.model.theirs, self.model_tokenizer, self.name)
        found.parts = TextParts(self.model_tokenizer, self.parts.classes.renamed(names))
        return found

    @property
    def model_tokenizer(self) -> ForeignTokenizer:
        """What cuts texts, with the special tokens it knows."""
        assert isinstance(self.tokenizer, ForeignTokenizer)
        return self.tokenizer
