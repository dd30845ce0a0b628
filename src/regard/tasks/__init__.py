"""Tasks: what can be trained. TASKS has them by name; each is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.core.registry import Table

if TYPE_CHECKING:
    from regard.tasks.task import Task as Task

WHERE = Table(  # name of a task: the file and the instance in it
    "task",
    {
        "translation": "regard.tasks.translation:TRANSLATION",
        "classification": "regard.tasks.classification:CLASSIFICATION",
        "alignment": "regard.tasks.alignment:ALIGNMENT",
        "language": "regard.tasks.language:LANGUAGE",
        "image": "regard.tasks.image:IMAGE",
        "caption": "regard.tasks.caption:CAPTION",
        "visual_question": "regard.tasks.visual_question:VISUAL_QUESTION",
        "answering": "regard.tasks.answering:ANSWERING",
        "algorithm": "regard.tasks.algorithm:ALGORITHM",
        "pointing": "regard.tasks.pointing:POINTING",
        "reading": "regard.tasks.reading:READING",
    },
)
SAYS = {  # what `regard train --help` says of them, which imports none
    "translation": "Train a translator into DIR; `regard translate DIR` then uses it.",
    "classification": "Train a classifier into DIR; `regard classify DIR` then uses it.",
    "alignment": "Train a word aligner into DIR; `regard align DIR` then uses it.",
    "language": "Train a language model into DIR; `regard generate DIR` then uses it.",
    "image": "Train a classifier of pictures into DIR; `regard classify DIR image.png` then uses it.",
    "caption": "Train a captioner into DIR; `regard caption DIR image.png` then uses it.",
    "visual_question": "Train a model of questions about pictures into DIR: what is beside the red circle?",
    "answering": "Train a network that answers questions on stories into DIR; `regard answer DIR` uses it.",
    "algorithm": "Train a network on the examples of an algorithm into DIR: copy, recall, sort.",
    "pointing": "Train a model into DIR that points at its input: sorting, convex hulls, tours.",
    "reading": "Train a reader into DIR; `regard answer DIR` then answers questions about a passage.",
}
SYSTEMS = {  # what a task makes of a trained model, with nothing else needed: the file and the class
    "classification": "regard.tasks.classifier:Classifier",
    "language": "regard.tasks.language_system:LanguageSystem",
    "image": "regard.tasks.image_classifier:ImageClassifier",
    "caption": "regard.tasks.captioner:Captioner",
    "visual_question": "regard.tasks.visual_question_system:VisualQuestionSystem",
    "answering": "regard.tasks.answerer:Answerer",
    "algorithm": "regard.tasks.machine:Machine",
    "pointing": "regard.tasks.pointer:Pointer",
    "reading": "regard.tasks.reader:Reader",
}
OLD_NAMES = {"aligner": "alignment"}


class Tasks(Mapping[str, "Task"]):
    """Tasks by name."""

    def __getitem__(self, name: str) -> "Task":
        module, instance = WHERE[OLD_NAMES.get(name, name)].split(":")
        task: Task = getattr(import_module(module), instance)
        return task

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


TASKS = Tasks()


def __getattr__(name: str) -> Any:
    """`Task`, which imports torch, when it is first asked for."""
    if name == "Task":
        return import_module("regard.tasks.task").Task
    raise AttributeError(f"module 'regard.tasks' has no attribute {name!r}")
