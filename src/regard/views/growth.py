"""Growth: time and memory against the number of keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.views.base_view import View
from regard.views.picture import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CROWDED = 6  # curves for which there is room for a legend in a panel
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
        first = next(iter(self.panels.values()))
        beside = len(first) > CROWDED and all(
            curves.keys() == first.keys() for curves in self.panels.values()
        )
        picture = figure(5.5 * len(self.panels) + 1.4 * beside, 4.2)
        for panel, (unit, curves) in zip(
            picture.subplots(1, len(self.panels), squeeze=False).flat, self.panels.items(), strict=True
        ):
            for number, (name, curve) in enumerate(curves.items()):
                n, amount = zip(*sorted(curve), strict=True)
                panel.plot(
                    n, amount, ["o-", "s--", "^:"][number % 3], label=name, linewidth=1.2, markersize=4
                )
            panel.set(xscale="log", yscale="log", xlabel="n", ylabel=unit)
            panel.set_xticks(sorted({n for curve in curves.values() for n, _ in curve}))
            panel.xaxis.set_major_formatter("{x:.0f}")
            panel.minorticks_off()
            panel.spines[["top", "right"]].set_visible(False)
            if beside:
                lines = panel.lines
            else:
                panel.legend(fontsize=7)
        if beside:
            picture.legend(handles=lines, fontsize=8, frameon=False, loc="outside right center")
        return picture


def growth(**panels: Mapping[str, Curve]) -> Growth:
    """Show curves by name, a panel for each argument that has some: growth(seconds={…}, mebibytes={…})."""
    shown = {unit: curves for unit, curves in panels.items() if curves}
    if not shown:
        raise ValueError("panels must hold at least one curve; got none.")
    return Growth(panels=shown)
