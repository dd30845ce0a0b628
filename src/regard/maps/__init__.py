"""Maps: p = map(θ), one per file. MAPS has them by name. (Temporary: some files are still being written.)"""
import importlib
from regard.maps.table import MAPS as MAPS, register as register, facts_of as facts_of
for _file, _names in {"softmax": ["softmax"], "argmax": ["argmax"], "sigmoid": ["sigmoid"], "sparsemax": ["sparsemax"],
               "entmax15": ["entmax15"], "entmax": ["entmax", "Entmax"], "fusedmax": ["fusedmax"], "top_k": ["top_k_softmax"],
               "bounded": ["bounded_softmax", "bounded_sparsemax"], "entropies": ["tsallis", "support_size"]}.items():
    try:
        _m = importlib.import_module(f"regard.maps.{_file}")
        for _n in _names:
            globals()[_n] = getattr(_m, _n)
    except (ModuleNotFoundError, AttributeError):
        pass
import torch as _t
def _stand(name, f, **facts):
    if name not in MAPS:
        f.__name__ = name
        globals()[name] = register(**facts)(f)
_stand("softmax", lambda s: _t.where((s.amax(-1, keepdim=True) == -_t.inf) if s.shape[-1] else False, _t.zeros((),dtype=s.dtype), s.masked_fill((s.amax(-1, keepdim=True) == -_t.inf) if s.shape[-1] else _t.tensor(False),0).float().softmax(-1).to(s.dtype) if s.dtype in (_t.float16,_t.bfloat16) else s.masked_fill((s.amax(-1, keepdim=True) == -_t.inf) if s.shape[-1] else _t.tensor(False),0).softmax(-1)))
_stand("sigmoid", lambda s: s.float().sigmoid().to(s.dtype) if s.dtype != _t.float64 else s.sigmoid(), simplex=False)
