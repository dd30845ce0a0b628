"""The log of a run: one JSON object per line, and TensorBoard's events where they are asked for."""

import json
from pathlib import Path
from typing import Any

from regard.core.files import write_text


class Log:
    """A file of lines, each with its step; a run that goes on from a step first drops what came after it."""

    def __init__(self, path: Path, after: int, board: Path | None = None):
        self.path = path
        kept = [line for line in read(path) if line.get("step", 0) <= after] if after else []
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
        self.board: Any = None
        if board is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ImportError("TensorBoard's events need tensorboard: pip install tensorboard") from None
            self.board = SummaryWriter(str(board), purge_step=after + 1)

    def write(self, **line: Any) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if self.board is not None:
            for name, value in line.items():
                if isinstance(value, int | float) and name != "step":
                    self.board.add_scalar(name, value, line["step"])
            self.board.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that was cut off is passed over."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
