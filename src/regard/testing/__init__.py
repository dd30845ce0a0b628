"""Leak tests for anybody's module: change what must not matter, and the answer must stay.

A check is given a module, or any function of tensors, that returns a tensor, an `Attended`, or a tuple that
starts with one. It raises an AssertionError that names the position that leaked.
"""

from regard.testing.check_causal import check_causal as check_causal
from regard.testing.check_padding import check_padding as check_padding
from regard.testing.looking import check_looking_changes_nothing as check_looking_changes_nothing
from regard.testing.permutation import check_permutation as check_permutation
