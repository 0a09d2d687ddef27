import argparse

import mlflow
import pandas as pd
from sklearn.linear_model import LogisticRegression


def main(args):
    mlflow.autolog()
    frame = pd.read_csv(args.training_data)
    LogisticRegression(C=1 / args.reg_rate).fit(frame[["a"]], frame["b"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--training_data")
    parser.add_argument("--reg_rate", type=float)
    main(parser.parse_args())
