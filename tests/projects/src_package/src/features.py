import numpy as np


def scale(values):
    return np.asarray(values) / max(values)
