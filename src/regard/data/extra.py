"""The libraries of the extra `text`, imported when first used."""

from importlib import import_module
from typing import Any


def needed(module: str) -> Any:
    """Import a module of the extra `text`, or say in one line how to install it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.split(".")[0]
        raise ImportError(f"this needs {library}: pip install 'regard[text]'") from None
