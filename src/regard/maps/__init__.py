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
