"""The log of a run: one JSON object per line, and TensorBoard's events where they are asked for."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.core.files import LARGEST, check_regular, parse_json, write_text


class Log:
    """A file of lines, each with its step; a run that goes on from a step first drops what came after it."""

    def __init__(self, path: Path, after: int, board: Path | None = None):
        self.path = path
        kept = [line for line in read(path) if line["step"] <= after] if after else []
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
        self.board: Any = None
        if board is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ImportError("TensorBoard's events need tensorboard: pip install tensorboard") from None
            self.board = SummaryWriter(str(board), purge_step=after + 1)

    def write(self, **line: Any) -> None:
        """Add a line, whole or not at all."""
        text = (json.dumps(line, ensure_ascii=False) + "\n").encode()
        with self.path.open("ab", buffering=0) as file:
            end, written = file.tell(), 0
            try:
                while written < len(text):
                    written += file.write(text[written:])
            except OSError as error:
                with suppress(OSError):
                    os.truncate(self.path, end)
                raise OSError(error.errno, error.strerror, str(self.path)) from None
        if self.board is not None:
            for name, value in line.items():
                if isinstance(value, int | float) and name != "step":
                    self.board.add_scalar(name, value, line["step"])
            self.board.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; those that are cut off or damaged are passed over."""
    if not path.exists():
        return []
    check_regular(path, LARGEST)
    found = []
    for raw in path.read_bytes().splitlines():
        try:
            line = parse_json(raw.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            found.append(line)
    return found
