"""Runs: the folder a model is trained into, and `load`, which brings one back."""

from regard.runs.classifier import Classification as Classification
from regard.runs.classifier import Classifier as Classifier
from regard.runs.classifier_settings import ClassifierSettings as ClassifierSettings
from regard.runs.fit import Fitted as Fitted
from regard.runs.fit import fit as fit
from regard.runs.fit_classifier import FittedClassifier as FittedClassifier
from regard.runs.fit_classifier import fit_classifier as fit_classifier
from regard.runs.fit_classifier import load_classifier as load_classifier
from regard.runs.load import load as load
from regard.runs.resolve import resolved as resolved
from regard.runs.resolve_classifier import resolved_classifier as resolved_classifier
from regard.runs.settings import Settings as Settings
from regard.runs.translator import Translation as Translation
from regard.runs.translator import Translator as Translator
