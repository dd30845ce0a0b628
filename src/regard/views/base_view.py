"""A view: one description of a picture, and the three things it becomes.

a file for print (PNG, SVG, PDF) · a page that needs no network (HTML) · a cell of a notebook
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from regard.core.files import write_text
from regard.views.picture import captioned, check_file, write
from regard.views.shown_text import labels, shown
from regard.views.weight_matrices import Matrix, packed, rows, same_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "Attention weights show where a model attends. That is not yet why it decides."
RAMPS = ("even", "black_to_white")
MOST = 12  # matrices in one picture
UNKNOWN = "unknown to the model"
SMALL = 4096  # cells of all matrices together that are sent as readable numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class View(ABC):
    """What all views have; `kind` is the name of the function that makes them."""

    kind: ClassVar[str]
    title: str = ""
    caption: str = ""
    note: str = ""

    @abstractmethod
    def drawn(self) -> "Figure":
        """The picture alone."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What the browser draws, without title, caption and note."""

    def figure(self) -> "Figure":
        """The picture with title and caption, as a matplotlib figure."""
        said = filter(None, (self.caption, self.legend_note(), self.note))
        return captioned(self.drawn(), self.title, " ".join(said))

    def legend_note(self) -> str:
        """What a caption on paper says in the place of a legend."""
        return ""

    def data(self) -> dict[str, Any]:
        """What the browser draws: plain lists, numbers and clean text, ready for JSON."""
        words = {"title": shown(self.title), "caption": shown(self.caption), "note": self.note}
        return {"format": 1, "kind": self.kind, **words, **self.content()}

    def page(self) -> str:
        """One HTML file as text, which makes no request."""
        from regard.views.html_page import page

        return page(self.data())

    def save(self, path: str | Path) -> Path:
        """Write a file whose ending says what it is: html, png, svg, pdf."""
        path = Path(path)
        if check_file(path) == "html":
            return write_text(path, self.page())
        return write(self.figure(), path)

    def _repr_html_(self) -> str:
        from regard.views.html_page import cell

        return cell(self.data())


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixView(View):
    """A view of one or more matrices of weights, the source across and the target down."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    ramp: str = "even"
    note: str = NOTE
    unknown: tuple[int, ...] = ()  # places of the source tokens that the model does not know
    most: float = field(init=False)  # the weight that has the last colour

    def __post_init__(self) -> None:
        if self.ramp not in RAMPS:
            raise ValueError(f"ramp must be one of {', '.join(RAMPS)}; got {self.ramp!r}.")
        most = max(float(abs(m.weights).max()) for m in self.matrices)
        object.__setattr__(self, "most", 1.0 if self.ramp == "black_to_white" or not most else most)

    @classmethod
    def of(
        cls,
        matrices: Sequence[Matrix],
        source: Sequence[str] | None,
        target: Sequence[str] | None,
        **more: Any,
    ) -> Self:
        """The view of matrices (m, n) with n source and m target tokens; numbers where none are given."""
        m, n = same_size(matrices)
        source, target = labels("source", source, n), labels("target", target, m)
        return cls(source=source, target=target, matrices=tuple(matrices), **more)

    def legend_note(self) -> str:
        return f"A word in a dotted box is {UNKNOWN}." if self.unknown else ""

    def content(self) -> dict[str, Any]:
        small = sum(m.weights.size for m in self.matrices) <= SMALL
        return {
            "source": list(self.source),
            "target": list(self.target),
            "ramp": self.ramp,
            "most": self.most,
            "unknown": list(self.unknown),
            "matrices": [_sent(m, small) for m in self.matrices],
        }


def paper(matrices: tuple[Matrix, ...], rows: int | None = None) -> None:
    """Raise ValueError if there are too many matrices or rows for a picture, which cannot be scrolled."""
    if len(matrices) > MOST:
        raise ValueError(
            f"a picture holds at most {MOST} matrices; got {len(matrices)}. Pick with layer= and head=, "
            "use heads(…), which shows them all, or save a page: .html."
        )
    found = sum(len(m.weights) for m in matrices)
    if rows is not None and found > rows:
        raise ValueError(f"a picture holds at most {rows} rows of text; got {found}. Save a page: .html.")


def _sent(m: Matrix, small: bool) -> dict[str, Any]:
    sent: dict[str, Any] = {"name": shown(m.name), "layer": m.layer, "head": m.head}
    sent["shape"] = list(m.weights.shape)
    sent["weights"] = rows(m.weights) if small else None
    if not small:
        sent["packed"] = packed(m.weights)
    if m.signed:
        sent["signed"] = True
    if m.target is not None:
        sent["target"] = list(m.target)
    return sent
