"""Pictures: matplotlib figures, without its global state, and files that are written whole or not at all."""

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from regard.core.files import beside
from regard.views.ramps import AGAINST, PATHS, even
from regard.views.shown_text import shown

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from regard.views.base_view import View

COLOUR = "#2f6690"  # of weights; what is exactly 0 has none
BELOW = "#a8521a"  # of weights below 0
INK, FAINT = "#1a1f24", "#59636e"
DOTTED: dict[str, Any] = {
    "boxstyle": "square,pad=0.15",
    "fc": "none",
    "ec": INK,
    "ls": (0, (1, 1.5)),
    "lw": 1,
}
FONTS = (  # those installed are tried in turn for characters that the first does not have
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Arial Unicode MS",
    "Segoe UI Emoji",
)


def figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """An empty figure of this size in inches; with layout=None the caller places the axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout=layout)


def shades(ramp: str = "even", signed: bool = False) -> "Colormap":
    """From the smallest weight to the largest. The palest is not the colour of paper; what is masked is."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    if ramp == "black_to_white":
        return LinearSegmentedColormap.from_list(ramp, ["#000000", "#ffffff"])
    colours = even(PATHS["light"], 256)
    return ListedColormap([*even(AGAINST["light"], 256)[::-1], *colours] if signed else colours)


def scale(picture: "Figure", colours: Any) -> None:
    """A colour bar to the right of all panels."""
    bar = picture.colorbar(colours, ax=picture.axes, shrink=0.6, aspect=18, pad=0.02)
    bar.ax.tick_params(labelsize=7, length=2)


@cache
def font() -> dict[str, Any]:
    """Families for tokens in any script, for `set_fontproperties` and text(**font())."""
    from matplotlib.font_manager import fontManager

    there = {found.name for found in fontManager.ttflist}
    return {"family": [name for name in FONTS if name in there] or ["sans-serif"]}


@lru_cache(8192)
def measured(text: str, size: float = 9) -> float:
    """The width of a text in inches."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.text import Text

    picture = figure(1, 1)
    drawn = Text(0, 0, text, fontsize=size, parse_math=False, figure=picture, **font())
    make: Callable[..., RendererAgg] = RendererAgg
    renderer = make(1, 1, picture.dpi)
    return float(drawn.get_window_extent(renderer).width / picture.dpi)


def captioned(picture: "Figure", title: str, caption: str) -> "Figure":
    """A figure with its title above and its caption below, for which it grows; its content keeps its size."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    wide, high = picture.get_size_inches()
    title = fill(shown(title), max(20, int(wide * 10)))
    caption = fill(shown(caption), max(30, int(wide * 16)))
    above = 0.2 * (title.count("\n") + 1) + 0.1 if title else 0.0
    below = 0.125 * (caption.count("\n") + 1) + 0.1 if caption else 0.0
    whole = high + above + below
    picture.set_figheight(whole)
    engine = picture.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, below / whole, 1, high / whole))
    for axes in picture.axes if engine is None else ():
        left, bottom, width, height = axes.get_position(original=True).bounds
        axes.set_position((left, (bottom * high + below) / whole, width, height * high / whole))
    how: dict[str, Any] = {"parse_math": False, "in_layout": False, **font()}
    picture.text(0.5, 1 - 0.08 / whole, title, fontsize=11, ha="center", va="top", color=INK, **how)
    picture.text(0.1 / wide, 0.06 / whole, caption, fontsize=7, ha="left", va="bottom", color=FAINT, **how)
    return picture


def check_file(path: str | Path) -> str:
    """The format that a file's ending means; ValueError if it means none."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind in ("html", "htm"):
        return "html"
    kinds = sorted(figure(1, 1).canvas.get_supported_filetypes())
    if kind not in kinds:
        known = ", ".join(["html", *kinds])
        raise ValueError(f"a picture's file must end in one of {known}; got {Path(path).name}.")
    return kind


def write(picture: "Figure", path: Path) -> Path:
    """Write a figure beside the path, then rename it into place. The text of an SVG stays text."""
    from matplotlib import rc_context

    kind = check_file(path)
    with beside(path) as draft, rc_context({"svg.fonttype": "none"} if kind == "svg" else {}):
        picture.savefig(draft, format=kind, dpi=240)
    return path


def save(picture: "View | Figure", path: str | Path) -> Path:
    """Write a view or a matplotlib figure; the file's ending says how: png, svg, pdf, and html for a view."""
    from regard.views.base_view import View

    if isinstance(picture, View):
        return picture.save(path)
    if check_file(path) == "html":
        raise ValueError(
            f"a matplotlib figure has no page; save a view as {Path(path).name}, or this as png."
        )
    return write(picture, Path(path))
