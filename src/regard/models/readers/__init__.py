"""Readers: where in a passage the answer to a question is. READERS has them by name."""

from regard.models.entries import READERS as READERS
from regard.models.readers.attention_over_attention import AttentionOverAttention as AttentionOverAttention
from regard.models.readers.attention_sum import AttentionSum as AttentionSum
from regard.models.readers.dynamic_coattention import DynamicCoattention as DynamicCoattention
from regard.models.readers.one_way import OneWay as OneWay
from regard.models.readers.reader_model import ReaderModel as ReaderModel
