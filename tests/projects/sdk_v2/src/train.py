import argparse
import csv

import mlflow


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", required=True)
    parser.add_argument("--rate", type=float, default=0.1)
    arguments = parser.parse_args()
    with open(arguments.points) as file:
        rows = list(csv.DictReader(file))
    slope = 0.0
    for epoch in range(50):
        error = sum((float(row["y"]) - slope * float(row["x"])) * float(row["x"]) for row in rows)
        slope += arguments.rate * error / len(rows)
        mlflow.log_metric("slope", slope, step=epoch)


if __name__ == "__main__":
    main()
