"""Classification of long sequences: ListOps, bytes, pairs of texts, pixels, Pathfinder, by name."""

from regard.data.long_range.byte_texts import byte_texts
from regard.data.long_range.listops import listops
from regard.data.long_range.long_task import LONG_TASKS as LONG_TASKS
from regard.data.long_range.long_task import LongExample as LongExample
from regard.data.long_range.long_task import LongTask as LongTask
from regard.data.long_range.pathfinder import pathfinder
from regard.data.long_range.pixels import pixels
from regard.data.long_range.retrieval import retrieval

for _task in (listops, byte_texts, retrieval, pixels, pathfinder):
    LONG_TASKS.enter(_task.name, _task)
