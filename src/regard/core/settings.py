"""Settings: frozen dataclasses, from and to TOML, and from `key=value` as typed.

A setting is a field; a group of settings is a dataclass in a field. Every complaint names the key, what was
expected and what came.
"""

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from regard.core.errors import SettingsError
from regard.core.files import read_text

D = TypeVar("D")
LARGEST, DEEPEST = 1 << 24, 32  # bytes of a TOML file, parts of a key in it
WHOLE = 1 << 63  # whole numbers are smaller


def setting(
    default: Any = dataclasses.MISSING,
    says: str = "",
    *,
    factory: Any = dataclasses.MISSING,
    option: str | None = None,
    metavar: str | None = None,
    read: Callable[[Path], Any] | None = None,
    least: float | None = None,
    below: float | None = None,
) -> Any:
    """A field of a `Group`: its default, what it means, its option on the command line, and its bounds.

    An option whose value is `read` from a file takes the path of the file.
    """
    facts = {"says": says, "option": option, "metavar": metavar, "read": read, "least": least, "below": below}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=facts)
    return dataclasses.field(default=default, metadata=facts)


def file_setting(says: str, option: str | None = None) -> Any:
    """A setting that names a file; None unless it is given."""
    return setting(None, says, option=option, metavar="FILE")


class SettingsGroup:
    """A group of settings whose values keep their bounds: the base of frozen dataclasses of `setting`s."""

    group: ClassVar[str]  # what messages call it: "data", "training"

    def __post_init__(self) -> None:
        for name, known in facts_of(type(self)).items():
            value, least, below = getattr(self, name), *map(known.get, ("least", "below"))
            if value is None:
                continue
            if (least is not None and not value >= least) or (below is not None and not value < below):
                bounds = [] if least is None else [f"at least {least:g}"]
                bounds += [] if below is None else [f"less than {below:g}"]
                raise SettingsError(f"{self.group}.{name} must be {' and '.join(bounds)}; got {value}.")


def facts_of(kind: type) -> dict[str, Any]:
    """What `setting` was told of each field; a default that a subclass changes keeps it."""
    facts: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        for name, field in vars(one).get("__dataclass_fields__", {}).items():
            facts[name] = field.metadata or facts.get(name, {})
    return facts


def fields_of(kind: type) -> dict[str, Any]:
    """The type of each setting by name."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def from_dict(kind: type[D], values: Mapping[str, Any], where: str = "") -> D:
    """A dataclass of nested mappings; what is not given has its default."""
    types_, found = fields_of(kind), {}
    for key, value in values.items():
        name = f"{where}{key}"
        if key not in types_:
            near = get_close_matches(key, types_, n=1)
            hint = f"; did you mean {where}{near[0]}?" if near else "."
            raise SettingsError(f"no setting {name}{hint} Known: {', '.join(where + k for k in types_)}.")
        found[key] = fitted(types_[key], value, name)
    try:
        return kind(**found)
    except TypeError:
        needed = [name for name in _without_default(kind) if name not in found]
        raise SettingsError(f"{', '.join(where + name for name in needed)} must be given.") from None


def _without_default(kind: type) -> list[str]:
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return [f.name for f in fields if f.default is missing and f.default_factory is missing]


def fitted(kind: Any, value: Any, name: str) -> Any:
    """A value as the type wants it, or an error that names the setting; text is read as that type."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} must be a group of settings; got {value!r}.")
        return from_dict(kind, value, f"{name}.")
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if value not in choices:
            raise SettingsError(f"{name} must be one of {', '.join(map(str, choices))}; got {value!r}.")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None or (value in ("none", "") and type(None) in choices):
            return None
        for choice in (c for c in choices if c is not type(None)):
            try:
                return fitted(choice, value, name)
            except SettingsError as error:
                complaint = error
        raise complaint
    if origin in (tuple, list):
        parts = value.split(",") if isinstance(value, str) else value
        if isinstance(parts, list | tuple):
            return tuple(fitted(choices[0], part, name) for part in parts)
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind in (int, float) and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = kind(value)
            if kind is float or (number == float(value) and abs(number) < WHOLE):
                return number
        except (ValueError, OverflowError):
            pass
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and value is True):
        if isinstance(value, str):
            _check_text(value, name)
        if not isinstance(value, int) or abs(value) < WHOLE:
            return value
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise SettingsError(f"{name} must be {words.get(kind, kind)}; got {value!r}.")


def _check_text(value: str, name: str) -> None:
    """Refuse what no name of a file and no file of settings can hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{name} must be UTF-8 text; got {value!r}.") from None
    if "\0" in value:
        raise SettingsError(f"{name} must be text without NUL; got {value!r}.")


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested mappings of what is set; None is left out, as TOML has none."""
    values = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {
        name: to_dict(value) if dataclasses.is_dataclass(value) else value
        for name, value in values.items()
        if value is not None
    }


def assigned(values: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """The mapping with one more setting, given as group.key=value."""
    path, sign, value = assignment.partition("=")
    if not sign or not path.strip():
        raise SettingsError(f"a setting is given as key=value; got {assignment!r}.")
    *groups, last = path.strip().split(".")
    result = here = dict(values)
    for group in groups:
        inner = here.get(group, {})
        if not isinstance(inner, Mapping):
            raise SettingsError(f"{group} in {assignment!r} is a setting, not a group of settings.")
        here[group] = dict(inner)
        here = here[group]
    here[last] = value.strip()
    return result


def read_toml(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    try:
        text = read_text(path, LARGEST)
        if any(line.split("=")[0].split('"')[0].count(".") > DEEPEST for line in text.splitlines()):
            raise RecursionError  # tomllib takes time in the square of the length of a key
        return tomllib.loads(text)
    except FileNotFoundError:
        raise SettingsError(f"there is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}.") from None
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply.") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None


def toml(values: Mapping[str, Any], group: str = "") -> str:
    """Mappings as TOML: plain settings first, then a table for each group."""
    lines = [f"{key} = {_value(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    text = "\n".join(lines) + "\n" if lines else ""
    for key, inner in values.items():
        if isinstance(inner, Mapping):
            name = f"{group}{key}"
            text += f"\n[{name}]\n" + toml(inner, f"{name}.")
    return text


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{value} is not a setting.")
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, Path) else json.dumps(str(value))


def different(one: Mapping[str, Any], other: Mapping[str, Any], where: str = "") -> list[str]:
    """The names of settings that differ between two mappings."""
    names = []
    for key in dict.fromkeys([*one, *other]):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            names += different(a, b, f"{where}{key}.")
        elif (list(a) if isinstance(a, tuple) else a) != (list(b) if isinstance(b, tuple) else b):
            names.append(f"{where}{key}")
    return names
