import argparse

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--points")
arguments = parser.parse_args()

run = Run.get_context()
for epoch in range(arguments.epochs):
    run.log("loss", 1 / (epoch + 1))
run.flush()
