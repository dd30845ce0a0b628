"""Structures: sets of vertices with a MAP oracle, for SparseMAP and SPIGOT."""

from regard.structures.budget import Budget as Budget
from regard.structures.chain_structure import Chain as Chain
from regard.structures.choice import Choice as Choice
from regard.structures.matching import Matching as Matching
from regard.structures.oracle import Oracle as Oracle
from regard.structures.structure import Solution as Solution
from regard.structures.structure import Structure as Structure
from regard.structures.tree import Tree as Tree
