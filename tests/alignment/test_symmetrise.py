"""Two directions into one, against a dense definition read from the pseudo-code."""

import random

import pytest

from alignment import published
from regard.alignment.formats import read
from regard.alignment.symmetrise import SYMMETRISATIONS, grow_diag, grow_diag_final_and


def dense(forward, reverse, n, m):
    """GROW-DIAG and FINAL-AND over every cell of the matrix, again and again."""
    links, union = forward & reverse, forward | reverse

    def bare(i, j):
        return all(a != i for a, _ in links), all(b != j for _, b in links)

    changed = True
    while changed:
        changed = False
        for i in range(n):
            for j in range(m):
                if (i, j) in links:
                    for a, b in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        near = i + a, j + b
                        if near in union and any(bare(*near)):
                            links = links | {near}
                            changed = True
    grown = links
    for direction in (forward, reverse):
        for i in range(n):
            for j in range(m):
                if (i, j) in direction and all(bare(i, j)):
                    links = links | {(i, j)}
    return grown, links


@pytest.mark.parametrize("seed", range(60))
def test_growing_is_as_defined(seed):
    chance = random.Random(seed)
    n, m = chance.randint(1, 6), chance.randint(1, 6)
    every = [(i, j) for i in range(n) for j in range(m)]
    forward, reverse = (set(chance.sample(every, chance.randint(0, min(len(every), 8)))) for _ in range(2))
    grown, final = dense(forward, reverse, n, m)
    assert grow_diag(forward, reverse) == grown
    assert grow_diag_final_and(forward, reverse) == final
    for symmetrise in SYMMETRISATIONS.values():
        found = symmetrise(forward, reverse)
        assert forward & reverse <= found <= forward | reverse


def test_an_example():
    forward, reverse = {(0, 0), (1, 1), (2, 1), (4, 4)}, {(0, 0), (1, 1), (1, 2), (3, 3)}
    assert SYMMETRISATIONS["intersection"](forward, reverse) == {(0, 0), (1, 1)}
    assert grow_diag(forward, reverse) == {(0, 0), (1, 1), (2, 1), (1, 2)}  # (3, 3) is near none of them
    assert grow_diag_final_and(forward, reverse) == {(0, 0), (1, 1), (2, 1), (1, 2), (3, 3), (4, 4)}


@published.needed
@pytest.mark.parametrize("system", ["giza", "fastalign"])
@pytest.mark.parametrize("kind", ["intersection", "union"])
def test_others_find_the_same(system, kind):
    folder, sizes = published.FOLDER / "baselines", published.sizes()
    forward = read(folder / f"{system}.forward.talp", sizes)
    reverse = read(folder / f"{system}.reverse.talp", [size[::-1] for size in sizes])
    theirs = read(folder / f"{system}.{kind}.talp", sizes)
    for a, b, c in zip(forward, reverse, theirs, strict=True):
        assert SYMMETRISATIONS[kind](a.sure, b.reversed().sure) == c.sure
