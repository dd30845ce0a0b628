"""Libraries of the optional dependencies `regard[text]`, imported when first used."""

from importlib import import_module
from typing import Any


def needed(module: str) -> Any:
    """Import a module of `regard[text]`; the error, if it is missing, says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.split(".")[0]
        raise ImportError(f"this needs {library}: pip install 'regard[text]'") from None
