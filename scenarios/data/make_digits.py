"""Writes digits.csv from the data set that scikit-learn ships (Debian: python3-sklearn)."""

import os

import sklearn
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    digits = load_digits()
    with open(os.path.join(HERE, "digits.csv"), "w", encoding="ascii") as out:
        for image, label in zip(digits.data, digits.target):
            row = [int(pixel) for pixel in image] + [int(label)]
            assert len(row) == 65 and all(0 <= pixel <= 16 for pixel in row[:64]) and row[64] <= 9
            out.write(",".join(str(value) for value in row) + "\n")
    print(f"{len(digits.target)} images from scikit-learn {sklearn.__version__}")


if __name__ == "__main__":
    main()
