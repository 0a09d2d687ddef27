from pathlib import Path

Path("outputs/model").mkdir(parents=True)
