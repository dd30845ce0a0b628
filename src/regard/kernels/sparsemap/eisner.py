"""Eisner's algorithm: the best projective dependency tree with one root.

Every span of words has four best scores: headed by its left or its right word, and complete (that word has
all its children there) or open (its farthest child is the word at the other end, which is yet to get the
children beyond). Longer spans are made of two shorter ones; the root is where the best span headed by its
right word and the best one headed by its left word meet.

Spans that begin at the same word are improved together, along rows, each as soon as one of its parts is
known. Where a span was cut is found again on the way back.

Eisner (1996), "Three New Probabilistic Models for Dependency Parsing: An Exploration", COLING.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import exactly

TABLES = 5  # of `spans`
RIGHT, LEFT, OPEN_RIGHT, OPEN_LEFT = range(4)


@exactly
def improve(row: Any, start: int, stop: int, part: float, other: Any) -> None:
    """row ← max(row, part + other) from start to stop."""
    row, other = row[start:stop], other[start:stop]  # indices from 0 are known not to be negative
    for j in range(len(row)):
        total = part + other[j]
        row[j] = total if total > row[j] else row[j]


@exactly
def cut(a: Any, b: Any, start: int, stop: int, top: float) -> int:
    """The first k from start to stop where a[k] + b[k] is the top."""
    k = start
    while k < stop - 1 and a[k] + b[k] != top:
        k += 1
    return k


@exactly
def fill(scores: Any, n: int, joined: Any, right: Any, left: Any, open_right: Any, open_left: Any) -> None:
    """Write the tables: [i, j] is for the words i to j; joined: two complete ones, not yet open."""
    for i in range(n - 1, -1, -1):
        for j in range(n):
            joined[i, j] = right[i, j] = left[i, j] = open_right[i, j] = open_left[i, j] = -np.inf
        right[i, i] = left[i, i] = 0
        for j in range(i, n):
            if j > i:
                open_right[i, j] = joined[i, j] + scores[j, i]  # i is the head of j
                open_left[i, j] = joined[i, j] + scores[i, j]  # j is the head of i
                improve(right[i], j, n, open_right[i, j], right[j])
            if j + 1 < n:
                improve(joined[i], j + 1, n, right[i, j], left[j + 1])
        for j in range(i, n):
            improve(left[i], j + 1, n, left[i, j], open_left[j])


@compiled
def tree(scores: Any, n: int, head: Any, spans: Any, stack: Any) -> float:
    """Write the head of each word into `head` (n,), its own place for the root; returns the tree's score.

    For the first n rows and columns of scores, without NaN or +inf: [i, j] for j as the head of i, [i, i] for
    i as the root. −inf is forbidden; where everything is, the score is −inf and `head` is left alone.
    Scratch: `spans` (5, n, n) float64, `stack` (4n + 4, 3) int64.
    """
    joined, right, left, open_right, open_left = spans[0], spans[1], spans[2], spans[3], spans[4]
    fill(scores, n, joined, right, left, open_right, open_left)
    top, root = -np.inf, 0
    for r in range(n):
        total = left[0, r] + right[r, n - 1] + scores[r, r]
        if total > top:
            top, root = total, r
    if top == -np.inf:
        return -np.inf
    head[root] = root
    stack[0, 0], stack[0, 1], stack[0, 2] = LEFT, 0, root
    stack[1, 0], stack[1, 1], stack[1, 2] = RIGHT, root, n - 1
    depth = 2
    while depth:
        depth -= 1
        kind, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if i == j:
            continue
        if kind == RIGHT:
            k = cut(open_right[i], right[:, j], i + 1, j + 1, right[i, j])
            parts = OPEN_RIGHT, k, RIGHT, k
        elif kind == LEFT:
            k = cut(left[i], open_left[:, j], i, j, left[i, j])
            parts = LEFT, k, OPEN_LEFT, k
        else:
            k = cut(right[i], left[1:, j], i, j, joined[i, j])
            parts = RIGHT, k, LEFT, k + 1
            if kind == OPEN_RIGHT:
                head[j] = i
            else:
                head[i] = j
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = parts[0], i, parts[1]
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = parts[2], parts[3], j
        depth += 2
    return float(top)
