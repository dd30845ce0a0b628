"""Growth: time and memory against the number of keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.views.base_view import View
from regard.views.picture import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST = 2  # panels in a row
STYLES = ("o-", "s--", "^:")

Curve = Sequence[tuple[int, float]]  # (n, how much)


@dataclass(frozen=True, eq=False, kw_only=True)
class Growth(View):
    """A panel for each unit, a curve for each name."""

    kind: ClassVar[str] = "growth"
    panels: Mapping[str, Mapping[str, Curve]]

    def content(self) -> dict[str, Any]:
        return {
            "panels": [
                {
                    "unit": unit,
                    "curves": [
                        {"name": name, "points": [list(point) for point in sorted(curve)]}
                        for name, curve in curves.items()
                    ],
                }
                for unit, curves in self.panels.items()
            ]
        }

    def drawn(self) -> "Figure":
        columns = min(WIDEST, len(self.panels))
        rows = -(-len(self.panels) // columns)
        alike = len({tuple(curves) for curves in self.panels.values()}) == 1  # one legend is enough
        picture = figure(5.5 * columns + (1.5 if alike else 0), 4.2 * rows)
        axes = list(picture.subplots(rows, columns, squeeze=False).flat)
        for panel, (unit, curves) in zip(axes, self.panels.items(), strict=False):
            for number, (name, curve) in enumerate(curves.items()):
                n, amount = zip(*sorted(curve), strict=True)
                style = STYLES[number % len(STYLES)]
                panel.plot(n, amount, style, label=name, linewidth=1.2, markersize=4)
            panel.set(xscale="log", yscale="log", xlabel="n", ylabel=unit)
            panel.set_xticks(sorted({n for curve in curves.values() for n, _ in curve}))
            panel.xaxis.set_major_formatter("{x:.0f}")
            panel.minorticks_off()
            panel.spines[["top", "right"]].set_visible(False)
            if not alike:
                panel.legend(fontsize=7)
        for panel in axes[len(self.panels) :]:
            panel.set_axis_off()
        if alike:
            picture.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
        return picture


def growth(**panels: Mapping[str, Curve]) -> Growth:
    """Show curves by name, a panel for each argument that has some: growth(seconds={…}, mebibytes={…})."""
    shown = {unit: curves for unit, curves in panels.items() if curves}
    if not shown:
        raise ValueError("panels must hold at least one curve; got none.")
    return Growth(panels=shown)
