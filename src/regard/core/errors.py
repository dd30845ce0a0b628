"""The errors regard raises: each names the thing, what was expected, what came, and what to do."""


class ShapeError(ValueError):
    """A tensor has the wrong shape."""


class DtypeError(TypeError):
    """A tensor has the wrong dtype."""


class DeviceError(ValueError):
    """Tensors that must be together live on different devices."""


class ChangedError(RuntimeError):
    """Somebody looks at an attention whose inputs or parameters were changed in place since."""


class UnknownNameError(KeyError):
    """A name that no table has."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr, quotes and all


class WeightsError(ValueError):
    """A file of weights that cannot be read, or that belongs to another model."""


class SettingsError(ValueError):
    """A setting that does not exist or has an impossible value."""


class RunError(ValueError):
    """A folder that holds no run, or not the one that was expected."""


class RefusedError(RunError, TypeError):
    """A model whose attention cannot be reached."""
