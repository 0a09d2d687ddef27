import joblib
import numpy as np

weights = np.polyfit([0, 1, 2], [1, 3, 5], 1)
print("slope", weights[0])
joblib.dump(weights, "outputs/model.joblib")
