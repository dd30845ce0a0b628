"""One set of links from two directions.

    intersection           links that both have: few and right
    union                  links that either has: many
    grow-diag              from the intersection, links of the union beside or diagonal to one that is there,
                           as long as one of their two words has none yet
    grow-diag-final-and    then also those whose words both have none

Och & Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models"; Koehn, Och & Marcu
(2003), "Statistical Phrase-Based Translation". The order in which links are visited is that of Moses.
"""

from collections.abc import Callable, Set

from regard.alignment.links import Link

Found = Set[Link]
AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def intersection(forward: Found, reverse: Found) -> set[Link]:
    """Links that both directions have."""
    return set(forward) & set(reverse)


def union(forward: Found, reverse: Found) -> set[Link]:
    """Links that one direction has."""
    return set(forward) | set(reverse)


def grow_diag(forward: Found, reverse: Found) -> set[Link]:
    """The intersection, grown into the union."""
    links, candidates = intersection(forward, reverse), sorted(union(forward, reverse))
    allowed = set(candidates)
    ours, theirs = {i for i, _ in links}, {j for _, j in links}
    before = -1
    while len(links) > before:
        before = len(links)
        for i, j in candidates:
            if (i, j) not in links:
                continue
            for near in ((i + down, j + right) for down, right in AROUND):
                if near in allowed and (near[0] not in ours or near[1] not in theirs):
                    links.add(near)
                    ours.add(near[0])
                    theirs.add(near[1])
    return links


def grow_diag_final_and(forward: Found, reverse: Found) -> set[Link]:
    """The same, and links of either direction between two words that have none."""
    links = grow_diag(forward, reverse)
    ours, theirs = {i for i, _ in links}, {j for _, j in links}
    for direction in (forward, reverse):
        for i, j in sorted(direction):
            if i not in ours and j not in theirs:
                links.add((i, j))
                ours.add(i)
                theirs.add(j)
    return links


SYMMETRISATIONS: dict[str, Callable[[Found, Found], set[Link]]] = {
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final-and": grow_diag_final_and,
}
