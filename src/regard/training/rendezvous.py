"""A store of their own for the processes of one start of a run.

torchrun keeps one key-value store over all restarts of a run. What an earlier start wrote is still in it,
addresses of dead processes included, and restarts are counted on each machine separately, so their number is
no common prefix. So rank 0 draws a random prefix for this start; each other rank asks for it under a random
name of its own, which no earlier start can have answered:

    rank r:  sets hello/r = its name;  waits for answer/<name> = the prefix;  signs in under the prefix
    rank 0:  answers every hello, again if it changes, until all ranks have signed in
"""

from datetime import timedelta
from time import monotonic, sleep
from uuid import uuid4

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore, Store


def fresh_store(store: Store, rank: int, size: int, timeout: timedelta) -> Store:
    """The store under a prefix that only this start uses, once all ranks are there."""
    if rank:
        name = uuid4().hex
        store.set(f"hello/{rank}", name)
        prefix = store.get(f"answer/{name}").decode()  # waits as long as the store does
        store.set(f"{prefix}/{rank}", "")
        return PrefixStore(prefix, store)
    prefix, missing, begun = uuid4().hex, set(range(1, size)), monotonic()
    while missing:
        for other in sorted(missing):
            if store.check([f"{prefix}/{other}"]):
                missing.remove(other)
            elif store.check([f"hello/{other}"]):
                store.set(f"answer/{store.get(f'hello/{other}').decode()}", prefix)
        if missing and monotonic() - begun > timeout.total_seconds():
            raise DistStoreError(f"process {min(missing)} did not come")
        sleep(0.02)
    return PrefixStore(prefix, store)
