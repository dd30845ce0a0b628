"""The tests of an audit, one per file; each enters itself into AUDITS when its file is imported, here."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
