"""Mechanisms: attention whose cost grows less than n², one per file. MECHANISMS has them by name."""

from regard.mechanisms.bigbird import BigBird as BigBird
from regard.mechanisms.fixed import Fixed as Fixed
from regard.mechanisms.full import Full as Full
from regard.mechanisms.linear_attention import LinearAttention as LinearAttention
from regard.mechanisms.linformer import Linformer as Linformer
from regard.mechanisms.local import Local as Local
from regard.mechanisms.longformer import Longformer as Longformer
from regard.mechanisms.mechanism import MECHANISMS as MECHANISMS
from regard.mechanisms.mechanism import Core as Core
from regard.mechanisms.mechanism import Heads as Heads
from regard.mechanisms.mechanism import Mechanism as Mechanism
from regard.mechanisms.mechanism import make as make
from regard.mechanisms.mechanism import make_core as make_core
from regard.mechanisms.mechanism import register as register
from regard.mechanisms.performer import Performer as Performer
from regard.mechanisms.reformer import Reformer as Reformer
from regard.mechanisms.sinkhorn import Sinkhorn as Sinkhorn
from regard.mechanisms.strided import Strided as Strided
from regard.mechanisms.synthesizer import Synthesizer as Synthesizer
