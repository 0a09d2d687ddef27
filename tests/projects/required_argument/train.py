import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()
for epoch in range(options.epochs):
    print(options.data, epoch)
