from pathlib import Path

import yaml


def main():
    settings = yaml.safe_load(Path("configs/small.yml").read_text())
    print("sum", sum(range(settings["size"])))
