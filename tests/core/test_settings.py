"""Settings from TOML and from the command line."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from regard.core.errors import SettingsError
from regard.core.settings import assigned, different, from_dict, read_toml, to_dict, toml


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = (1, 2)
    name: str | None = None


@dataclass(frozen=True)
class Outer:
    steps: int
    deep: bool = False
    inner: Inner = field(default_factory=Inner)


def test_what_is_written_is_read_again(tmp_path):
    settings = Outer(7, True, Inner(1e-5, "b", (3,), 'é "quoted" \\ and\nlines'))
    file = tmp_path / "settings.toml"
    file.write_text(toml(to_dict(settings)), encoding="utf-8")
    assert from_dict(Outer, read_toml(file)) == settings
    assert from_dict(Outer, to_dict(Outer(1))) == Outer(1)


def test_text_is_read_as_the_type_wants_it():
    values = {"steps": "12"}
    for assignment in ("inner.rate=1", "inner.kind=b", "deep=true", "inner.sizes=4,5", "inner.name=none"):
        values = assigned(values, assignment)
    assert from_dict(Outer, values) == Outer(12, True, Inner(1.0, "b", (4, 5), None))
    assert from_dict(Outer, {"steps": 2.0}).steps == 2


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "steps must be given"),
        ({"steps": 1, "innr": 1}, "no setting innr; did you mean inner?"),
        ({"steps": 1, "inner": {"rat": 1}}, r"no setting inner\.rat; did you mean inner\.rate\?"),
        ({"steps": 1.5}, "steps must be a whole number; got 1.5"),
        ({"steps": True}, "steps must be a whole number; got True"),
        ({"steps": "many"}, "steps must be a whole number; got 'many'"),
        ({"steps": 1, "deep": "maybe"}, "deep must be true or false; got 'maybe'"),
        ({"steps": 1, "inner": {"kind": "c"}}, "inner.kind must be one of a, b; got 'c'"),
        ({"steps": 1, "inner": 3}, "inner must be a group of settings; got 3"),
        ({"steps": 1, "inner": {"rate": "x"}}, "inner.rate must be a number; got 'x'"),
    ],
)
def test_a_wrong_setting_is_named(values, says):
    with pytest.raises(SettingsError, match=says):
        from_dict(Outer, values)


def test_wrong_assignments_and_files_are_named(tmp_path):
    with pytest.raises(SettingsError, match="key=value; got 'steps'"):
        assigned({}, "steps")
    with pytest.raises(SettingsError, match="steps in 'steps.x=1' is a setting"):
        assigned({"steps": 1}, "steps.x=1")
    with pytest.raises(SettingsError, match="there is no file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(SettingsError, match=r"bad\.toml is not TOML"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_toml(tmp_path)
    with pytest.raises(SettingsError, match="not a setting"):
        toml({"a": float("nan")})


def test_differences_are_named():
    one, other = to_dict(Outer(1)), to_dict(Outer(2, inner=Inner(kind="b")))
    assert different(one, other) == ["steps", "inner.kind"]
    assert different(one, one) == []
    assert different({"a": (1, 2)}, {"a": [1, 2]}) == []
