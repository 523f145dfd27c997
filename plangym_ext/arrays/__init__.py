"""Array containers: sliding windows, padding, shared memory, nested arrays."""

from plangym_ext.arrays.array import Array
from plangym_ext.arrays.jagged import JaggedArray
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.arrays.tree import ArrayDict, dict_map

__all__ = ["Array", "ArrayDict", "JaggedArray", "SharedBlock", "dict_map"]
