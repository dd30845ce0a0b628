"""Models that answer questions on stories. ANSWER_MODELS has them by name."""

from regard.models.answering.answer_model import AnswerModel as AnswerModel
from regard.models.answering.key_value_memory import KeyValueMemory as KeyValueMemory
from regard.models.answering.memory_network import MemoryNetwork as MemoryNetwork
from regard.models.answering.strong_memory_network import StrongMemoryNetwork as StrongMemoryNetwork
from regard.models.entries import ANSWER_MODELS as ANSWER_MODELS
