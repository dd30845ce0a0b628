"""Memories: what attention keeps from one step to the next."""

from regard.memories.branches import Branches as Branches
from regard.memories.key_value import KeyValue as KeyValue
