import time

import submit


def test_the_training_completes_and_leaves_a_model(tmp_path):
    ml = submit.client()
    job = submit.submit(ml, epochs=2)
    while (status := ml.jobs.get(job.name).status) not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.5)
    ml.jobs.download(job.name, download_path=str(tmp_path), all=True)
    files = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert status == "Completed", files.get("std_log.txt")
    assert files["model.txt"] == "trained for 2 epochs"
    assert "epoch 2 of 2" in files["std_log.txt"]
