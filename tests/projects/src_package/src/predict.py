print("predicts")
