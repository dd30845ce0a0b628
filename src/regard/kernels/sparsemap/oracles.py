"""The MAP oracles of the built-in structures, by number: the best vertex, as the coordinates where it is 1.

Scores are a matrix (m, n), flat: one row for a choice or a budget, positions by states for a chain, rows by
columns for a matching, words by heads for a tree. What is hidden altogether is taken out before: rows and
columns of a matching, the words of a tree.
"""

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.chains.viterbi import viterbi
from regard.kernels.common.compiled import compiled, pasted
from regard.kernels.sparsemap.assignment import assign
from regard.kernels.sparsemap.eisner import TABLES, tree

CHOICE, BUDGET, CHAIN, MATCHING, TREE = range(5)
INFEASIBLE = -1


class Room(NamedTuple):
    """Scratch of one thread, and what is visible of the instance at hand."""

    rows: Any  # (m,), those that are visible
    columns: Any  # (n,)
    visible: Any  # (2,), how many
    matrix: Any  # (k, k), k the larger of m and n
    price: Any
    column: Any
    row: Any
    level: Any
    distance: Any
    places: Any
    spans: Any
    stack: Any
    path: Any
    best: Any
    back: Any


@pasted
def room(kind: int, m: int, n: int) -> Any:
    """Scratch for scores (m, n)."""
    k = max(m, n) if kind == MATCHING else 0
    t = n if kind == TREE else 0
    c = m if kind == CHAIN else 0
    return Room(
        np.zeros(m, np.int64),
        np.zeros(n, np.int64),
        np.zeros(2, np.int64),
        np.zeros((max(k, t), max(k, t))),
        np.zeros(k),
        np.zeros(max(k, t), np.int64),
        np.zeros(k, np.int64),
        np.zeros(k),
        np.zeros(k),
        np.zeros((2, k), np.int64),
        np.zeros((TABLES, t, t)),
        np.zeros((4 * t + 4, 3), np.int64),
        np.zeros(c, np.int64),
        np.zeros((2, n)),
        np.zeros((c, n), np.int64),
    )


@pasted
def most(kind: int, limit: int, m: int, n: int) -> int:
    """The most coordinates at which a vertex can be 1."""
    if kind == CHOICE:
        return 1
    if kind == BUDGET:
        return min(limit, n)
    return min(m, n) if kind == MATCHING else m


@pasted
def prepare(kind: int, scores: Any, m: int, n: int, room: Any) -> bool:
    """Note which rows and columns of scores (mn,) are visible; False if nothing is."""
    if kind != MATCHING and kind != TREE:
        return True
    rows, columns = room.rows, room.columns
    for i in range(m):
        rows[i] = 0
    for j in range(n):
        columns[j] = 0
    for i in range(m):
        for j in range(n):
            shown = scores[i * n + j] > -np.inf
            rows[i] |= shown
            columns[j] |= shown
    a = b = 0  # the marks become lists, each over its own beginning
    for i in range(m):
        if rows[i] and (kind == MATCHING or columns[i]):
            rows[a] = i
            a += 1
    for j in range(n):
        if columns[j]:
            columns[b] = j
            b += 1
    room.visible[0], room.visible[1] = a, b
    for j in range(len(room.price)):
        room.price[j] = 0
    return a > 0 and b > 0


@pasted
def centre(kind: int, scores: Any, m: int, n: int, room: Any, centred: Any) -> None:
    """Write scores (mn,) minus the highest of each row, or column, in which every vertex has exactly one 1.

    That changes no difference between vertices, and keeps what all have in common out of the rounding.
    """
    columns = kind == MATCHING and room.visible[0] > room.visible[1]
    for r in range(0 if kind == BUDGET else (n if columns else m)):
        start, step, count = (r, n, m) if columns else (r * n, 1, n)
        top = -np.inf
        for k in range(count):
            top = max(top, scores[start + k * step])
        for k in range(count):
            at = start + k * step
            centred[at] = scores[at] - top if top > -np.inf else -np.inf
    for j in range(m * n if kind == BUDGET else 0):
        centred[j] = scores[j]


@compiled
def find(
    kind: int, limit: int, scores: Any, m: int, n: int, transitions: Any, room: Any, where: Any
) -> tuple[int, float]:
    """Write where the best vertex for scores (mn,) is 1: at how many places, and its score besides those."""
    if kind == CHOICE:
        at = 0
        for j in range(1, len(scores)):
            at = j if scores[j] > scores[at] else at
        where[0] = at
        return 1, 0.0
    if kind == BUDGET:
        return highest(scores, limit, where), 0.0
    if kind == CHAIN:
        count, extra = walk(scores.reshape(m, n), transitions, room, where)
        return count, extra
    a, b = room.visible[0], room.visible[1]
    if kind == TREE:
        matrix = room.matrix
        for i in range(a):
            for j in range(a):
                matrix[i, j] = scores[room.rows[i] * n + room.rows[j]]
        if tree(matrix, a, room.column, room.spans, room.stack) == -np.inf:
            return INFEASIBLE, 0.0
        for i in range(a):
            where[i] = room.rows[i] * n + room.rows[room.column[i]]
        return a, 0.0
    few, many = min(a, b), max(a, b)
    matrix = room.matrix
    for i in range(few):
        for j in range(many):
            at = (room.rows[i] * n + room.columns[j]) if a <= b else (room.rows[j] * n + room.columns[i])
            matrix[i, j] = -scores[at]
    for j in range(many if few < many else 0):
        room.price[j] = 0
    found: bool = assign(
        matrix, few, many, room.price, room.column, room.row, room.level, room.distance, room.places
    )
    if not found:
        return INFEASIBLE, 0.0
    for i in range(few):
        r, c = (
            (room.rows[i], room.columns[room.column[i]])
            if a <= b
            else (room.rows[room.column[i]], room.columns[i])
        )
        where[i] = r * n + c
    return few, 0.0


@pasted
def highest(scores: Any, limit: int, where: Any) -> int:
    """Where the highest scores above 0 are, at most `limit`, highest first, the first of equals; how many."""
    count = 0
    for j in range(len(scores)):
        if not scores[j] > 0:
            continue
        if count == limit and (limit == 0 or not scores[j] > scores[where[count - 1]]):
            continue
        k = count if count < limit else count - 1
        while k > 0 and scores[where[k - 1]] < scores[j]:
            where[k] = where[k - 1]
            k -= 1
        where[k] = j
        count = min(count + 1, limit)
    return count


@pasted
def walk(scores: Any, transitions: Any, room: Any, where: Any) -> tuple[int, float]:
    """The best path for scores (n, s) and transitions (s, s): where it passes, and the sum of the latter."""
    n, s = scores.shape
    if viterbi(scores, transitions, room.path, room.best, room.back) == -np.inf:
        return INFEASIBLE, 0.0
    count, extra = 0, 0.0
    for i in range(n):
        if room.path[i] >= 0:
            where[count] = i * s + room.path[i]
            if count:
                extra += transitions[where[count - 1] % s, room.path[i]]
            count += 1
    return count, extra
