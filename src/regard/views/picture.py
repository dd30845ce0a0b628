"""Pictures: matplotlib figures, without its global state, and files that are whole or not there."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.files import beside

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

COLOUR = "#2f6690"  # of weights; what is exactly 0 has none


def figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def shades() -> "Colormap":
    """From pale to dark. The palest is not the colour of paper: a small weight differs from none."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", ["#d9e6ef", COLOUR, "#10202e"])


def check_file(path: str | Path) -> str:
    """The kind of picture a file's ending stands for; an error where it stands for none."""
    kinds = sorted(figure(1, 1).canvas.get_supported_filetypes())
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in kinds:
        raise ValueError(f"a picture's file must end in one of {', '.join(kinds)}; got {Path(path).name}.")
    return kind


def save(picture: "Figure", path: str | Path) -> Path:
    """Write a figure to a file whose ending says how (png, svg, pdf): beside it, then renamed into place."""
    path, kind = Path(path), check_file(path)
    with beside(path) as draft:
        picture.savefig(draft, format=kind, dpi=120)
    return path
