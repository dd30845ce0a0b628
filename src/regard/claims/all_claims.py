"""CLAIMS with every claim in it: each file of this folder enters its own."""

import pkgutil
from importlib import import_module
from pathlib import Path

from regard.claims.claim import CLAIMS as CLAIMS

for _file in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if _file.name not in ("all_claims", "claims_page", "remember"):
        import_module(f"regard.claims.{_file.name}")

_found = sorted(CLAIMS.items(), key=lambda item: (item[0][0], int(item[0][1:])))
CLAIMS.clear()
CLAIMS.update(_found)
