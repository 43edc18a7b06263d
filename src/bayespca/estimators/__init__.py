"""scikit-learn classes and one-call functions: validate, call, store."""

from ._halves import RankStability
from ._lookalikes import Lookalikes
from ._posterior import PosteriorReader
from .bernoulli import BernoulliMixture
from .binary_pca import BinaryPCA
from .factorization import MatrixFactorization
from .functions import denoise, evbmf, vbmf
from .generalized_pca import GeneralizedPCA
from .gibbs import GibbsPCA
from .gplvm import GPLVM
from .imputation import BayesianPCAImputer, EntryScores, cross_validate_entries, impute
from .mixture import PCAMixture
from .multi_view import MultiViewPCA
from .pca import BayesianPCA, RankWarning
from .persistence import ModelFileError, load
from .ranks import RankReport
from .rotation import RotatedFactors, rotate
from .rules import rank_report, rank_rules
from .selection import ComponentSelection, select_components
from .stability import rank_stability
from .summary import Summary, summarize
from .tucker import BayesianTucker, tensor_ranks
from .variational import VariationalPCA

__all__ = [
    "GPLVM",
    "BayesianPCA",
    "BayesianPCAImputer",
    "BayesianTucker",
    "BernoulliMixture",
    "BinaryPCA",
    "ComponentSelection",
    "EntryScores",
    "GeneralizedPCA",
    "GibbsPCA",
    "Lookalikes",
    "MatrixFactorization",
    "ModelFileError",
    "MultiViewPCA",
    "PCAMixture",
    "PosteriorReader",
    "RankReport",
    "RankStability",
    "RankWarning",
    "RotatedFactors",
    "Summary",
    "VariationalPCA",
    "cross_validate_entries",
    "denoise",
    "evbmf",
    "impute",
    "load",
    "rank_report",
    "rank_rules",
    "rank_stability",
    "rotate",
    "select_components",
    "summarize",
    "tensor_ranks",
    "vbmf",
]
