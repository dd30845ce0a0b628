"""`regard`, one of whose processes is killed in step 8 of its first life; it writes down its steps."""

import os
import signal
from pathlib import Path

from regard.cli import main
from regard.training import loop

step_of = loop._Loop._step


def step(self, batches):
    lives = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if self.team.first:
        with Path(os.environ["STEPS"]).open("a", encoding="utf-8") as file:
            file.write(f"{lives} {self.progress.step + 1}\n")
    if self.team.rank == 1 and self.progress.step == 7 and lives == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return step_of(self, batches)


loop._Loop._step = step
main()
