"""Settings that tasks on text share: where texts come from, and how they are cut into tokens."""

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import SettingsError
from regard.core.settings import Group, setting


@dataclass(frozen=True)
class TextData(Group):
    """A generated corpus or files; `files` names the setting of the file, `size` that of a corpus's size."""

    group = "data"

    corpus: str | None = setting(None, "A generated corpus instead of files.", option="--corpus")
    held_out: int = setting(
        1000, "Examples to validate on, where no file is given (at most a tenth of all).", least=1
    )
    tokens: Literal["bpe", "word", "character"] = setting("bpe", "How text is cut into tokens.")
    vocabulary: int = setting(8000, "Different tokens.", least=1)
    longest: int = setting(256, "Tokens of a text; examples with longer ones are left out.", least=1)
    fingerprint: str | None = setting(None, "Of the encoded examples: written by the run itself.")

    def files(self) -> tuple[str | None, str]:
        """The file to train on, and what its setting is called."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        file, name = self.files()
        if self.corpus is None and file is None:
            raise SettingsError(f"data.{name} (a file), or data.corpus, must be given.")
        if self.corpus is not None and file is not None:
            raise SettingsError(f"data.corpus and data.{name} exclude each other; give one of them.")
