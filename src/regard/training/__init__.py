"""Training: one loop for every task, with checkpoints that continue a run bit for bit."""

from regard.training.checkpoints import Checkpoint as Checkpoint
from regard.training.checkpoints import Checkpoints as Checkpoints
from regard.training.loop import train as train
from regard.training.schedules import rate_at as rate_at
from regard.training.settings import Training as Training
from regard.training.task import Diverged as Diverged
from regard.training.task import Interrupted as Interrupted
from regard.training.task import Progress as Progress
from regard.training.task import Report as Report
from regard.training.task import Task as Task
