"""The notebook that introduces parllel's Array, cell by cell with ours."""

import multiprocessing

import numpy as np
import pytest

# As published, but for two imports: the package, and a start method that does
# not fork this process, which runs threads.
CELLS = [
    """
import numpy as np
from plangym_ext.arrays import Array

array = Array(batch_shape=(5, 4), dtype=np.float32)  # use batch_shape instead of shape
array[:] = np.arange(4)
print(array)
""",
    """
ndarray = array.to_ndarray()
print(ndarray.sum(axis=-1))
""",
    """
array = Array(batch_shape=(5, 4), dtype=np.float32, padding=1)
array[:] = np.arange(4)
array[5] = [4, 5, 6, 7]  # note that this appears to be out of bounds!
print(array)
print(array[5])
print(array[array.last + 1])
assert array.last + 1 == 5
""",
    """
array[...] = 0
array.rotate()
print(array[0])  # [4, 5, 6, 7] has been copied to the 0th position in the array
""",
    """
array = Array(batch_shape=(5, 4), dtype=np.float32, full_size=10)
array[...] = 7
array.rotate()
array[...] = 42
array.rotate()
print(array)
array.rotate()
print(array)
""",
    """
array = Array(batch_shape=(5, 4), dtype=np.float32, padding=1)
array[...] = np.arange(np.prod(array.shape)).reshape(array.shape)
array[-1] = np.arange(-4, 0)
print(array)
print("previous:\\n", array.previous)
print("next:\\n", array.next)
""",
    """
print(array[2])
print("previous: ", array[2].previous)
print("next: ", array[2].next)
""",
    """
import multiprocessing as mp

array = Array(batch_shape=(5, 4), dtype=np.int32, storage="shared")

def write_to_piped_array(pipe):
    arr = pipe.recv()
    arr[...] = 42
from piped_array import write_to_piped_array

parent_pipe, child_pipe = mp.Pipe()
p = mp.Process(target=write_to_piped_array, args=(child_pipe,))
p.start()
parent_pipe.send(array[np.array([1, 3]), np.array([0, 2])])  # does not produce a copy
p.join()

print(array)

array.close()  # always close arrays allocated in shared memory
""",
]

ROWS = "[[0. 1. 2. 3.]\n [0. 1. 2. 3.]\n [0. 1. 2. 3.]\n [0. 1. 2. 3.]\n [0. 1. 2. 3.]]\n"
BEFORE = """[[-4. -3. -2. -1.]
 [ 0.  1.  2.  3.]
 [ 4.  5.  6.  7.]
 [ 8.  9. 10. 11.]
 [12. 13. 14. 15.]]
"""
NOW = """[[ 0.  1.  2.  3.]
 [ 4.  5.  6.  7.]
 [ 8.  9. 10. 11.]
 [12. 13. 14. 15.]
 [16. 17. 18. 19.]]
"""
AFTER = """[[ 4.  5.  6.  7.]
 [ 8.  9. 10. 11.]
 [12. 13. 14. 15.]
 [16. 17. 18. 19.]
 [ 0.  0.  0.  0.]]
"""
PRINTED = [
    ROWS,
    "[6. 6. 6. 6. 6.]\n",
    ROWS + "[4. 5. 6. 7.]\n" * 2,
    "[4. 5. 6. 7.]\n",
    f"{np.full((5, 4), 7.0)}\n{np.full((5, 4), 42.0)}\n",
    f"{NOW}previous:\n {BEFORE}next:\n {AFTER}",
    "[ 8.  9. 10. 11.]\nprevious:  [4. 5. 6. 7.]\nnext:  [12. 13. 14. 15.]\n",
    "[[ 0  0  0  0]\n [42  0  0  0]\n [ 0  0  0  0]\n [ 0  0 42  0]\n [ 0  0  0  0]]\n",
]


@pytest.mark.slow
def test_the_notebook_runs_cell_by_cell(capsys, monkeypatch):
    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr(multiprocessing, "Process", spawn.Process)
    namespace = {}
    for cell, want in zip(CELLS, PRINTED, strict=True):
        exec(cell, namespace)
        assert capsys.readouterr().out == want
