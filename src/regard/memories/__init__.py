"""Memories: key/value caches."""

from regard.memories.branches import Branches as Branches
from regard.memories.key_value import KeyValue as KeyValue
from regard.memories.segment import remember as remember
