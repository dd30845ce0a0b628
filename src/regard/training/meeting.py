"""Where processes find each other: a place in their store that no earlier life of the run has used.

torchrun keeps one store for all lives of a run. What a life that was lost wrote is still there, the addresses
of dead processes among it, and restarts are counted on each machine by itself, so that their number is no
common name. Process 0 draws a name for this life; each other asks for it under a name of its own, which no
earlier life can have answered:

    process r:  hello r = its name;  waits for the answer to it = the name of the life;  signs there
    process 0:  answers each hello, a new one again, until all have signed
"""

from datetime import timedelta
from time import monotonic, sleep
from uuid import uuid4

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore, Store


def met(store: Store, rank: int, size: int, timeout: timedelta) -> Store:
    """The store as it is for this life alone, once all processes are there."""
    if rank:
        name = uuid4().hex
        store.set(f"hello/{rank}", name)
        life = store.get(f"answer/{name}").decode()  # waits as long as the store does
        store.set(f"{life}/{rank}", "")
        return PrefixStore(life, store)
    life, missing, begun = uuid4().hex, set(range(1, size)), monotonic()
    while missing:
        for other in sorted(missing):
            if store.check([f"{life}/{other}"]):
                missing.remove(other)
            elif store.check([f"hello/{other}"]):
                store.set(f"answer/{store.get(f'hello/{other}').decode()}", life)
        if missing and monotonic() - begun > timeout.total_seconds():
            raise DistStoreError(f"process {min(missing)} did not come")
        sleep(0.02)
    return PrefixStore(life, store)
