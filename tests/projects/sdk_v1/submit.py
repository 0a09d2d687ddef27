from azureml.core import Dataset, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import MpiConfiguration

workspace = Workspace.from_config()
environment = Environment.from_pip_requirements("points", "environments/pip.txt")
environment.docker.base_image = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
data = Dataset.get_by_name(workspace, "points")

config = ScriptRunConfig(
    source_directory="training",
    script="train.py",
    arguments=["--epochs", 3, "--points", data.as_named_input("points").as_mount()],
    compute_target=workspace.compute_targets["mpi-cluster"],
    environment=environment,
    distributed_job_config=MpiConfiguration(process_count_per_node=2, node_count=2),
)
Experiment(workspace, "points").submit(config).wait_for_completion(show_output=True)
