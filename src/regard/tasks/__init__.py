"""Tasks: what can be trained. TASKS has them by name; each is imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from regard.core.registry import Table
from regard.tasks.task import Task as Task

WHERE = Table(  # name of a task: the file and the instance in it
    "task",
    {
        "translation": "regard.tasks.translation:TRANSLATION",
        "classification": "regard.tasks.classification:CLASSIFICATION",
        "alignment": "regard.tasks.alignment:ALIGNMENT",
    },
)
OLD_NAMES = {"aligner": "alignment"}


class Tasks(Mapping[str, Task]):
    """Tasks by name."""

    def __getitem__(self, name: str) -> Task:
        module, instance = WHERE[OLD_NAMES.get(name, name)].split(":")
        task: Task = getattr(import_module(module), instance)
        return task

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


TASKS = Tasks()
