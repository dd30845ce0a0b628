"""The assignment problem: each row its own column, at the least total cost.

    min over one-to-one σ of  Σᵢ cost[i, σ(i)]

Rows first take their cheapest column under the prices at hand if it is free; each row left over gets one by
a shortest augmenting path, which changes the prices of the columns it scans. Prices from a similar problem
are a good start, and leave little to do.

Jonker & Volgenant (1987), "A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment
Problems", Computing 38.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled


@compiled
def assign(
    cost: Any, m: int, n: int, price: Any, column: Any, row: Any, level: Any, numbers: Any, places: Any
) -> bool:
    """Write the column of each row into `column` (m,); False if every way costs +inf.

    For the first m rows and n columns of cost, m ≤ n, without NaN or −inf, with a finite entry in every row;
    +inf is forbidden. `price` (n,) is where to start and is left where it ended: any finite numbers if m = n,
    else zeros. Scratch: `row` (n,) int64, `level` (m,) and `numbers` (n,) float64, `places` (2, n) int64.
    """
    for j in range(n):
        row[j] = -1
    for i in range(m):
        low, at = np.inf, 0
        for j in range(n):
            reduced = cost[i, j] - price[j]
            better = reduced < low
            low = reduced if better else low
            at = j if better else at
        level[i], column[i] = low, -1
        if row[at] < 0:
            row[at], column[i] = i, at
    for i in range(m):
        if column[i] < 0 and not augment(cost, n, price, column, row, level, numbers, places, i):
            return False
    return True


@compiled
def augment(
    cost: Any, n: int, price: Any, column: Any, row: Any, level: Any, distance: Any, places: Any, first: int
) -> bool:
    """Give row `first` a column by the shortest path over the reduced costs (Dijkstra)."""
    before, open_ = places[0], places[1]  # the row each column was reached from; columns not scanned yet
    for j in range(n):
        distance[j], open_[j] = np.inf, j
    left, i, low = n, first, 0.0
    while True:
        least, at = np.inf, -1
        for o in range(left):
            j = open_[o]
            reach = low + (cost[i, j] - level[i] - price[j])
            if reach < distance[j]:
                distance[j], before[j] = reach, i
            if distance[j] < least or (distance[j] == least and row[j] < 0):
                least, at = distance[j], o
        if least == np.inf:
            return False
        low = least
        j = open_[at]
        left -= 1
        open_[at], open_[left] = open_[left], j
        if row[j] < 0:
            break
        i = row[j]
    level[first] += low
    for o in range(left, n):
        k = open_[o]
        price[k] -= low - distance[k]
        if k != j:
            level[row[k]] += low - distance[k]
    while True:
        i = before[j]
        row[j] = i
        column[i], j = j, column[i]
        if i == first:
            return True
