"""Training: one loop for every task, in one process or in many, whose runs can be continued exactly."""

from regard.training.checkpoints import Checkpoint as Checkpoint
from regard.training.checkpoints import Checkpoints as Checkpoints
from regard.training.loop import train as train
from regard.training.processes import ALONE as ALONE
from regard.training.processes import Ended as Ended
from regard.training.processes import Lost as Lost
from regard.training.processes import Team as Team
from regard.training.processes import joined as joined
from regard.training.progress import Diverged as Diverged
from regard.training.progress import Interrupted as Interrupted
from regard.training.progress import Problem as Problem
from regard.training.progress import Progress as Progress
from regard.training.progress import StepReport as StepReport
from regard.training.schedules import rate_at as rate_at
from regard.training.training_settings import CosineTraining as CosineTraining
from regard.training.training_settings import Training as Training
