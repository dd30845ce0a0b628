"""Processes find each other in a store that earlier lives of the run have used."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import DistStoreError, HashStore

from regard.training.rendezvous import fresh_store

MINUTE = timedelta(minutes=1)


def meet(store: HashStore, ranks: list[int]):
    """The places of these processes, which come in this order."""
    with ThreadPoolExecutor(len(ranks)) as threads:
        coming = {rank: threads.submit(fresh_store, store, rank, len(ranks), MINUTE) for rank in ranks}
        return [coming[rank].result() for rank in sorted(ranks)]


@pytest.mark.parametrize("ranks", [[0, 1, 2], [2, 1, 0]])
def test_what_one_life_wrote_the_next_does_not_see(ranks):
    store = HashStore()
    for life in ("first", "second"):
        places = meet(store, ranks)
        assert not any(place.check(["address"]) for place in places)
        places[1].set("address", life)
        assert [place.get("address").decode() for place in places] == [life] * 3


def test_one_that_died_before_it_was_answered_is_not_taken_for_the_next():
    store = HashStore()
    store.set("hello/1", "the name of one that is dead")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(fresh_store, store, 0, 2, MINUTE)
        store.wait(["answer/the name of one that is dead"])  # it was answered, and never signs
        assert not first.done()
        other = fresh_store(store, 1, 2, MINUTE)
        other.set("here", "yes")
        assert first.result().get("here") == b"yes"


def test_one_that_does_not_come_is_named():
    store = HashStore()
    store.set("hello/2", "one that died")
    with pytest.raises(DistStoreError, match="process 1 did not come"):
        fresh_store(store, 0, 3, timedelta(seconds=0.1))
