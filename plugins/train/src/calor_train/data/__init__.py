"""Datasets, their random order, and the loader that makes batches of them."""

from calor_train.data.collate import default_collate
from calor_train.data.dataset import ArrayDataset, Dataset, Subset, random_split
from calor_train.data.loader import DataLoader

__all__ = ["ArrayDataset", "DataLoader", "Dataset", "Subset", "default_collate", "random_split"]
