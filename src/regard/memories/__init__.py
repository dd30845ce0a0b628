"""Memories: key/value caches."""

from regard.memories.branches import Branches as Branches
from regard.memories.decoding_stats import decoding_stats as decoding_stats
from regard.memories.key_value import KeyValue as KeyValue
from regard.memories.quantised import Quantised as Quantised
from regard.memories.quantised import cache_for as cache_for
from regard.memories.segment import remember as remember
