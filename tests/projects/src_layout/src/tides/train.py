import json
from pathlib import Path

from tides.model import fit, settings


def main():
    level = fit([1.0, 2.0, 3.0])
    Path("outputs").mkdir(exist_ok=True)
    Path("outputs/model.json").write_text(json.dumps({"level": level, **settings()}))
    print("level", level)


if __name__ == "__main__":
    main()
