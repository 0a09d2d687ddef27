from azureml.core import Run

run = Run.get_context()
run.log("loss", 0.3)
