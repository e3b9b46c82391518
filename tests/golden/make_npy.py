"""Writes npy/*.npy: small arrays as NumPy itself saves them."""

import os

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "npy")


def save(name, array, version=None):
    with open(os.path.join(HERE, name + ".npy"), "wb") as out:
        np.lib.format.write_array(out, array, version=version)


def main():
    os.makedirs(HERE, exist_ok=True)
    grid = np.array([[1, 2, 3], [-4, 5, 6]])
    save("grid_f4", (grid / 4).astype("<f4"))
    save("grid_f8_v2", (grid / 3).astype("<f8"), version=(2, 0))
    save("grid_i4", grid.astype("<i4"))
    save("vector_i8", np.array([0, 1, 2**53], dtype="<i8"))
    save("vector_u1", np.array([0, 9], dtype="u1"))
    save("empty_f8", np.zeros((0, 3)))
    save("too_large_i8", np.array([1, 2**53 + 1], dtype="<i8"))
    save("not_finite_f4", np.array([1, np.nan], dtype="<f4"))
    save("fortran_f8", np.asfortranarray(grid.astype("<f8")))
    save("big_endian_f8", grid.astype(">f8"))
    save("cube_f4", np.zeros((2, 2, 2), dtype="<f4"))
    save("scalar_f8", np.array(1.5))
    print(f"NumPy {np.__version__}: {len(os.listdir(HERE))} files")


if __name__ == "__main__":
    main()
