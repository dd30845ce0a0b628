"""Controls: what can be chosen when the weights of a system are shown, as data that a page draws from.

A control has a name, a label, options (each a value and how it is shown) and a default. `when` names values
of other controls without which it has no effect: a head can be chosen where words are coloured by attention.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.core.errors import UnknownNameError
from regard.core.registry import Table
from regard.inspection.inspected import InvalidRequest, OutOfRange
from regard.inspection.method_scores import ATTENTION, methods
from regard.tasks.system import System

Value = int | str | None
KEPT, LEFT_OUT = "kept", "left out"  # what is done with the weight on the first token


@dataclass(frozen=True)
class Control:
    """One choice."""

    name: str
    label: str
    options: list[tuple[Value, str]]
    default: Value
    when: dict[str, list[Value]] = field(default_factory=dict)

    def check(self, value: Value) -> None:
        """Raise InvalidRequest unless this is one of its options."""
        known = [one for one, _ in self.options]
        if value in known:
            return
        numbers = [one for one in known if isinstance(one, int)]
        if numbers and isinstance(value, int):
            raise OutOfRange(self.name, value, len(numbers))
        try:
            Table(self.name, dict.fromkeys(map(str, known)))[str(value)]
        except UnknownNameError as error:
            raise InvalidRequest(str(error)) from None
        raise InvalidRequest(f"{self.name} must be one of {', '.join(map(repr, known))}; got {value!r}.")


def controls(system: System) -> list[Control]:
    """What can be chosen of a system."""
    layers, heads, explained = len(system.layer_names), system.heads, methods(system)
    when: dict[str, list[Value]] = {"method": [ATTENTION]} if explained else {}
    found, among = [], when
    if len(system.attentions) > 1:
        named: list[tuple[Value, str]] = [(name, name) for name in system.attentions]
        found.append(Control("attention", "Attention", named, system.attentions[0], when))
        if layers == 1:  # the others have more
            among, layers = (
                {**when, "attention": list(system.attentions[1:])},
                len(system.attention_paths["self"]),
            )
    if layers > 1:
        found.append(Control("layer", "Layer", _counted(layers), layers - 1, among))
    if heads > 1:
        found.append(Control("head", "Head", [(None, "mean of all"), *_counted(heads)], None, when))
    if system.sinks:
        found.append(Control("sink", "First token", [(KEPT, KEPT), (LEFT_OUT, LEFT_OUT)], KEPT, when))
    if explained:
        found.append(Control("method", "Coloured by", [(name, name) for name in explained], ATTENTION))
    return found


def _counted(count: int) -> list[tuple[Value, str]]:
    return [(number, f"{number + 1} of {count}") for number in range(count)]


def resolve_options(controls: list[Control], given: Mapping[str, Value]) -> dict[str, Value]:
    """The value of every control: as given, or its default. InvalidRequest if it is none of its options."""
    named = {control.name: control for control in controls}
    for name, value in given.items():
        if name not in named:
            known = f"there is {', '.join(named)}" if named else "nothing can be chosen"
            raise InvalidRequest(f'there is no "{name[:100]}" to choose here: {known}.')
        named[name].check(value)
    options = {name: given.get(name, control.default) for name, control in named.items()}
    for name, control in named.items():
        active = all(options[other] in values for other, values in control.when.items())
        if options[name] != control.default and not active:
            needed = ", ".join(f"{other} {' or '.join(map(str, v))}" for other, v in control.when.items())
            raise InvalidRequest(f"{name} has an effect with {needed} alone.")
    return options
