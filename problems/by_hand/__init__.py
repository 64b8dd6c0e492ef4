"""Methods by hand for single problems; importing them makes `create` know them."""

from problems.by_hand.exact import Search, Sort
from problems.by_hand.factorization import NMF, Greedy, KMeans, NMFLeastSquares

__all__ = ["NMF", "Greedy", "KMeans", "NMFLeastSquares", "Search", "Sort"]
