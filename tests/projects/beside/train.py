import pickle

with open("model.pkl", "wb") as file:
    pickle.dump({"slope": 2.0}, file)
print("saved")
